"""DeBERTa in both forms: masked LM, classification."""

import transformers as hf

from tests.models.parity import ODD_SHAPE, SHAPE, Row, classify_text, masked, sentences

USUAL = {
    "vocab_size": 97,
    **SHAPE,
    "max_position_embeddings": 40,
    "relative_attention": True,
    "position_biased_input": False,
    "pos_att_type": ["c2p", "p2c"],
}
ODD = {
    **ODD_SHAPE,
    "hidden_act": "relu",
    "layer_norm_eps": 1e-3,
}


def first(**changes) -> hf.DebertaConfig:
    return hf.DebertaConfig(**{**USUAL, **changes})


def second(**changes) -> hf.DebertaV2Config:
    third = {"position_buckets": 8, "share_att_key": True, "norm_rel_ebd": "layer_norm"}
    return hf.DebertaV2Config(**{**USUAL, **third, **changes})


UNTIED = {**ODD, "tie_word_embeddings": False, "type_vocab_size": 2, "max_relative_positions": 6}
CONVOLVED = {"conv_kernel_size": 3, "conv_act": "tanh"}

ROWS = [
    Row("deberta", lambda: hf.DebertaForMaskedLM(first()), masked()),
    Row(
        "deberta odd",
        lambda: hf.DebertaForMaskedLM(first(**UNTIED)),
        masked(length=17),
        unused=("cls.predictions.bias",),
    ),
    Row("deberta c2p", lambda: hf.DebertaForMaskedLM(first(pos_att_type=["c2p"], **ODD)), masked()),
    Row("deberta p2c", lambda: hf.DebertaForMaskedLM(first(pos_att_type="p2c")), masked(length=5)),
    Row("deberta classifier", lambda: hf.DebertaForSequenceClassification(first(num_labels=5)), classify_text()),
    Row("deberta-v2", lambda: hf.DebertaV2ForMaskedLM(second()), masked(length=30)),
    Row(
        "deberta-v2 odd",
        lambda: hf.DebertaV2ForMaskedLM(second(**{**UNTIED, "position_buckets": -1})),
        masked(length=17),
        unused=("cls.predictions.bias",),
    ),
    Row("deberta-v2 convolved", lambda: hf.DebertaV2ForMaskedLM(second(**CONVOLVED)), masked(length=17)),
    Row(
        "deberta-v2 convolved odd",
        lambda: hf.DebertaV2ForMaskedLM(second(conv_kernel_size=5, conv_act="gelu", **ODD)),
        masked(),
    ),
    Row("deberta-v2 bare", lambda: hf.DebertaV2Model(second()), sentences()),
    Row("deberta-v2 classifier", lambda: hf.DebertaV2ForSequenceClassification(second(num_labels=5)), classify_text()),
]
