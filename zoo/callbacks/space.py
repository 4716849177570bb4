"""Finds out before training whether its checkpoints can be written: the directory, the room, and what they hold."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor

from zoo.atomic import replaced, told
from zoo.callbacks.cost import optimizer_bytes
from zoo.checkpoints import AtomicCheckpointIO
from zoo.checkpoints.plain import HYPER_PARAMETERS, require_plain
from zoo.runs.units import scaled

PROBE = "writable"  # the name of a file that is there for a moment
ADVICE = "name another directory with --trainer.default_root_dir"


class CheckSpace(Callback):
    """A run whose checkpoints could not be kept does not begin.

    Before training, the process that saves writes a small file where each ``ModelCheckpoint`` will, and compares the
    free bytes with those of all checkpoints that will stand there and one in the making: weights and the optimizer's
    state, less the checkpoints that are there already and will be replaced.  Raises OSError where they have no place,
    and ValueError for hyper-parameters that ``AtomicCheckpointIO`` would refuse.
    """

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.is_global_zero or trainer.fast_dev_run:
            return
        if isinstance(trainer.strategy.checkpoint_io, AtomicCheckpointIO):
            parts = (pl_module, trainer.datamodule)
            require_plain({name: dict(part.hparams) for name, part in zip(HYPER_PARAMETERS, parts) if part})
        for _, folder in savers(trainer):
            require_writable(folder)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The optimizer is there now."""
        if not trainer.is_global_zero or trainer.fast_dev_run:
            return
        weights = sum(value.nbytes for value in pl_module.state_dict().values() if isinstance(value, Tensor))
        states = sum(optimizer_bytes(optimizer) or 0 for optimizer in trainer.optimizers)
        disks: dict[int, Disk] = {}
        for saver, folder in savers(trainer):
            disk = disks.setdefault(folder.stat().st_dev, Disk(folder))
            disk.add(folder, kept(saver), weights + (0 if saver.save_weights_only else states))
        for disk in disks.values():
            disk.require_room()


class Disk:
    """A file system, and what is to be kept there."""

    def __init__(self, folder: Path):
        self.folder = folder  # the first of those that it has
        self.folders: set[Path] = set()
        self.needed = self.largest = self.count = 0

    def add(self, folder: Path, count: int, size: int) -> None:
        """So many checkpoints of ``size`` bytes in a directory."""
        self.folders.add(folder)
        self.count += count
        self.needed += count * size
        self.largest = max(self.largest, size)

    def require_room(self) -> None:
        """Raise OSError where they do not fit beside one that is being written."""
        kept = [place for folder in self.folders for place in folder.glob("*.ckpt")]  # files, or folders of shards
        files = [file for place in kept for file in (place.rglob("*") if place.is_dir() else [place])]
        there = sum(file.stat().st_size for file in files)
        needed = max(self.needed - there, 0) + self.largest
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise OSError(
                f"{self.folder} has {free:,} bytes ({scaled(free, 'B')}) free, and {self.count} checkpoints and one in "
                f"the making need {needed:,} ({scaled(needed, 'B')}): make room, or {ADVICE}"
            )


def savers(trainer: Trainer) -> Iterator[tuple[ModelCheckpoint, Path]]:
    """What saves checkpoints on this machine, and the directory."""
    for callback in trainer.checkpoint_callbacks:
        if isinstance(callback, ModelCheckpoint) and callback.dirpath and "://" not in str(callback.dirpath):
            yield callback, Path(callback.dirpath)


def kept(saver: ModelCheckpoint) -> int:
    """How many checkpoints stand at once; where all are kept, the one that is known to come."""
    return max(saver.save_top_k, 0 if saver.save_top_k == 0 else 1) + (saver.save_last is True)


def require_writable(folder: Path) -> None:
    """Raise OSError, in one sentence, unless a file can be written there and removed again."""
    probe = folder / f"{PROBE}-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replaced(probe, "wb") as file:
            file.write(bytes(1))
        probe.unlink()
    except OSError as error:
        cause = error.__cause__ if isinstance(error.__cause__, OSError) else error  # without the probe's name
        raise told(cause, f"cannot write in {folder}", ADVICE) from error
