"""Small trainings in this process that can be stopped at any point and gone on with, and what they leave to compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Checkpoint, ModelCheckpoint
from lightning.pytorch.loggers.logger import Logger

from zoo.callbacks import ExactResume, Throughput

UNEQUAL = ("seconds", "samples_per_s", "tokens_per_s", "mfu")  # what no clock repeats


@dataclass
class Seen:
    """What a training did; of one that was stopped and gone on with, all its parts."""

    losses: dict[int, str] = field(default_factory=dict)  # by the batch, counted over all epochs
    keys: dict[int, list[int]] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    calls: list[tuple] = field(default_factory=list)  # epochs and validations, as they began and ended
    final: dict[str, Any] = field(default_factory=dict)

    def same(self, other: Seen) -> list[str]:
        """The names of what differs."""
        found = [name for name in ("losses", "keys", "rows", "calls") if getattr(self, name) != getattr(other, name)]
        return found + [name for name in self.final if not equal(self.final[name], other.final.get(name))]


def equal(one: Any, other: Any) -> bool:
    """Bit for bit."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(equal, one, other))
    return one == other


class Witness(pl.Callback):
    """Writes down what happens."""

    def __init__(self, seen: Seen):
        self.seen = seen

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        number = trainer.fit_loop.total_batch_idx
        self.seen.losses[number] = outputs["loss"].item().hex()
        key = getattr(batch, "key", None)
        self.seen.keys[number] = [] if key is None else key.tolist()

    def on_train_epoch_start(self, trainer, module):
        self.seen.calls.append(("epoch", trainer.current_epoch, trainer.global_step))

    def on_train_epoch_end(self, trainer, module):
        self.seen.calls.append(("epoch ends", trainer.current_epoch, trainer.global_step))

    def on_validation_end(self, trainer, module):
        if not trainer.sanity_checking:
            scores = {name: float(value).hex() for name, value in trainer.callback_metrics.items() if "val" in name}
            self.seen.calls.append(("validation", trainer.current_epoch, trainer.global_step, tuple(scores.items())))


class Rows(Logger):
    """Keeps the rows of metrics, as metrics.csv would."""

    def __init__(self, seen: Seen):
        super().__init__()
        self.seen = seen

    name = version = property(lambda self: "rows")

    def log_hyperparams(self, *args, **kwargs):
        pass

    def log_metrics(self, metrics, step=None):
        self.seen.rows.append({"step": step, **{k: v for k, v in sorted(metrics.items()) if k not in UNEQUAL}})


class Stop(Exception):
    """What a training is stopped by."""


@dataclass(frozen=True)
class Point:
    """Where to stop: in a hook, when so many batches (over all epochs) are trained; in a validation, at its batch."""

    hook: str
    trained: int
    batch: int = 0

    def __str__(self) -> str:
        return f"{self.hook} {self.trained}" + (f".{self.batch}" if "validation_batch" in self.hook else "")


class StopAt(Checkpoint):
    """Saves a checkpoint at a point, then stops the training; it is called after all other callbacks, as savers are."""

    def __init__(self, point: Point, path: Path):
        self.point, self.path = point, path

    def check(self, trainer, hook, batch=0):
        progress = trainer.fit_loop.epoch_loop.batch_progress.total
        if self.point == Point(hook, progress.processed, batch) and not trainer.sanity_checking:
            trainer.save_checkpoint(self.path)
            raise Stop(self.point)

    def on_train_epoch_start(self, trainer, module):
        self.check(trainer, "on_train_epoch_start")

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        self.check(trainer, "on_train_batch_start")

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.check(trainer, "on_train_batch_end")

    def on_validation_batch_end(self, trainer, module, outputs, batch, batch_idx, dataloader_idx=0):
        self.check(trainer, "on_validation_batch_end", batch_idx)

    def on_validation_end(self, trainer, module):
        self.check(trainer, "on_validation_end")

    def on_train_epoch_end(self, trainer, module):
        self.check(trainer, "on_train_epoch_end")

    @property
    def received_sigterm(self):
        """Asked by Lightning between two steps, where ``SaveOnSignal`` saves."""
        if not self.trainer.validating:
            self.check(self.trainer, "between")
        return False

    def setup(self, trainer, module, stage):
        self.trainer, self.before = trainer, trainer._signal_connector
        if self.point.hook == "between":
            trainer._signal_connector = self

    def register_signal_handlers(self):
        pass

    def teardown(self, trainer=None, module=None, stage=None):
        self.trainer._signal_connector = self.before


@dataclass
class Training:
    """How to make each part of one training anew; ``arguments`` are the Trainer's."""

    task: Callable[[], pl.LightningModule]
    data: Callable[[], pl.LightningDataModule]
    arguments: dict[str, Any] = field(default_factory=dict)
    callbacks: Callable[[], list[pl.Callback]] = list
    exact: bool = True  # with the callback; else as Lightning alone does it

    def run(self, folder: Path, *points: Point) -> Seen:
        """Train to the end, but stop at each point and go on in a new Trainer with everything else new."""
        seen, last = Seen(), None
        for number, point in enumerate(points):
            last = self.stop(point, folder / f"stop{number}.ckpt", seen, last)
        self.end(folder / "end.ckpt", seen, last)
        return seen

    def stop(self, point: Point, path: Path, seen: Seen, last: Path | None = None) -> Path:
        """Train from ``last`` to a point; the answer is the checkpoint that was written there."""
        try:
            self.fit(seen, last, StopAt(point, path))
        except Stop:
            if point.hook == "on_train_epoch_start":
                seen.calls.pop()  # the epoch begins anew
            return path
        raise AssertionError(f"{point} was not met")

    def end(self, path: Path, seen: Seen, last: Path | None = None) -> None:
        """Train from ``last`` to the end."""
        trainer = self.fit(seen, last)
        trainer.save_checkpoint(path)
        end = torch.load(path, weights_only=True)
        seen.final = {name: end[name] for name in ("state_dict", "optimizer_states", "lr_schedulers", "global_step")}
        seen.final |= {name: value for name, value in end.items() if name in ("current_model_state", "averaging_state")}
        seen.final["epochs"] = (end["loops"]["fit_loop"]["epoch_progress"], end["epoch"])
        savers = [part for part in trainer.checkpoint_callbacks if isinstance(part, ModelCheckpoint)]
        seen.final["best"] = [saver.best_model_score for saver in savers]

    def fit(self, seen: Seen, last: Path | None, *more: pl.Callback) -> pl.Trainer:
        torch.manual_seed(len(seen.losses))  # whatever is left of a random state must not matter
        given = {"max_epochs": 3, "accelerator": "cpu", "log_every_n_steps": 2, "num_sanity_val_steps": 0}
        quiet = {"enable_progress_bar": False, "enable_model_summary": False, "use_distributed_sampler": False}
        quiet |= {"enable_checkpointing": False} if not more and not self.callbacks() else {}
        callbacks = [*self.callbacks(), *([ExactResume(seed=5)] if self.exact else []), Throughput(), Witness(seen)]
        trainer = pl.Trainer(logger=Rows(seen), callbacks=[*callbacks, *more], **{**given, **quiet, **self.arguments})
        trainer.fit(self.task(), self.data(), ckpt_path=last)
        return trainer
