"""How fast training is."""

from __future__ import annotations

import time
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from zoo.tokenizers import Batch


class Throughput(Callback):
    """Logs ``samples_per_s`` and ``tokens_per_s`` of training, over all processes; validation is not counted.

    Tokens are those of the input that are not padding.  They are counted where they are, and read once an interval,
    so that a GPU is not waited for at every step.
    """

    tokens: Tensor | int

    def __init__(self) -> None:
        self._restart(0)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._restart(trainer.global_step)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        for part in batch.values() if isinstance(batch, dict) else [batch]:
            if isinstance(part, Batch):
                self.samples += len(part)
                self.tokens = self.tokens + part.input.real.sum()
        step = trainer.global_step
        if self.samples and step > self.step and step % trainer.log_every_n_steps == 0:
            tokens = int(self.tokens)  # waits for the device
            rate = trainer.world_size / (time.perf_counter() - self.since - self.paused)
            pl_module.log_dict({"samples_per_s": self.samples * rate, "tokens_per_s": tokens * rate}, batch_size=1)
            self._restart(step)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.pause = time.perf_counter()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.paused += time.perf_counter() - self.pause

    def _restart(self, step: int) -> None:
        self.step, self.samples, self.paused, self.since = step, 0, 0.0, time.perf_counter()
        self.tokens = 0
