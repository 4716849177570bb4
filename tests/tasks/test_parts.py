"""Schedules, masking, weight-decay groups and metrics, each against its definition."""

import math

import pytest
import torch
from torch import nn

from tests.tasks.conftest import TOKENIZERS, Repeat, backbone, batch
from zoo.tasks import BLEU, CER, WER, Classify, ExactMatch, RandomMasking, SpanMasking
from zoo.tasks.metrics import Meter
from zoo.tasks.optimizer import decay_groups, fuse
from zoo.tasks.schedule import Constant, InverseSquareRoot, Trapezoid, WarmupCosine, WarmupLinear


def test_schedules_by_hand():
    cosine = WarmupCosine(warmup=10, final=0.1)
    assert [cosine.factor(s, 110) for s in (5, 10, 60, 110)] == pytest.approx([0.5, 1.0, 0.55, 0.1])
    assert WarmupCosine(warmup=0.1).factor(5, 100) == pytest.approx(0.5)
    assert [WarmupLinear(warmup=10).factor(s, 110) for s in (10, 60, 110)] == pytest.approx([1.0, 0.5, 0.0])
    assert [Constant(warmup=4).factor(s, 100) for s in (2, 4, 99)] == [0.5, 1.0, 1.0]
    assert [InverseSquareRoot(100).factor(s, math.inf) for s in (50, 100, 400)] == pytest.approx([0.5, 1.0, 0.5])
    assert [Trapezoid(10, 0.2).factor(s, 100) for s in (5, 50, 90, 100)] == pytest.approx([0.5, 1.0, 0.5, 0.0])
    for schedule in (cosine, WarmupLinear(), Constant(), InverseSquareRoot(), Trapezoid()):
        assert all(0 <= schedule.factor(s, total) <= 1 for total in (7, 1000, math.inf) for s in range(0, 1200, 13))


def test_the_rate_moves_at_every_step(trainer):
    rates = []

    class Watch(torch.optim.SGD):
        def step(self, closure=None):
            rates.append(self.param_groups[0]["lr"])
            return super().step(closure)

    task = Classify(
        backbone(), TOKENIZERS["image"], 3, optimizer=lambda p: Watch(p, lr=1.0), schedule=WarmupLinear(warmup=4)
    )
    trainer(max_epochs=3, accumulate_grad_batches=2).fit(task, Repeat(batch("image"), 8))
    expected = [WarmupLinear(warmup=4).factor(step, 12) for step in range(12)]
    assert rates[1:] == pytest.approx(expected[1:])


@pytest.mark.parametrize("masking", [RandomMasking(0.3), SpanMasking(0.3, span=3)])
def test_masking_repeats_and_spares_padding(masking):
    real = torch.ones(64, 40, dtype=torch.bool)
    real[::2, 20:] = False
    keys = torch.arange(64)
    hidden = masking(real, keys)
    assert torch.equal(hidden, masking(real, keys)) and not torch.equal(hidden, masking(real, keys + 64))
    assert not (hidden & ~real).any() and hidden.any(1).all()
    assert 0.2 < hidden.sum() / real.sum() < 0.32
    assert torch.equal(hidden[3:5], masking(real[3:5], keys[3:5]))  # whatever else is in the batch


def test_random_masking_hides_an_exact_share_and_spans_are_contiguous():
    real, keys = torch.ones(50, 40, dtype=torch.bool), torch.arange(50)
    assert (RandomMasking(0.25)(real, keys).sum(1) == 10).all()
    hidden = SpanMasking(0.1, span=4)(real, keys)
    assert (hidden.sum(1) <= 4).all()
    for row in hidden:
        (where,) = row.nonzero(as_tuple=True)
        assert int(where[-1] - where[0]) == len(where) - 1
    with pytest.raises(ValueError, match=r"rate=1.5"):
        RandomMasking(1.5)


def test_only_matrices_decay_and_all_parameters_are_in_one_group():
    task = Classify(backbone(), TOKENIZERS["text"], 3)
    decay, no_decay = decay_groups(task)
    everything = {id(p) for p in task.parameters()}
    assert {id(p) for p in decay["params"]} | {id(p) for p in no_decay["params"]} == everything
    assert len(decay["params"]) + len(no_decay["params"]) == len(everything)
    assert all(p.dim() == 2 for p in decay["params"]) and no_decay["weight_decay"] == 0
    table = task.embed.table.weight
    assert any(p is table for p in no_decay["params"])


def test_fused_steps_equal_plain_ones():
    torch.manual_seed(0)
    first = nn.Linear(5, 5)
    second = nn.Linear(5, 5)
    second.load_state_dict(first.state_dict())
    plain = torch.optim.AdamW(first.parameters(), lr=0.1, foreach=False, fused=False)
    fused = fuse(torch.optim.AdamW(second.parameters(), lr=0.1))
    assert fused.param_groups[0]["fused"] and plain.param_groups[0]["fused"] is False
    for _ in range(3):
        for model, optimizer in ((first, plain), (second, fused)):
            optimizer.zero_grad()
            model(torch.ones(2, 5)).square().sum().backward()
            optimizer.step()
    torch.testing.assert_close(first.weight, second.weight)


def test_a_meter_weighs_by_tokens_not_by_batches():
    meter = Meter()
    meter.add({"loss": (torch.tensor(10.0), torch.tensor(1))})
    meter.add({"loss": (torch.tensor(2.0), torch.tensor(3))})
    assert meter.means() == {"loss": 3.0}


def test_text_metrics():
    assert BLEU()(["the cat sat on the mat"], ["the cat sat on the mat"]) == pytest.approx(100)
    assert WER()(["a b x"], ["a b c"]) == pytest.approx(1 / 3)
    assert CER()(["abx"], ["abcd"]) == pytest.approx(0.5)
    assert ExactMatch()(["a", "b"], ["a", "c"]) == 0.5
