"""What older files of published families leave out, add or call otherwise."""

import json
from functools import partial

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

import zoo
from tests.models.parity import causal, file_of, random_ids, seq2seq, worst
from tests.models.rows import gpt2, llama, mistral, t5
from zoo.models import GPT2, T5, LLaMA, Mistral


def older(folder, config: dict, tensors=lambda state: state, without: tuple[str, ...] = ()) -> None:
    """Change a directory as the reference wrote it."""
    path = folder / "config.json"
    written = {key: value for key, value in json.loads(path.read_text()).items() if key not in without}
    path.write_text(json.dumps({**written, **config}))
    save_file(tensors(load_file(folder / "model.safetensors")), folder / "model.safetensors")


def built(rows, name: str, folder):
    row = next(row for row in rows if row.name == name)
    theirs = row.build()
    theirs.save_pretrained(folder)
    return theirs


def agree(folder, theirs, run=None) -> None:
    with torch.no_grad():
        assert worst(*(run or causal())(zoo.load(folder), theirs)) < 1e-5


def test_gpt2_without_a_prefix_and_with_its_triangles(tmp_path):
    """As the first published file is."""
    theirs = built(gpt2.ROWS, "gpt2", tmp_path)

    def first(state):
        state = {name.removeprefix("transformer."): value for name, value in state.items()}
        triangles = {f"h.{i}.attn.bias": torch.ones(1, 1, 40, 40).tril() for i in range(3)}
        return {**state, **triangles, "h.0.attn.masked_bias": torch.tensor(-1e4)}

    kept = ("vocab_size", "n_embd", "n_layer", "n_head", "n_positions", "model_type", "architectures")
    without = tuple(set(json.loads((tmp_path / "config.json").read_text())) - set(kept))
    older(tmp_path, {}, first, without)
    agree(tmp_path, theirs)


@pytest.mark.parametrize("word", ["type", "rope_type"])
@pytest.mark.parametrize("name", ["llama linear", "llama odd"])
def test_llama_with_its_scaling_beside_theta(tmp_path, name, word):
    theirs = built(llama.ROWS, name, tmp_path)
    rope = dict(theirs.config.rope_parameters)
    theta, kind = rope.pop("rope_theta"), rope.pop("rope_type")
    extra = {
        f"model.layers.{i}.self_attn.rotary_emb.inv_freq": torch.ones(4) for i in range(theirs.config.num_hidden_layers)
    }
    older(
        tmp_path,
        {"rope_theta": theta, "rope_scaling": {word: kind, **rope}},
        lambda state: {**state, **extra},
        ("rope_parameters",),
    )
    agree(tmp_path, theirs, causal(length=23))
    written = json.loads((zoo.save(zoo.load(tmp_path), tmp_path / "ours") / "config.json").read_text())
    assert written["rope_parameters"] == theirs.config.rope_parameters
    assert written["rope_theta"] == theta and written["rope_scaling"] == {"rope_type": kind, **rope}


def test_llama_without_a_word_on_its_rotation(tmp_path):
    theirs = built(llama.ROWS, "llama", tmp_path)
    older(tmp_path, {}, without=("rope_parameters", "num_key_value_heads", "head_dim"))
    agree(tmp_path, theirs)
    written = json.loads((zoo.save(zoo.load(tmp_path), tmp_path / "ours") / "config.json").read_text())
    assert written["rope_scaling"] is None and written["max_position_embeddings"] == 40


def test_llama_that_sees_its_future_has_no_published_form(tmp_path):
    task = zoo.CausalLM(LLaMA(32, 1, 4, hidden=48), zoo.Ids(97))
    zoo.save(task, tmp_path)
    with pytest.raises(ValueError, match="mask=Full"):
        backbone, head = LLaMA(32, 1, 4, hidden=48, mask=zoo.Full()), partial(zoo.Project, bias=False)
        zoo.save(zoo.Classify(backbone, zoo.Ids(97), 3, pool=zoo.Last, head=head), tmp_path)


def test_scaling_of_other_kinds_is_refused(tmp_path):
    built(llama.ROWS, "llama", tmp_path)
    older(tmp_path, {"rope_scaling": {"type": "dynamic", "factor": 2.0}})
    with pytest.raises(ValueError, match="rope_type='dynamic' is not known; default, linear and llama3 are"):
        zoo.load(tmp_path)


def test_mistral_of_the_second_version_has_no_window(tmp_path):
    built(mistral.ROWS, "mistral odd", tmp_path)
    written = json.loads((zoo.save(zoo.load(tmp_path), tmp_path / "ours") / "config.json").read_text())
    assert written["sliding_window"] is None
    older(tmp_path, {}, without=("sliding_window",))
    assert zoo.load(tmp_path).backbone._arguments["window"] == 4096
    assert isinstance(zoo.load_backbone(str(tmp_path)), Mistral)


def test_t5_with_copies_of_its_table(tmp_path):
    theirs = built(t5.ROWS, "t5", tmp_path)

    def first(state):
        copies = {f"{half}.embed_tokens.weight": state["shared.weight"].clone() for half in ("encoder", "decoder")}
        unread = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
        return {**state, **copies, unread: torch.ones(32, 4), "lm_head.weight": state["shared.weight"].clone()}

    older(
        tmp_path,
        {},
        first,
        ("scale_decoder_outputs", "feed_forward_proj", "dense_act_fn", "is_gated_act", "num_decoder_layers"),
    )
    agree(tmp_path, theirs, seq2seq())
    assert isinstance(zoo.load(tmp_path).backbone, T5)


def test_t5_1_1_says_by_its_tie_that_it_does_not_scale(tmp_path):
    theirs = built(t5.ROWS, "t5 gated", tmp_path)
    older(tmp_path, {"tie_word_embeddings": False}, without=("scale_decoder_outputs",))
    agree(tmp_path, theirs, seq2seq())
    zoo.save(zoo.load(tmp_path), tmp_path / "ours")
    written = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert not written["tie_word_embeddings"] and not written["scale_decoder_outputs"]
    assert "lm_head.weight" in file_of(tmp_path / "ours")


def test_t5_with_another_map_is_refused(tmp_path):
    hf.T5ForConditionalGeneration(hf.T5Config(**t5.USUAL, feed_forward_proj="gated-silu")).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="T5Gated has"):
        zoo.load(tmp_path)


def test_decoders_are_pooled_at_their_last_real_token(tmp_path):
    built(gpt2.ROWS, "gpt2 classifier", tmp_path)
    task, tokens = zoo.load(tmp_path), random_ids(97, 11, 4)
    assert isinstance(task.backbone, GPT2)
    changed = random_ids(97, 11, 4)
    changed.value[1, -4:] = 9
    with torch.no_grad():
        assert torch.equal(task(changed), task(tokens))
