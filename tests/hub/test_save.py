"""What is refused when a model is saved, and what is kept."""

import json

import pytest
import torch
import transformers as hf

import zoo
from tests.models.parity import file_of
from zoo.generation import Beam
from zoo.models import LLaMA
from zoo.tokenizers import Tokens


def task(scaling: zoo.FrequencyScaling | None = None, tie: bool = True) -> zoo.CausalLM:
    return zoo.CausalLM(LLaMA(16, 2, 2, hidden=24, length=9, scaling=scaling), zoo.Ids(11), tie=tie)


def test_a_scaling_that_config_json_does_not_tell_is_not_saved(tmp_path):
    told, untold = task(scaling=zoo.LinearScaling(2.0)), task()
    zoo.save(told, tmp_path / "told")
    assert not zoo.differences(told, zoo.load(tmp_path / "told"))
    untold.backbone.position.scaling = zoo.LinearScaling(2.0)
    with pytest.raises(ValueError, match=r"backbone\.position is .*scaling=LinearScaling\(factor=2\).* and would be"):
        zoo.save(untold, tmp_path / "untold")
    assert not (tmp_path / "untold").exists()


def test_tables_that_happen_to_be_equal_are_both_saved(tmp_path):
    ours = task(tie=False)
    with torch.no_grad():
        ours.head.out.weight.copy_(ours.embed.table.weight)
    zoo.save(ours, tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["tie_word_embeddings"] is False
    state = file_of(tmp_path)
    assert torch.equal(state["lm_head.weight"], state["model.embed_tokens.weight"])
    theirs, told = hf.LlamaForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not told["missing_keys"] and not told["unexpected_keys"]
    assert theirs.lm_head.weight is not theirs.model.embed_tokens.weight
    again = zoo.load(tmp_path)
    assert again.head.out.weight is not again.embed.table.weight


def test_a_new_size_with_a_tokenizer_of_ones_own():
    task = zoo.create("gpt2", dim=16, depth=1, heads=2, tokenizer=zoo.BPE())
    assert task.embed.table.weight.shape == (260, 16) and task.head.out.weight is task.embed.table.weight
    assert task.head(task(task.tokenizer(["text"]))).shape == (1, 5, 260)
    whisper = zoo.create("whisper-tiny", dim=16, depth=1, heads=2)
    assert whisper.target_tokenizer.vocabulary == 51865


def test_a_checkpoint_is_loaded_for_inference_and_not_saved_from_it(tmp_path):
    task, ids = zoo.create("gpt2", dim=64, depth=1, heads=2, length=16).eval(), torch.tensor([[1, 2, 3]])
    zoo.save(task, tmp_path / "whole")
    whole = task.head(task(Tokens(ids)))
    for precision, close in {"fp32": 1e-5, "bf16": 0.05, "int8": 0.05, "int4": 0.2}.items():
        small = zoo.load(tmp_path / "whole", precision=precision)
        assert (small.head(small(Tokens(ids))) - whole).abs().max() < close * whole.abs().max()
        with pytest.raises(ValueError, match=f"{precision} weights have no published form; save the task that"):
            zoo.save(small, tmp_path / "small")
    assert not (tmp_path / "small").exists()
    with pytest.raises(ValueError, match="'fp16' is none of"):
        zoo.load(tmp_path / "whole", precision="fp16")


def test_how_a_model_writes_is_read_and_saved(tmp_path):
    """Ours asks for what the reference's own file asks for."""
    small = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "vocab_size": 97}
    small |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
    theirs = hf.BartForConditionalGeneration(hf.BartConfig(**small, max_position_embeddings=64))
    asked = {"num_beams": 3, "length_penalty": 2.0, "no_repeat_ngram_size": 3, "min_length": 5, "max_length": 20}
    asked |= {"early_stopping": True, "forced_bos_token_id": 0, "forced_eos_token_id": 2, "eos_token_id": 2}
    theirs.generation_config = hf.GenerationConfig(**asked, decoder_start_token_id=2, pad_token_id=1)
    theirs.save_pretrained(tmp_path / "theirs")
    ours = zoo.load(tmp_path / "theirs")
    assert isinstance(ours.generation.search, Beam) and ours.generation.search.width == 3
    assert ours.generation.length == 19 and ours.generation.last == (2,)
    zoo.save(ours, tmp_path / "ours")
    again = hf.GenerationConfig.from_pretrained(tmp_path / "ours")
    del asked["max_length"]  # of all tokens, and ours counts the new ones
    assert {key: getattr(again, key) for key in asked} == asked and again.max_new_tokens == 19
    ids = torch.randint(4, 97, (2, 9))
    found = ours.generate(ids)
    told = theirs.generate(ids)
    for row, expected in zip(found.tokens, told[:, 1:], strict=True):
        assert row.tolist() == expected[: len(row)].tolist() and set(expected[len(row) :].tolist()) <= {1}
    second = hf.BartForConditionalGeneration.from_pretrained(tmp_path / "ours")
    assert torch.equal(second.generate(ids), told)


def test_a_damaged_wish_is_told_with_its_file(tmp_path):
    zoo.save(zoo.create("gpt2", dim=32, depth=1, heads=2, length=16), tmp_path)
    (tmp_path / "generation_config.json").write_text('{"num_beams": "many"}')
    with pytest.raises(ValueError, match=r"generation_config\.json: num_beams='many'"):
        zoo.load(tmp_path)
