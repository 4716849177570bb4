"""How far training has come, and how fast it is."""

from __future__ import annotations

import logging
import time
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from zoo.callbacks.cost import flops_per_sample, peak_flops
from zoo.callbacks.note import note
from zoo.data.share import first_reader
from zoo.tasks import Task
from zoo.tokenizers import Batch

log = logging.getLogger(__name__)


class Throughput(Callback):
    """Logs ``samples``, ``tokens``, ``seconds`` and ``flops`` of training so far, to draw any score against, with each
    validation too; and ``samples_per_s``, ``tokens_per_s`` and ``mfu``.

    All count over all processes, and a run that is gone on with counts on; validation is not counted, neither are
    tokens of the input that are padding.  They are counted where they are, and read once an interval, so that a GPU is
    not waited for at every step.  ``flops`` are estimated by ``flops_per_sample``; ``mfu`` is the share of what the
    devices could do at most (model FLOPs utilisation, Chowdhery et al. 2022), logged where that is known.
    """

    _tokens: Tensor | int

    def __init__(self) -> None:
        self.samples, self.tokens, self.seconds = 0, 0, 0.0
        self.flops_per_sample: float | None = None
        self.peak: float | None = None
        self._uncounted = (0, 0)  # samples and tokens that a checkpoint brings, of all processes together
        self._restart(0)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Keeps the counts, and those of all processes since they were last added up."""
        samples, tokens = self._everywhere(trainer)
        since = time.perf_counter() - self._since if trainer.training else 0.0
        checkpoint["callbacks"][self.state_key] = {
            "samples": self.samples,
            "tokens": self.tokens,
            "seconds": self.seconds + since,
            "uncounted": [samples, tokens],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.samples, self.tokens, self.seconds = (state_dict[name] for name in ("samples", "tokens", "seconds"))
        self._uncounted = tuple(state_dict.get("uncounted", (0, 0)))

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if isinstance(pl_module, Task):
            try:
                self.flops_per_sample = flops_per_sample(pl_module, trainer)
            except (ValueError, OSError):  # a sample that cannot be read, which training would say too
                raise
            except Exception as error:  # a part of the user's own that torch's counter cannot follow: no reason to stop
                log.warning("FLOPs were not counted: %s", error)
        self.peak = peak_flops(trainer)
        self._before = self.samples, self.tokens, self.seconds
        self._restart(trainer.global_step)
        if trainer.is_global_zero:
            self._samples, self._tokens = self._uncounted
        self._uncounted = (0, 0)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        for part in batch.values() if isinstance(batch, dict) else [batch]:
            if isinstance(part, Batch):
                value, padding = part.input.value, part.input.padding
                self._samples += len(value)
                self._tokens += value.size(0) * value.size(1) if padding is None else padding.sum()
        step = trainer.global_step
        if step > self._step and step % trainer.log_every_n_steps == 0 and self._samples:
            self._count(trainer)
            note(pl_module, {**self._so_far(), **self._rates()})

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._within_training(trainer):
            self._count(trainer)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._within_training(trainer):
            pl_module.log_dict(self._so_far(), batch_size=1)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._restart(trainer.global_step)

    def _within_training(self, trainer: Trainer) -> bool:
        return trainer.state.fn == "fit" and not trainer.sanity_checking

    def _count(self, trainer: Trainer) -> None:
        """Add what happened since the last count, in all processes, which all call this, to what was before."""
        samples, tokens = self._everywhere(trainer)
        self.samples, self.tokens = self.samples + samples, self.tokens + tokens
        self.seconds += time.perf_counter() - self._since
        self._restart(trainer.global_step)

    def _everywhere(self, trainer: Trainer) -> tuple[int, int]:
        """Samples and tokens since the last count, in all processes, which all call this."""
        here = torch.tensor([self._samples, int(self._tokens)], device=trainer.strategy.root_device)  # waits for it
        here = here * first_reader(trainer)
        all_of_them = here if trainer.world_size == 1 else trainer.strategy.reduce(here, reduce_op="sum")
        samples, tokens = all_of_them.tolist()
        return samples, tokens

    def _rates(self) -> dict[str, float]:
        """Since they were last asked for."""
        now, before = (self.samples, self.tokens, self.seconds), self._before
        samples, tokens, seconds = (new - old for new, old in zip(now, before))
        self._before = now
        rates = {"samples_per_s": samples / seconds, "tokens_per_s": tokens / seconds}
        if self.flops_per_sample and self.peak:
            rates["mfu"] = rates["samples_per_s"] * self.flops_per_sample / self.peak
        return rates

    def _so_far(self) -> dict[str, float]:
        found = {"samples": float(self.samples), "tokens": float(self.tokens), "seconds": self.seconds}
        return found if self.flops_per_sample is None else {**found, "flops": self.samples * self.flops_per_sample}

    def _restart(self, step: int) -> None:
        self._step, self._samples, self._since = step, 0, time.perf_counter()
        self._tokens = 0


def flops(trainer: Trainer) -> float | None:
    """FLOPs of training on one sample, as a ``Throughput`` of this training counted them; None where none did."""
    return next((part.flops_per_sample for part in trainer.callbacks if isinstance(part, Throughput)), None)
