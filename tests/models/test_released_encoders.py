"""Text encoders as they lie on the hub: old configs, the names of other years, tensors that nothing reads."""

import json

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from torch import nn

import zoo
from tests.models.parity import Row, masked, random_ids, worst
from tests.models.rows import bert, deberta, esm, roberta
from zoo.nn import HalfPrecision


def released(model: nn.Module, path, forget=(), tensors=None, rename=lambda name: name, **words) -> None:
    """Write a model as transformers does, then change its files."""
    model.save_pretrained(path)
    config = json.loads((path / "config.json").read_text())
    config = {key: value for key, value in config.items() if key not in forget} | words
    (path / "config.json").write_text(json.dumps(config))
    state = {rename(name): value for name, value in load_file(path / "model.safetensors").items()}
    save_file(state | (tensors or {}), path / "model.safetensors", {"format": "pt"})


def built(make, prepare=lambda model: None) -> nn.Module:
    return Row("", make, masked(), prepare).build()


def agree(path, theirs: nn.Module, vocabulary: int = 97) -> nn.Module:
    ours, pad = zoo.load(path), theirs.config.pad_token_id
    with torch.no_grad():
        assert worst(*masked(vocabulary, pad=pad)(ours, theirs)) < 1e-4
    return ours


def test_deberta_has_its_head_under_microsofts_names(tmp_path):
    theirs = built(lambda: hf.DebertaForMaskedLM(deberta.first(legacy=False)))
    unread = {"deberta.embeddings.position_embeddings.weight": torch.randn(40, 32)}
    unread["deberta.embeddings.position_ids"] = torch.arange(40)[None]
    forget = ("legacy", "architectures", "tie_word_embeddings", "pooler_hidden_size")
    released(theirs, tmp_path, forget, unread, pos_att_type="c2p|p2c")
    ours = agree(tmp_path, theirs)
    zoo.save(ours, tmp_path / "ours")
    again = hf.DebertaForMaskedLM.from_pretrained(tmp_path / "ours").eval()
    with torch.no_grad():
        assert worst(*masked()(ours, again)) < 1e-4


def test_deberta_v3_comes_with_a_discriminator(tmp_path):
    theirs = built(lambda: hf.DebertaV2ForMaskedLM(deberta.second(legacy=False)))
    unread = {
        f"mask_predictions.{name}": torch.randn(3) for name in ("dense.weight", "LayerNorm.bias", "classifier.bias")
    }
    released(theirs, tmp_path, ("legacy", "architectures"), unread, pos_att_type="p2c|c2p", attention_head_size=8)
    agree(tmp_path, theirs)


def test_roberta_with_copies_and_buffers(tmp_path):
    theirs = built(lambda: hf.RobertaForMaskedLM(roberta.config()))
    more = {"roberta.embeddings.position_ids": torch.arange(42)[None], "roberta.pooler.dense.bias": torch.randn(32)}
    more["lm_head.decoder.weight"] = theirs.lm_head.decoder.weight.detach().clone()
    more["lm_head.decoder.bias"] = theirs.lm_head.bias.detach().clone()
    released(theirs, tmp_path, ("tie_word_embeddings", "is_decoder", "add_cross_attention"), more)
    agree(tmp_path, theirs)


def older(name: str) -> str:
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
    return name.replace("layer.*.", "layer.0.")


@pytest.mark.parametrize("half", [False, True])
def test_esm_remembers_the_precision_of_its_frequencies(tmp_path, half):
    theirs = built(lambda: hf.EsmForMaskedLM(esm.config()), esm.half if half else lambda model: None)
    frequency = theirs.esm.rotary_embeddings.inv_freq
    more = {f"esm.encoder.layer.{i}.attention.self.rotary_embeddings.inv_freq": frequency.clone() for i in (1, 2)}
    more["esm.embeddings.position_embeddings.weight"] = torch.randn(40, 32)
    released(theirs, tmp_path, ("rope_theta",), more, older)
    ours = agree(tmp_path, theirs, 32)
    assert isinstance(ours.backbone.position.scaling, HalfPrecision) == half
    assert torch.equal(ours.backbone.contacts.weight, theirs.esm.contact_head.regression.weight)
    zoo.save(ours, tmp_path / "ours")
    agree(tmp_path / "ours", theirs, 32)


def test_esm_with_other_frequencies_is_refused(tmp_path):
    theirs = built(
        lambda: hf.EsmForMaskedLM(esm.config()), lambda model: model.esm.rotary_embeddings.inv_freq.mul_(1.01)
    )
    theirs.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="rope_theta=10000"):
        zoo.load(tmp_path)


BARE = {
    "bert": lambda: hf.BertModel(bert.config()),
    "roberta": lambda: hf.RobertaModel(roberta.config()),
    "deberta": lambda: hf.DebertaModel(deberta.first()),
    "deberta-v2": lambda: hf.DebertaV2Model(deberta.second(conv_kernel_size=3)),
    "esm": lambda: hf.EsmModel(esm.config()),
}


@pytest.mark.parametrize("name", BARE)
def test_a_model_without_a_head_embeds_texts(name, tmp_path):
    theirs = built(BARE[name])
    theirs.save_pretrained(tmp_path / "theirs")
    ours = zoo.load(tmp_path / "theirs")
    tokens = random_ids(32, 11, 4, theirs.config.pad_token_id)
    with torch.no_grad():
        states = theirs(input_ids=tokens.value, attention_mask=tokens.real.long()).last_hidden_state
        means = torch.stack([row[real].mean(0) for row, real in zip(states, tokens.real)])
        assert worst(ours(tokens), nn.functional.normalize(means, dim=-1)) < 1e-4
    zoo.save(ours, tmp_path / "ours")
    mine, published = (load_file(tmp_path / side / "model.safetensors") for side in ("ours", "theirs"))
    assert set(published) - set(mine) <= {"pooler.dense.weight", "pooler.dense.bias"}
    assert all(torch.allclose(value, published[key], atol=1e-6) for key, value in mine.items())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: hf.DebertaForMaskedLM(deberta.first(position_biased_input=True)), "position_biased_input=True"),
        (lambda: hf.DebertaForMaskedLM(deberta.first(relative_attention=False)), "relative_attention=False"),
        (lambda: hf.DebertaV2ForMaskedLM(deberta.second(share_att_key=False)), "share_att_key=False"),
        (lambda: hf.DebertaV2ForMaskedLM(deberta.second(pos_att_type=["c2p"])), r"pos_att_type=\['c2p'\]"),
        (
            lambda: hf.EsmForMaskedLM(esm.config(position_embedding_type="absolute")),
            "position_embedding_type='absolute'",
        ),
        (lambda: hf.EsmForMaskedLM(esm.config(token_dropout=False)), "token_dropout=False"),
    ],
)
def test_what_no_released_model_has_is_refused(make, words, tmp_path):
    make().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=words):
        zoo.load(tmp_path)
