"""What two models are made of, compared part by part."""

import torch

import zoo
from zoo.models import BERT, LLaMA


def bert(**changes) -> BERT:
    return BERT(**{"dim": 16, "depth": 3, "heads": 2, "length": 9, **changes})


def test_equal_models_whether_their_weights_are_real_or_not():
    with torch.device("meta"):
        there = bert(dropout=0.5)  # which is left out
    assert zoo.anatomy(there) == zoo.anatomy(bert()) and not zoo.differences(there, bert())
    assert zoo.anatomy(there)["blocks.2.mixer.fn"].startswith("Attention(heads=2")


def test_one_number_that_differs():
    ours, theirs = bert(), bert()
    theirs.blocks[1].mixer.norm.eps = 0.25
    ((path, here, there),) = zoo.differences(ours, theirs)
    assert path == "blocks.1.mixer.norm" and "eps=1e-12" in here and here.replace("1e-12", "0.25") == there


def test_layers_that_differ_alike_are_one_row():
    rows = zoo.differences(bert(depth=12), bert(depth=12, act="relu"))
    assert [row[0] for row in rows] == ["blocks.0-11.ffn.fn"]
    ours, theirs = bert(depth=4), bert(depth=4)
    for i in (0, 2, 3):
        theirs.blocks[i].mixer.norm.eps = 0.25
    assert [row[0] for row in zoo.differences(ours, theirs)] == ["blocks.0,2,3.mixer.norm"]


def test_sizes_count_unless_they_are_left_out():
    ours, theirs = bert(), bert(dim=24, depth=5, heads=3, length=7)
    assert zoo.differences(ours, theirs) and not zoo.differences(ours, theirs, shapes=False)
    rows = zoo.differences(ours, bert(dim=24, depth=5, act="relu"), shapes=False)
    assert [row[0] for row in rows] == ["blocks.0-2.ffn.fn"]


def test_ties_are_parts():
    tied, untied = (zoo.MaskedLM(bert(), zoo.Ids(11), tie=tie) for tie in (True, False))
    assert zoo.differences(tied, untied) == [("head.out.weight", "the same as embed.table.weight", "")]


def test_settings_that_are_objects():
    scaling = zoo.Llama3Scaling(factor=8.0)
    shown = zoo.anatomy(LLaMA(16, 2, 2, hidden=24, scaling=scaling))["position"]
    assert "scaling=Llama3Scaling(factor=8, low=1, high=4, length=8192)" in shown
    again = LLaMA(16, 2, 2, hidden=24, scaling=zoo.Llama3Scaling(factor=8))
    assert zoo.anatomy(again)["position"] == shown
    rows = zoo.differences(again, LLaMA(16, 2, 2, hidden=24, scaling=zoo.Llama3Scaling(factor=32)))
    assert [row[0] for row in rows] == ["position"]
