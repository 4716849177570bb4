"""A row of metrics: what training logs at the end of an interval, handed to Lightning and to all loggers at once."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from lightning.pytorch import Trainer
from torch import Tensor

BAR = ("train/loss",)  # what is seen while a model is trained


def watch(trainer: Trainer, scores: Mapping[str, float]) -> dict[str, Tensor]:
    """Let callbacks see scores; the answer is what they see, in the precision of ``log``."""
    values = {name: torch.tensor(value, device="cpu") for name, value in scores.items()}
    trainer.callback_metrics.update(values)
    return values


def write(trainer: Trainer, scores: Mapping[str, float], step: int | None = None) -> None:
    """What ``log`` does with each of them when the step ends, in one go: a ``log`` takes 0.4 ms, ten of them as long as
    a small step.  All go into one row, of the step that is being taken unless ``step``, Lightning's number, says
    another; callbacks and the bar see them from now on."""
    values = watch(trainer, scores)
    trainer.progress_bar_metrics.update({name: float(values[name]) for name in BAR if name in values})
    if step is None:
        step = trainer.fit_loop.epoch_loop._batches_that_stepped
    trainer._logger_connector.log_metrics({**values, "epoch": trainer.current_epoch}, step=step)
