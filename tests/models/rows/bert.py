"""BERT: masked LM, pre-training, classification."""

import transformers as hf

from tests.models.parity import Row, classify_text, masked, sentences


def config(**changes) -> hf.BertConfig:
    usual = {
        "vocab_size": 97,
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 40,
    }
    return hf.BertConfig(**{**usual, **changes})


ODD = {
    "hidden_size": 30,
    "num_hidden_layers": 1,
    "num_attention_heads": 5,
    "intermediate_size": 41,
    "max_position_embeddings": 17,
    "hidden_act": "relu",
    "type_vocab_size": 3,
    "layer_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}

ROWS = [
    Row("bert", lambda: hf.BertForMaskedLM(config()), masked()),
    Row("bert odd", lambda: hf.BertForMaskedLM(config(**ODD)), masked(length=17), unused=("cls.predictions.bias",)),
    Row("bert bare", lambda: hf.BertModel(config()), sentences()),
    Row("bert classifier", lambda: hf.BertForSequenceClassification(config(num_labels=5)), classify_text()),
]
