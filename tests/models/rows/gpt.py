"""GPT, the first: language model, classification."""

import transformers as hf

from tests.models.parity import Row, causal, classify_text


def config(**changes) -> hf.OpenAIGPTConfig:
    return hf.OpenAIGPTConfig(
        **{"vocab_size": 97, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 40, **changes}
    )


ODD = {"n_embd": 30, "n_layer": 1, "n_head": 5, "n_positions": 17, "afn": "relu", "layer_norm_epsilon": 1e-3}

ROWS = [
    Row("gpt", lambda: hf.OpenAIGPTLMHeadModel(config()), causal()),
    Row("gpt odd", lambda: hf.OpenAIGPTLMHeadModel(config(**ODD, tie_word_embeddings=False)), causal(length=17)),
    Row(
        "gpt classifier",
        lambda: hf.OpenAIGPTForSequenceClassification(config(num_labels=5, pad_token_id=0)),
        classify_text(),
    ),
]
