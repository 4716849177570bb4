"""The guard beside plain loops: what it stops, what it leaves out, and what it lets pass."""

import copy
import itertools
import math

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.plugins import MixedPrecision

from tests.callbacks.pair import together
from tests.long.finite import AT, PLACES, VALUES, Numbers, Regression, attempt, good, trainer
from zoo.callbacks import FiniteGuard


@pytest.mark.parametrize("place, value", list(itertools.product(PLACES, VALUES)))
def test_it_stops_before_the_update_and_says_what_is_wrong(place, value, tmp_path):
    outcome = attempt(place, value, tmp_path)
    assert good(outcome, place), outcome


@pytest.mark.parametrize("accumulated", [1, 2])
@pytest.mark.parametrize("place", ["loss", "gradient", "batch"])
def test_a_step_that_is_left_out_changes_nothing(place, accumulated, tmp_path):
    pl.seed_everything(0, verbose=False)
    guard, module, at = FiniteGuard("skip"), Regression(place, at=3), 3
    expected = copy.deepcopy(module)
    fit = trainer(tmp_path, guard, accumulate_grad_batches=accumulated)
    fit.fit(module, Numbers())
    optimizer = expected.configure_optimizers()
    batches = list(Numbers().train_dataloader())
    for step in range(1, len(batches) // accumulated + 1):
        if step == at:
            continue
        optimizer.zero_grad()
        for batch in batches[(step - 1) * accumulated : step * accumulated]:
            loss = expected.last(expected.first(batch.input.value).tanh()).square().mean()
            (loss / accumulated).backward()
        torch.nn.utils.clip_grad_norm_(expected.parameters(), 1.0)
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), expected.parameters()))
    assert guard.skipped == 1 and fit.callback_metrics["skipped_steps"] == 1
    assert fit.global_step == len(batches) // accumulated
    checkpoint = torch.load(tmp_path / "last.ckpt", weights_only=True)
    assert checkpoint["callbacks"]["FiniteGuard"] == {"skipped": 1}


def test_weights_that_are_lost_end_training_also_where_steps_are_left_out(tmp_path):
    with pytest.raises(ValueError, match=r"step 10: the loss is nan.*last\.weight is not finite: go on from"):
        trainer(tmp_path, FiniteGuard("skip")).fit(Regression("weights"), Numbers())


def test_weights_are_looked_at_before_training(tmp_path):
    module = Regression()
    module.first.bias.data[2] = math.inf
    with pytest.raises(ValueError, match="the model begins with a value that is not finite, in first.bias"):
        trainer(tmp_path, FiniteGuard()).fit(module, Numbers())


def test_a_checkpoint_with_a_bad_optimizer_is_named(tmp_path):
    trainer(tmp_path, FiniteGuard()).fit(Regression(), Numbers())
    path = tmp_path / "last.ckpt"
    checkpoint = torch.load(path, weights_only=True)
    checkpoint["optimizer_states"][0]["state"][0]["exp_avg"][0] = math.nan
    torch.save(checkpoint, path)
    with pytest.raises(ValueError, match=r"last\.ckpt has a value that is not finite, in the state of AdamW"):
        trainer(tmp_path / "more", FiniteGuard(), max_epochs=2).fit(Regression(), Numbers(), ckpt_path=path)


def test_a_buffer_may_be_infinite_from_the_beginning(tmp_path):
    module = Regression()
    module.register_buffer("mask", torch.full((2, 2), -math.inf).triu(1))
    trainer(tmp_path, FiniteGuard()).fit(module, Numbers())
    assert (tmp_path / "last.ckpt").is_file()
    module.register_buffer("mean", torch.full((2,), math.nan))
    with pytest.raises(ValueError, match="in mean"):
        trainer(tmp_path, FiniteGuard()).fit(module, Numbers())


class Leap(Regression):
    """Its gradients are finite, and its updates are not."""

    def training_step(self, batch, batch_idx):
        return 1e6 * super().training_step(batch, batch_idx)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e38)


def test_a_checkpoint_with_weights_that_are_not_finite_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="step 1: .* is not finite: no checkpoint of it is written"):
        trainer(tmp_path, FiniteGuard(), gradient_clip_val=None).fit(Leap(), Numbers())
    assert not (tmp_path / "last.ckpt").exists()


def half(scale: float) -> dict:
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    return {"plugins": [MixedPrecision("16-mixed", "cpu", scaler)], "precision": None}


def test_gradients_in_fp16_are_the_scaler_s_business_until_its_scale_is_tiny(tmp_path):
    fit = trainer(tmp_path, FiniteGuard(), **half(1024.0))
    fit.fit(Regression("gradient", math.inf), Numbers())
    assert fit.global_step == 16 and fit.precision_plugin.scaler.get_scale() == 512
    with pytest.raises(ValueError, match=r"step 10: the gradient of first\.weight is (nan|inf)"):
        trainer(tmp_path, FiniteGuard(), **half(1e-5)).fit(Regression("gradient", math.inf), Numbers())
    with pytest.raises(ValueError, match="step 10: the loss is nan"):
        trainer(tmp_path, FiniteGuard(), **half(1024.0)).fit(Regression("loss"), Numbers())


def test_large_gradients_pass(tmp_path):
    """Their squares overflow; clipping makes nothing of them."""
    fit = trainer(tmp_path, FiniteGuard())
    fit.fit(Regression("gradient", 1e30), Numbers())
    assert fit.global_step == 16


class Scored(Regression):
    """Its validations have the given scores."""

    def __init__(self, scores: list[float]):
        super().__init__()
        self.scores = scores

    def validation_step(self, batch, batch_idx):
        self.log("val/loss", torch.tensor(self.scores[self.current_epoch]))


def scored(scores: list[float], folder, mode: str = "min") -> ModelCheckpoint:
    best = ModelCheckpoint(folder, "best-{step}", monitor="val/loss", mode=mode)
    trainer(folder, FiniteGuard(), callbacks=[FiniteGuard(), best], max_epochs=len(scores)).fit(
        Scored(scores), Numbers()
    )
    return best


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_score_that_is_not_finite_is_no_improvement(value, tmp_path, caplog):
    best = scored([0.5, value, 0.6], tmp_path)
    assert best.best_model_score == 0.5 and best.best_model_path.endswith("step=16.ckpt")
    assert [record.message for record in caplog.records if record.name == "zoo.callbacks.finite"] == [
        f"zoo: step 32: val/loss is {value}: worse than any number"
    ]


@pytest.mark.parametrize("mode, value", [("min", -math.inf), ("max", math.inf)])
def test_a_score_that_nothing_could_improve_on_ends_training(mode, value, tmp_path):
    with pytest.raises(ValueError, match="step 32: val/loss is -?inf, which nothing could improve on"):
        scored([0.5, value], tmp_path, mode)
    assert [path.name for path in tmp_path.glob("*.ckpt")] == ["best-step=16.ckpt"]


def test_a_choice_that_does_not_exist():
    with pytest.raises(ValueError, match="on_nonfinite='go': there are 'stop' and 'skip'"):
        FiniteGuard("go")


class OfRankOne(Regression):
    """Only one process has a loss that is not finite, and its gradient is."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return loss + (math.inf if self.global_rank == 1 and self.global_step + 1 == AT else 0)


def two(folder, choice: str) -> None:
    guard, module = FiniteGuard(choice), OfRankOne()
    try:
        fit = trainer(folder, guard, devices=2, strategy="ddp", use_distributed_sampler=False)
        fit.fit(module, Numbers())
    finally:
        record = {"skipped": guard.skipped, "step": fit.global_step, "weights": module.state_dict()}
        torch.save(record, folder / f"rank-{module.global_rank}.pt")


def test_all_processes_leave_out_the_same_steps(tmp_path):
    assert together(two, tmp_path, "skip") == [0, 0], (tmp_path / "log-0").read_text()
    first, second = (torch.load(tmp_path / f"rank-{rank}.pt") for rank in (0, 1))
    assert first["skipped"] == second["skipped"] == 1 and first["step"] == second["step"] == 16
    assert all(torch.equal(first["weights"][name], second["weights"][name]) for name in first["weights"])


def test_all_processes_stop_at_the_same_step_and_say_the_same(tmp_path):
    assert together(two, tmp_path, "stop") == [1, 1]
    assert all(torch.load(tmp_path / f"rank-{rank}.pt")["step"] == AT - 1 for rank in (0, 1))
    line = f"ValueError: step {AT}: the loss is inf in process 1 (samples 36, 37, 38, 39): stopped before the update"
    assert all(line in (tmp_path / f"log-{rank}").read_text() for rank in (0, 1))
