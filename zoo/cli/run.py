"""One directory a run, the same in every process of it, and what our defaults make of the Trainer's arguments."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ModelCheckpoint, ModelSummary, ProgressBar
from lightning.pytorch.loggers import Logger

from zoo.callbacks import Pictures, Summary, Throughput
from zoo.callbacks.progress import progress
from zoo.cli.metrics_file import MetricsFile

ROOT = Path("runs")  # unless trainer.default_root_dir says another
SHARED = "ZOO_RUN_DIRECTORY"  # tells the processes that the first one starts where the run is kept


def directory(name: str, root: Path = ROOT) -> Path:
    """A new ``runs/NAME-DATE-TIME``, or below another root, with ``-2`` and so on where that one is taken."""
    if SHARED in os.environ:
        return Path(os.environ[SHARED])
    stem = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, number = root / stem, 1
    while getattr(rank_zero_only, "rank", 0) in (0, None):
        try:
            path.mkdir(parents=True)
            break
        except FileExistsError:
            number += 1
            path = root / f"{stem}-{number}"
    os.environ[SHARED] = str(path)
    return path


def leave() -> None:
    """Forget the run; a directory in which nothing was written goes too."""
    path = Path(os.environ.pop(SHARED, ""))
    if path.name and path.is_dir() and not any(path.iterdir()):
        path.rmdir()


def trainer_arguments(given: dict[str, Any], path: Path, monitor: tuple[str, str], training: bool) -> dict[str, Any]:
    """What the run directory and our defaults change in the Trainer's arguments; what the user gave stays."""
    metrics = MetricsFile(path / "metrics.csv", counted_from=int(training))
    callbacks = given["callbacks"] or []
    callbacks = list(callbacks) if isinstance(callbacks, Sequence) else [callbacks]
    saving = given["enable_checkpointing"] is not False
    defaults: dict[type[Callback], Callback | None] = {  # each unless the user gave one of its kind
        Pictures: Pictures(),  # before what stops the clock for a validation
        Throughput: Throughput(),
        ModelCheckpoint: best(monitor) if saving else None,
        ModelSummary: Summary() if given["enable_model_summary"] is not False else None,
        ProgressBar: progress() if given["enable_progress_bar"] is not False else None,
    }
    for kind, default in defaults.items():
        if default is not None and not any(isinstance(callback, kind) for callback in callbacks):
            callbacks.append(default)
    if saving and not any(isinstance(callback, ModelCheckpoint) and callback.save_last for callback in callbacks):
        callbacks.append(last(each_epoch=given["val_check_interval"] is None))
    for callback in callbacks:
        if isinstance(callback, ModelCheckpoint) and callback.dirpath is None:
            callback.dirpath = str(path / "checkpoints")
    return {"default_root_dir": str(path), "callbacks": callbacks, "logger": [*loggers(given["logger"]), metrics]}


def loggers(given: Any) -> list[Logger]:
    """The user's, if any; metrics.csv stands beside them, for a run's files are the same with every logger."""
    return [] if given in (None, True, False) else list(given) if isinstance(given, Sequence) else [given]


def best(monitor: tuple[str, str]) -> ModelCheckpoint:
    name, mode = monitor
    return ModelCheckpoint(filename="best", monitor=name, mode=mode, enable_version_counter=False)


def last(each_epoch: bool) -> ModelCheckpoint:
    """Where training goes on, written at the end of each epoch, or else of each validation within one.  Lightning's own
    ``save_last`` would be the last that was among the best."""
    return ModelCheckpoint(filename="last", save_on_train_epoch_end=each_epoch, enable_version_counter=False)
