"""Training that is gone on with is the training that was not stopped: each bit of it."""

import csv
import random
from functools import partial
from pathlib import Path

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import EarlyStopping, EMAWeightAveraging, ModelCheckpoint
from torch.utils.data import Dataset

from tests.long.resume import POINTS, Few, classify, compare, training
from tests.long.stopping import UNEQUAL, Point, Seen, Training
from zoo.data import CropFlip
from zoo.data.order import Loader, Order
from zoo.models import ViT
from zoo.tasks import Classify
from zoo.tokenizers import Patches

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Savers without a directory take the current one."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", [name for name in POINTS if "batch" in name or "end of" in name])
def test_every_point_is_gone_on_from(name):
    assert compare("classify", 0, 2, [name]) == {name: []}


@pytest.mark.parametrize(("objective", "workers"), [("causal", 0), ("masked", 2)])
def test_text_and_workers_go_on_too(objective, workers, tmp_path):
    made = training(objective, tmp_path, workers, accumulate=1)
    stops = (Point("on_train_batch_end", 4), Point("on_validation_end", 6), Point("between", 9))
    assert made.run(tmp_path, *stops).same(made.run(tmp_path)) == []


def images(**arguments) -> Training:
    callbacks = arguments.pop("callbacks", list)
    return Training(classify, partial(Few, batch_size=9, seed=3, augment=CropFlip(1)), arguments, callbacks)


MANY = {
    "validation within an epoch": images(val_check_interval=2),
    "validation after so many batches": images(val_check_interval=4, check_val_every_n_epoch=None),
    "steps": images(max_steps=16, max_epochs=-1),
    "steps, validation at the end": images(max_steps=12, max_epochs=-1),
    "every other epoch": images(check_val_every_n_epoch=2, max_epochs=4),
    "bfloat16": images(precision="bf16-mixed"),
    "no validation": images(limit_val_batches=0),
    "the best, and early stopping": images(
        max_epochs=6, callbacks=lambda: [EarlyStopping("val/loss", patience=1), ModelCheckpoint(monitor="val/loss")]
    ),
    "averaged weights": images(callbacks=lambda: [EMAWeightAveraging(decay=0.8)]),
    "averaging after a number of steps": images(callbacks=lambda: [EMAWeightAveraging(update_every_n_steps=3)]),
}


@pytest.mark.parametrize("name", MANY)
def test_whatever_else_there_is(name, tmp_path):
    made = MANY[name]
    points = [Point("on_train_batch_end", 4), Point("on_train_batch_end", 7), Point("on_train_batch_end", 12)]
    if name not in ("no validation", "every other epoch"):
        points[2:] = [Point("on_validation_batch_end", 12, 1), Point("on_validation_end", 12)]
    whole = made.run(tmp_path)
    assert made.run(tmp_path, *points).same(whole) == []
    for point in points[2:]:
        assert made.run(tmp_path, point).same(whole) == [], point


class Randomly(Dataset):
    """A user's own: what it gives is drawn from the usual generators, in this process."""

    def __len__(self):
        return 22

    def __getitem__(self, pair):
        noise = torch.rand(4) + float(np.random.rand()) + random.random()
        return noise, torch.tensor(pair[1]) / 22


class Foreign(pl.LightningModule):
    """A module of a user's own, with dropout and schedules that watch a score."""

    def __init__(self, interval):
        super().__init__()
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
        self.interval = interval

    def loss(self, batch):
        return (self.model(batch[0])[:, 0] - batch[1]).square().mean()

    def training_step(self, batch, index):
        loss = self.loss(batch)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        self.log("val_loss", self.loss(batch) + torch.rand(()))

    def on_train_batch_end(self, outputs, batch, index):
        torch.rand(3)  # moves the random state before the next batch is read

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
        monitor = {"monitor": "val_loss" if self.interval == "epoch" else "loss", "interval": self.interval}
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, **monitor}}


class Own(pl.LightningDataModule):
    def loader(self, shuffle):
        return Loader(Randomly(), 4, sampler=Order(22, 3, shuffle=shuffle))

    def train_dataloader(self):
        return self.loader(True)

    def val_dataloader(self):
        return self.loader(False)


@pytest.mark.parametrize("interval", ["epoch", "step"])
def test_a_module_and_transforms_of_ones_own(interval, tmp_path):
    def task():
        torch.manual_seed(0)
        return Foreign(interval)

    made = Training(task, Own)
    whole = made.run(tmp_path)
    rates = {group["lr"] for state in whole.final["optimizer_states"] for group in state["param_groups"]}
    assert rates < {0.05, 0.025, 0.0125} or interval == "step"  # the schedule has acted
    for hook in ("on_train_batch_end", "on_validation_end", "on_train_epoch_end", "between"):
        assert made.run(tmp_path, Point("on_train_batch_end", 4), Point(hook, 12)).same(whole) == [], hook
    assert made.run(tmp_path, Point("on_validation_batch_end", 6, 2), Point("between", 9)).same(whole) == []


def test_gradients_that_are_being_accumulated_are_kept(tmp_path):
    made = images(accumulate_grad_batches=4)
    stops = (Point("on_train_batch_end", 7), Point("on_train_batch_end", 15))
    assert made.run(tmp_path, *stops).same(made.run(tmp_path)) == []


@pytest.mark.parametrize("hook", ["on_train_batch_end", "on_validation_end", "on_train_epoch_end"])
@pytest.mark.parametrize("number", [10, 12])
def test_checkpoints_of_lightning_alone_come_out_right(hook, number, tmp_path):
    """They are those of the first release.  What it counts wrongly after going on from a last batch is put right."""
    if number == 10 and hook != "on_train_batch_end":
        return
    exact = images(max_epochs=4)
    exact.task = without_dropout
    plain = Training(exact.task, exact.data, exact.arguments, exact=False)
    whole, seen = exact.run(tmp_path), Seen()
    last = plain.stop(Point("on_train_batch_end", 6), tmp_path / "1.ckpt", seen)
    last = plain.stop(Point(hook, number), tmp_path / "2.ckpt", seen, last)
    exact.end(tmp_path / "end.ckpt", seen, last)
    assert set(seen.same(whole)) <= {"rows", "calls"}  # what Lightning left out before
    rest = [call for call in whole.calls if call[2] > number]
    assert seen.calls[-len(rest) :] == rest


def without_dropout():
    torch.manual_seed(0)
    return Classify(ViT(dim=8, depth=1, heads=2, grid=4, prefix=0), Patches(8, 2, 1), classes=10)


def test_another_batch_size_ends_the_epoch_with_its_last_sample(tmp_path):
    first, second = (Training(classify, partial(Few, batch_size=size, seed=3), {"max_epochs": 2}) for size in (9, 4))
    whole, seen = first.run(tmp_path), Seen()
    last = first.stop(Point("on_train_batch_end", 2), tmp_path / "1.ckpt", seen)
    last = second.stop(Point("on_train_batch_end", 4), tmp_path / "2.ckpt", seen, last)
    second.end(tmp_path / "end.ckpt", seen, last)
    keys = [key for number in sorted(seen.keys) for key in seen.keys[number]]
    assert keys == [key for number in sorted(whole.keys) for key in whole.keys[number]]
    assert [call[0] for call in seen.calls] == [call[0] for call in whole.calls]


def test_metrics_of_a_run_that_is_gone_on_with_are_those_of_one_that_was_not(command):
    """Stopped where the row of a step is not written yet, and killed later: the rows behind are written anew."""
    words = ("fit", "--config", "digits", "--trainer.max_epochs=2", "--trainer.limit_train_batches=6")
    words += ("--trainer.log_every_n_steps=2", "--model.backbone.dropout=0.2")
    saver = ("--trainer.callbacks+=ModelCheckpoint", "--trainer.callbacks.every_n_train_steps=8")
    assert command(*words, *saver, "--trainer.callbacks.filename=some").code == 0
    (run,) = Path("runs").iterdir()
    whole, some = rows(run), run / "checkpoints" / "some.ckpt"
    assert torch.load(some, weights_only=True)["global_step"] == 8
    assert command("fit", str(run), "--ckpt_path", str(some)).code == 0
    assert rows(run) == whole and len(whole) == 8


def rows(run: Path) -> list[dict[str, str]]:
    with open(run / "metrics.csv", newline="") as file:
        return [{k: v for k, v in row.items() if k not in UNEQUAL} for row in csv.DictReader(file)]


def test_a_run_that_was_never_validated_goes_on_to_an_end_within_an_epoch(command):
    """Savers that watch a score warn that it was never measured, as in a run that was not stopped."""
    words = ("--trainer.limit_train_batches=6",)
    assert command("fit", "--config", "digits", "--trainer.max_steps=2", *words).code == 0
    (run,) = Path("runs").iterdir()
    answer = command("fit", str(run), "--trainer.max_steps=3", *words)
    assert answer.code == 0, answer.err
