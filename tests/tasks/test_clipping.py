"""Clipping beside torch's own, and the guard of a task, which is told the length that clipping measures."""

import copy
import math

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.plugins import MixedPrecision
from torch import nn

from tests.long.finite import AT, Numbers, Wrong, trainer
from zoo.callbacks import FiniteGuard
from zoo.parallel import optimizing
from zoo.tasks import Constant, Task
from zoo.tasks.clipping import Inspector
from zoo.tasks.optimizer import make_optimizer


class Line(Task):
    """A task of two layers, whose gradients are not finite at one step."""

    def __init__(self, value: float = 1.0, at: int = AT):
        super().__init__(torch.optim.AdamW, Constant())
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 1)
        self.value, self.at, self.updates = value, at, []

    def step(self, batch, training):
        x = self.first(batch.input.value).tanh()
        x = Wrong.apply(x, self.value) if self.trainer.global_step + 1 == self.at and self.value != 1 else x
        square = self.last(x).square()
        return {"loss": (square.sum(), torch.tensor(float(len(square))))}

    def on_before_zero_grad(self, optimizer) -> None:
        """What the last update used."""
        self.updates.append([w.grad.clone() for w in self.parameters() if w.grad is not None])


class ByItself(Line):
    """With a clipping of the user's own, which asks nobody."""

    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        torch.nn.utils.clip_grad_norm_(self.parameters(), gradient_clip_val)


class Lengths(pl.Callback, Inspector):
    """Keeps what it is shown."""

    def __init__(self) -> None:
        self.seen: list[tuple[float | None, float]] = []

    def inspect(self, trainer, module, optimizer, length) -> None:
        own = torch.cat([weight.grad.flatten() for weight in module.parameters()]).norm()
        self.seen.append((None if length is None else float(length), float(own)))


def made(kind=Line, value: float = 1.0) -> Line:
    pl.seed_everything(0, verbose=False)
    return kind(value)


def fitted(module: Line, folder, guard: FiniteGuard, *callbacks, **arguments) -> pl.Trainer:
    fit = trainer(folder, guard, use_distributed_sampler=False, **arguments)
    fit.callbacks.extend(callbacks)
    fit.fit(module, Numbers())
    return fit


@pytest.mark.parametrize("accumulated", [1, 2])
@pytest.mark.parametrize("most", [0.01, 1e6])
def test_gradients_are_those_that_torch_clips(most, accumulated, tmp_path):
    plain, module = made(), made()
    fitted(module, tmp_path, FiniteGuard(), gradient_clip_val=most, accumulate_grad_batches=accumulated)
    optimizer = make_optimizer(plain, plain.optimizer, None, 1.0)
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    batches = list(Numbers().train_dataloader())
    for begin in range(0, len(batches), accumulated):
        optimizer.zero_grad()
        for batch in batches[begin : begin + accumulated]:
            (plain.last(plain.first(batch.input.value).tanh()).square().sum() / 4 / accumulated).backward()
        torch.nn.utils.clip_grad_norm_(weights, most)
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), module.parameters(), strict=True))


def test_the_norm_is_measured_once_and_shown_before_it_is_shortened(tmp_path, monkeypatch):
    calls = []
    measure = optimizing.get_total_norm
    monkeypatch.setattr(optimizing, "get_total_norm", lambda *given: calls.append(1) or measure(*given))
    monkeypatch.setattr("zoo.callbacks.finite.get_total_norm", refuse)
    monkeypatch.setattr(FiniteGuard, "on_train_start", lambda *given: None)  # which looks at the weights
    monkeypatch.setattr(FiniteGuard, "on_save_checkpoint", lambda *given: None)
    lengths = Lengths()
    fitted(made(), tmp_path, FiniteGuard(), lengths, gradient_clip_val=1e-3)
    assert len(calls) == len(lengths.seen) == 16
    assert all(told == pytest.approx(own, rel=1e-5) and own > 1e-3 for told, own in lengths.seen)


def refuse(*given):
    raise AssertionError("measured twice")


WAYS = {
    "by norm": {"gradient_clip_val": 1.0},
    "by value": {"gradient_clip_val": 1.0, "gradient_clip_algorithm": "value"},
    "not at all": {"gradient_clip_val": None},
}


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("way, kind", [*((way, Line) for way in WAYS), ("by norm", ByItself)])
def test_a_task_is_stopped_before_the_update(way, value, kind, tmp_path):
    module = made(kind, value)
    sound = copy.deepcopy(module)
    sound.value = 1.0
    with pytest.raises(ValueError, match=rf"step {AT}: the gradient of first\.weight is (nan|inf) \(samples 36, 37"):
        fitted(module, tmp_path / "wrong", FiniteGuard(), **WAYS[way])
    fitted(sound, tmp_path / "sound", FiniteGuard(), **WAYS[way], max_steps=AT - 1)
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), sound.parameters(), strict=True))


@pytest.mark.parametrize("way", WAYS)
def test_a_step_of_a_task_is_left_out(way, tmp_path):
    module, guard = made(value=math.nan), FiniteGuard("skip")
    fit = fitted(module, tmp_path, guard, **WAYS[way])
    assert fit.global_step == 16 and guard.skipped == 1
    assert all(bool(weight.isfinite().all()) for weight in module.parameters())


def test_values_are_clipped_one_by_one(tmp_path):
    module = made()
    fitted(module, tmp_path, FiniteGuard(), gradient_clip_val=0.001, gradient_clip_algorithm="value")
    assert max(float(grad.abs().max()) for update in module.updates for grad in update) == pytest.approx(0.001)


def test_gradients_in_fp16_are_left_to_lightning(tmp_path):
    """Whose rules for optimizers that take the scale back themselves are its own."""
    scaler, lengths = torch.amp.GradScaler("cpu", init_scale=1024.0), Lengths()
    plugins = [MixedPrecision("16-mixed", "cpu", scaler)]
    module = made(value=math.inf)
    fit = fitted(module, tmp_path, FiniteGuard(), lengths, plugins=plugins)
    assert fit.global_step == 16 and scaler.get_scale() == 512
    assert {told for told, _ in lengths.seen} == {None}
