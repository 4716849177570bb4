"""T5, T5 1.1 and mT5."""

import torch
import transformers as hf
from torch import nn

from tests.models.parity import Row, seq2seq

USUAL = {
    "vocab_size": 97,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 3,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
ODD = {
    "d_model": 30,
    "d_kv": 7,
    "d_ff": 41,
    "num_layers": 1,
    "num_decoder_layers": 2,
    "num_heads": 5,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 20,
    "layer_norm_epsilon": 1e-3,
    "decoder_start_token_id": 3,
}
GATED = {"feed_forward_proj": "gated-gelu"}


def t5(**changes) -> nn.Module:
    return hf.T5ForConditionalGeneration(hf.T5Config(**{**USUAL, **changes}))


def mt5() -> nn.Module:
    return hf.MT5ForConditionalGeneration(hf.MT5Config(**USUAL))


def untied(model: nn.Module) -> nn.Module:
    """With an output of its own, as 1.1 has it; the reference ties every T5 that it makes, but not those it reads."""
    model.lm_head.weight = nn.Parameter(torch.empty_like(model.lm_head.weight))
    return model


ROWS = [
    Row("t5", t5, seq2seq()),
    Row("t5 odd", lambda: t5(**ODD), seq2seq(length=37, target=29)),
    Row("t5 untied", lambda: untied(t5()), seq2seq()),
    Row("t5 gated", lambda: untied(t5(**GATED, tie_word_embeddings=False)), seq2seq()),
    Row("t5 gated odd", lambda: t5(**ODD, **GATED), seq2seq(length=37, target=29)),
    Row("t5 gated tied", lambda: t5(**GATED, tie_word_embeddings=False), seq2seq()),
    Row("mt5", lambda: untied(mt5()), seq2seq()),
]
