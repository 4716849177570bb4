"""Mistral: language model with a window and without, classification."""

import transformers as hf

from tests.models.parity import SHAPE, Row, causal, classify_text


def config(**changes) -> hf.MistralConfig:
    usual = {
        "vocab_size": 97,
        **SHAPE,
        "num_key_value_heads": 2,
        "max_position_embeddings": 40,
        "sliding_window": 4,
    }
    return hf.MistralConfig(**{**usual, **changes})


ODD = {
    "hidden_size": 36,
    "intermediate_size": 41,
    "num_hidden_layers": 1,
    "num_attention_heads": 6,
    "head_dim": 10,
    "rms_norm_eps": 1e-3,
    "tie_word_embeddings": True,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
    "sliding_window": None,
}

ROWS = [
    Row("mistral", lambda: hf.MistralForCausalLM(config()), causal(length=19)),
    Row("mistral odd", lambda: hf.MistralForCausalLM(config(**ODD)), causal(length=23)),
    Row(
        "mistral classifier",
        lambda: hf.MistralForSequenceClassification(config(num_labels=5, pad_token_id=0)),
        classify_text(),
    ),
]
