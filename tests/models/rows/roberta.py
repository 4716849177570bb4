"""RoBERTa and its descendants: masked LM, classification, the model without a head."""

import transformers as hf

from tests.models.parity import ODD_SHAPE, SHAPE, Row, classify_text, masked, sentences

USUAL = {
    "vocab_size": 97,
    **SHAPE,
    "max_position_embeddings": 42,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
}
ODD = {
    **ODD_SHAPE,
    "max_position_embeddings": 19,
    "hidden_act": "relu",
    "type_vocab_size": 3,
    "layer_norm_eps": 1e-3,
    "tie_word_embeddings": False,
}


def config(kind: type = hf.RobertaConfig, **changes) -> hf.PreTrainedConfig:
    return kind(**{**USUAL, **changes})


ROWS = [
    Row("roberta", lambda: hf.RobertaForMaskedLM(config()), masked(pad=1)),
    Row(
        "roberta odd",
        lambda: hf.RobertaForMaskedLM(config(**ODD)),
        masked(length=17, pad=1),
        unused=("lm_head.bias",),
    ),
    Row(
        "roberta classifier",
        lambda: hf.RobertaForSequenceClassification(config(num_labels=5)),
        classify_text(pad=1),
    ),
    Row("roberta bare", lambda: hf.RobertaModel(config()), sentences(pad=1)),
    Row("xlm-roberta", lambda: hf.XLMRobertaForMaskedLM(config(hf.XLMRobertaConfig)), masked(pad=1)),
    Row(
        "camembert classifier",
        lambda: hf.CamembertForSequenceClassification(config(hf.CamembertConfig, num_labels=3)),
        classify_text(pad=1),
    ),
]
