"""GPT-2: language model, classification."""

import transformers as hf

from tests.models.parity import Row, causal, classify_text


def config(**changes) -> hf.GPT2Config:
    return hf.GPT2Config(**{"vocab_size": 97, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 40, **changes})


ODD = {
    "n_embd": 30,
    "n_layer": 1,
    "n_head": 5,
    "n_positions": 17,
    "n_inner": 41,
    "activation_function": "relu",
    "layer_norm_epsilon": 1e-3,
    "tie_word_embeddings": False,
}

ROWS = [
    Row("gpt2", lambda: hf.GPT2LMHeadModel(config()), causal()),
    Row("gpt2 odd", lambda: hf.GPT2LMHeadModel(config(**ODD)), causal(length=17)),
    Row(
        "gpt2 classifier",
        lambda: hf.GPT2ForSequenceClassification(config(num_labels=5, pad_token_id=0)),
        classify_text(),
    ),
]
