"""Loaded decoders write, step by step with a cache, what the reference writes."""

import pytest
import torch
import transformers as hf
from torch import nn

import zoo
from tests.models.parity import Row, random_ids, worst
from tests.models.rows import gpt, gpt2, llama, mistral, t5
from zoo.nn import Cache
from zoo.tokenizers import Tokens

DECODERS = [row for family in (gpt, gpt2, llama, mistral) for row in family.ROWS if not row.name.endswith("classifier")]
PROMPT, NEW = 7, 8


def build(row: Row) -> nn.Module:
    """A reference that never stops by itself."""
    theirs = row.build()
    theirs.config.eos_token_id = None
    start = getattr(theirs.config, "decoder_start_token_id", None)
    theirs.generation_config = hf.GenerationConfig(
        do_sample=False, max_new_tokens=NEW, pad_token_id=0, decoder_start_token_id=start
    )
    return theirs


@pytest.mark.parametrize("row", DECODERS, ids=lambda row: row.name)
def test_decoders(row: Row, tmp_path):
    theirs, prompt = build(row), random_ids(97, PROMPT, 0).value
    theirs.save_pretrained(tmp_path)
    ours = zoo.load(tmp_path)
    told = theirs.generate(
        prompt, attention_mask=torch.ones_like(prompt), return_dict_in_generate=True, output_logits=True
    )
    ids = told.sequences
    assert ids.shape == (2, PROMPT + NEW) and torch.equal(ours.generate(prompt, NEW), ids)

    cache, states = Cache(), []
    with torch.no_grad():
        for new in (prompt, *ids[:, PROMPT:-1].split(1, 1)):
            states.append(ours(Tokens(new), cache)[:, -1])
        assert worst(ours.head(torch.stack(states, 1)), torch.stack(told.logits, 1)) < 1e-4


@pytest.mark.parametrize("row", t5.ROWS, ids=lambda row: row.name)
def test_encoder_decoders(row: Row, tmp_path):
    """The reference decodes without a cache, which it makes for as many layers as its encoder has."""
    theirs, source = build(row), random_ids(97, 9, 4)
    theirs.save_pretrained(tmp_path)
    ids = theirs.generate(source.value, attention_mask=source.real.long(), use_cache=False)
    assert ids.shape == (2, 1 + NEW)
    assert torch.equal(torch.stack(zoo.load(tmp_path).generate(source, NEW)), ids[:, 1:])
