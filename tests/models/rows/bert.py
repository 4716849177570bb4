"""BERT: masked LM, pre-training, classification."""

import transformers as hf

from tests.models.parity import ODD_SHAPE, SHAPE, Row, classify_text, masked, sentences


def config(**changes) -> hf.BertConfig:
    usual = {
        "vocab_size": 97,
        **SHAPE,
        "max_position_embeddings": 40,
    }
    return hf.BertConfig(**{**usual, **changes})


ODD = {
    **ODD_SHAPE,
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
