"""Sentences A and B: the types of tokens reach the model as the reference's token_type_ids do."""

import pytest
import torch
import transformers as hf

import zoo
from tests.models.parity import Row, random_ids, worst
from tests.models.rows import bert, deberta, roberta

MODELS = {
    "bert": lambda: hf.BertForSequenceClassification(bert.config(num_labels=3)),
    "roberta": lambda: hf.RobertaForSequenceClassification(roberta.config(type_vocab_size=4, num_labels=3)),
    "deberta": lambda: hf.DebertaForSequenceClassification(deberta.first(type_vocab_size=2, num_labels=3)),
    "deberta-v2": lambda: hf.DebertaV2ForSequenceClassification(deberta.second(type_vocab_size=2, num_labels=3)),
}


@pytest.mark.parametrize("name", MODELS)
def test_types_of_tokens(name, tmp_path):
    theirs = Row(name, MODELS[name], lambda ours, theirs: None).build()
    theirs.save_pretrained(tmp_path)
    ours = zoo.load(tmp_path)
    tokens = random_ids(97, 12, 3, theirs.config.pad_token_id)
    tokens.types = (torch.arange(12) >= 5).long().expand(2, -1)
    with torch.no_grad():
        mask = tokens.real.long()
        logits = theirs(input_ids=tokens.value, attention_mask=mask, token_type_ids=tokens.types).logits
        assert worst(ours(tokens), logits) < 1e-4
        without = theirs(input_ids=tokens.value, attention_mask=mask).logits
        tokens.types = None
        assert worst(ours(tokens), without) < 1e-4
    assert worst(without, logits) > 1e-3
