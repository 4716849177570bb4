"""How a task's parameters are moved: its optimizer, and the learning rate at each step."""

from __future__ import annotations

import math

import lightning.pytorch as pl
import torch
from lightning.pytorch.cli import OptimizerCallable

from zoo.tasks.optimizer import decay_groups, fuse
from zoo.tasks.remembered import Settings
from zoo.tasks.schedule import Schedule


class Optimized(pl.LightningModule):
    """Base of ``Task``."""

    optimizer: OptimizerCallable
    schedule: Schedule
    _settings: Settings | None = None

    def configure_optimizers(self) -> dict:
        optimizer = fuse(self.optimizer(decay_groups(self)))
        self._settings = Settings(optimizer)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, self._factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def on_train_start(self) -> None:
        """What is asked for wins over what a checkpoint remembers, whose optimizer and schedule have just been read."""
        if self._settings is None or self.trainer.global_step == 0:
            return
        optimizer, scheduler = self.optimizers(use_pl_optimizer=False), self.lr_schedulers()
        scheduler.base_lrs = self._settings.restore(optimizer, self._factor(scheduler.last_epoch))

    def _factor(self, step: int) -> float:
        """Lightning knows the number of batches only once training has begun, after the schedule was made."""
        trainer = self.trainer
        if trainer.max_steps > 0:
            return self.schedule.factor(step, trainer.max_steps)
        epochs = trainer.max_epochs if trainer.max_epochs and trainer.max_epochs > 0 else math.inf
        batches = trainer.num_training_batches
        total = epochs * math.ceil(batches / trainer.accumulate_grad_batches) if math.isfinite(batches) else math.inf
        return self.schedule.factor(step, total)
