"""Lists what a data module left out, since it could not be read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from zoo.atomic import write_text
from zoo.data import Combined, DataModule
from zoo.tasks.metrics import every

FILE = "skipped.txt"


class Skipped(Callback):
    """Writes what ``on_bad: skip`` left out to ``skipped.txt`` in ``trainer.default_root_dir``, a line for each item
    that begins with the name of its file: after each epoch and evaluation, and when the run ends, however it does.
    How many there are is said at the end.
    """

    def __init__(self) -> None:
        self.written: list[str] = []

    def collect(self, trainer: Trainer) -> None:
        """What all processes met, into the file."""
        self.write(trainer, every(own(trainer)))

    def write(self, trainer: Trainer, found: list[str]) -> None:
        found = list(dict.fromkeys([*self.written, *found]))
        if trainer.is_global_zero and len(found) > len(self.written):
            self.written = found
            folder = Path(trainer.default_root_dir)
            folder.mkdir(parents=True, exist_ok=True)
            write_text(folder / FILE, "".join(f"{line}\n" for line in found))

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.collect(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.collect(trainer)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.collect(trainer)

    def on_predict_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.collect(trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Of this process alone: the others may be gone."""
        self.write(trainer, own(trainer))

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if self.written:
            file = os.path.relpath(Path(trainer.default_root_dir) / FILE)
            print(f"left out, since they cannot be read: {counted(len(self.written))}, listed in {file}")


def counted(items: int) -> str:
    return "1 item" if items == 1 else f"{items:,} items"


def own(trainer: Trainer) -> list[str]:
    data: Any = getattr(trainer, "datamodule", None)
    return data.skipped if isinstance(data, (DataModule, Combined)) else []
