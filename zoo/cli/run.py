"""One directory a run, the same in every process of it, and what our defaults make of the Trainer's arguments."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ModelCheckpoint, ModelSummary, ProgressBar
from lightning.pytorch.plugins.io import CheckpointIO

from zoo.callbacks import (
    CheckSpace,
    ExactResume,
    FiniteGuard,
    Pictures,
    SaveOnSignal,
    Skipped,
    Summary,
    Throughput,
    Watchdog,
)
from zoo.callbacks.progress import progress
from zoo.checkpoints import AtomicCheckpointIO
from zoo.cli import allow
from zoo.cli.metrics_file import MetricsFile
from zoo.cli.unprofiled import Unprofiled

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


def first() -> bool:
    """Is this the process that the user started, or the first of those that stand for it?"""
    return int(os.environ.get("LOCAL_RANK", os.environ.get("SLURM_PROCID", 0))) == 0


def leave() -> None:
    """Forget the run; a directory in which nothing was written goes too."""
    path = Path(os.environ.pop(SHARED, ""))
    if path.name and not any(map(Path.is_file, path.rglob("*"))):
        shutil.rmtree(path, ignore_errors=True)


def trainer_arguments(given: dict[str, Any], path: Path, monitor: tuple[str, str], training: bool) -> dict[str, Any]:
    """What the run directory and our defaults change in the Trainer's arguments; what the user gave stays."""
    metrics = MetricsFile(path / "metrics.csv", counted_from=int(training))
    callbacks, plugins = listed(given["callbacks"]), listed(given["plugins"])
    saving = given["enable_checkpointing"] is not False
    defaults: dict[type[Callback], Callback | None] = {  # each unless the user gave one of its kind
        Watchdog: Watchdog(),
        ExactResume: ExactResume(),
        FiniteGuard: FiniteGuard(),
        SaveOnSignal: SaveOnSignal(f"python -m zoo fit {os.path.relpath(path)}"),
        CheckSpace: CheckSpace() if saving else None,
        Skipped: Skipped(),
        Pictures: Pictures(),  # before what stops the clock for a validation
        Throughput: Throughput(),
        ModelSummary: Summary() if given["enable_model_summary"] is not False else None,
        ProgressBar: progress() if given["enable_progress_bar"] is not False else None,
    }
    for kind, default in defaults.items():
        if default is not None and not any(isinstance(callback, kind) for callback in callbacks):
            callbacks.append(default)
    savers = [callback for callback in callbacks if isinstance(callback, ModelCheckpoint)]
    if saving and not any(saver.monitor for saver in savers):
        callbacks.append(best(monitor))
    if saving and not any(saver.save_last for saver in savers):
        callbacks.append(last(each_epoch=given["val_check_interval"] is None))
    callbacks.sort(key=lambda callback: not isinstance(callback, Watchdog))  # it comes before all that takes time
    for callback in callbacks:
        if isinstance(callback, ModelCheckpoint) and callback.dirpath is None:
            callback.dirpath = str(path / "checkpoints")
    if not any(isinstance(plugin, CheckpointIO) for plugin in plugins):
        plugins.append(AtomicCheckpointIO(allow_remote=allow.REMOTE in sys.argv))
    return {
        "default_root_dir": str(path),
        "callbacks": callbacks,
        "logger": [*listed(given["logger"]), metrics],  # a run's files are the same with every logger
        "plugins": plugins,
        "profiler": given["profiler"] or Unprofiled(),
    }


def listed(given: Any) -> list[Any]:
    """One part, several or none, as a config has them; Lightning's own defaults (True) are replaced by ours."""
    return [] if given in (None, True, False) else list(given) if isinstance(given, Sequence) else [given]


def best(monitor: tuple[str, str]) -> ModelCheckpoint:
    name, mode = monitor
    return ModelCheckpoint(filename="best", monitor=name, mode=mode, enable_version_counter=False)


def last(each_epoch: bool) -> ModelCheckpoint:
    """Where training goes on, written at the end of each epoch, or else of each validation within one.  Lightning's own
    ``save_last`` would be the last that was among the best."""
    return ModelCheckpoint(filename="last", save_on_train_epoch_end=each_epoch, enable_version_counter=False)
