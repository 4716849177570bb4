"""The loss of the tasks that predict tokens is the same, whether all logits are made at once or some at a time."""

import importlib

import pytest
import torch

from tests.tasks.conftest import TOKENIZERS, backbone, batch, both
from zoo.nn import Causal, Shifted, TransformHead
from zoo.tasks import CausalLM, MaskedLM, Seq2Seq
from zoo.tokenizers import BPE, Batch

MODULE = importlib.import_module("zoo.nn.cross_entropy")
TEXT = BPE()
TASKS = {
    "masked": lambda: MaskedLM(backbone(), TEXT, head=TransformHead),
    "causal": lambda: CausalLM(backbone(Causal()), TEXT),
    "untied": lambda: CausalLM(backbone(Causal()), TEXT, tie=False),
    "seq2seq": lambda: Seq2Seq(both(), TEXT, label_smoothing=0.1, head=Shifted),
}


def scored(task, data: Batch, training: bool) -> tuple[dict, dict]:
    task.zero_grad()
    scores = task.step(data, training)
    total, weight = scores["loss"]
    if training:
        (total / weight).backward()
    means = {name: float(score.detach() / count) for name, (score, count) in scores.items()}
    return means, {name: weight.grad for name, weight in task.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("name", TASKS)
def test_some_logits_at_a_time_are_worth_all_at_once(name, monkeypatch):
    task = TASKS[name]()
    data = batch("text", "text" if name == "seq2seq" else None)
    plain = {training: scored(task, data, training) for training in (True, False)}
    monkeypatch.setattr(MODULE, "FEW", 0)
    monkeypatch.setattr(MODULE, "ON_CPU", 3 * TEXT.vocabulary)
    calls, sweep = [], MODULE.sweep
    monkeypatch.setattr(MODULE, "sweep", lambda *rest: calls.append(1) or sweep(*rest))
    for training, (means, gradients) in plain.items():
        found, theirs = scored(task, data, training)
        assert found == pytest.approx(means, rel=1e-5) and found.keys() == means.keys()
        assert gradients.keys() == theirs.keys()
        for weight, gradient in gradients.items():
            assert torch.allclose(theirs[weight], gradient, atol=1e-6, rtol=1e-4), weight
    assert len(calls) == 2 and {"loss", "accuracy"} <= means.keys()


def test_features_are_scored_as_predicted():
    task, data = CausalLM(backbone(Causal()), TOKENIZERS["image"]), batch("image")
    states, target = task(data.input)[:, :-1], data.input.value[:, 1:]
    wanted = task.tokenizer.score(task.head(states.flatten(0, 1)), target.flatten(0, 1))["loss"]
    found = task.step(data, True)["loss"]
    assert torch.equal(found[0], wanted[0]) and torch.equal(found[1], wanted[1])
