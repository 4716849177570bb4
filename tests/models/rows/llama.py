"""LLaMA: language model with and without grouped queries, tied tables and scaled rotations, classification."""

import transformers as hf

from tests.models.parity import SHAPE, Row, causal, classify_text


def config(**changes) -> hf.LlamaConfig:
    usual = {
        "vocab_size": 97,
        **SHAPE,
        "max_position_embeddings": 40,
    }
    return hf.LlamaConfig(**{**usual, **changes})


ODD = {
    "hidden_size": 36,
    "intermediate_size": 41,
    "num_hidden_layers": 1,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 10,
    "rms_norm_eps": 1e-3,
    "tie_word_embeddings": True,
    "rope_parameters": {
        "rope_type": "llama3",
        "rope_theta": 500.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 12,
    },
}
LINEAR = {"rope_type": "linear", "rope_theta": 100.0, "factor": 2.5}

ROWS = [
    Row("llama", lambda: hf.LlamaForCausalLM(config()), causal()),
    Row("llama odd", lambda: hf.LlamaForCausalLM(config(**ODD)), causal(length=37)),
    Row("llama linear", lambda: hf.LlamaForCausalLM(config(rope_parameters=LINEAR)), causal(length=23)),
    Row(
        "llama classifier",
        lambda: hf.LlamaForSequenceClassification(config(num_labels=5, pad_token_id=0)),
        classify_text(),
    ),
]
