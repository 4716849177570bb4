"""Nothing that is not finite gets into the weights, and nothing that is not finite gets into a checkpoint."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.plugins import FSDPPrecision, MixedPrecision
from torch import Tensor
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from zoo.callbacks.agree import Agreement
from zoo.callbacks.note import note
from zoo.data import DataModule
from zoo.parallel.optimizing import local
from zoo.tasks import Task
from zoo.tasks.clipping import Inspector
from zoo.tokenizers import Batch

log = logging.getLogger(__name__)

SHOWN = 8  # keys of samples in a message
LEAST_SCALE = 1e-4  # of a loss in fp16; fairseq gives up there too


class FiniteGuard(Callback, Inspector):
    """Looks at the loss and the gradient before each update, and at the weights before training and each checkpoint.

    Where one is nan or infinite, ``"stop"`` raises ValueError before the update: the weights and the last checkpoint
    are those of the step before.  The message names the step, the loss or the parameter, and the samples, by their
    places in the training data (by ``Batch.key`` in data of another library): of the batch with that loss, else of all
    whose gradients were accumulated.  ``"skip"`` leaves the update out, in all processes, says so, and logs how many
    steps it was so far as ``skipped_steps``; a step that was left out counts as a step.  Weights that are no
    longer finite, or a buffer such as the mean of a BatchNorm, end training either way.

    Infinite gradients in fp16 are its scaler's business, which leaves such steps out and lowers its scale, until that
    is below 0.0001.  A monitored score that is not finite never counts as an improvement.  The device is waited for
    once a step.
    """

    def __init__(self, on_nonfinite: Literal["stop", "skip"] = "stop"):
        if on_nonfinite not in ("stop", "skip"):
            raise ValueError(f"on_nonfinite={on_nonfinite!r}: there are 'stop' and 'skip'")
        self.on_nonfinite = on_nonfinite
        self.skipped = 0
        self._agreement = Agreement()
        self._constants: set[str] = set()  # buffers that were infinite from the beginning, such as masks
        self._batch: Any = None
        self._seen: list[
            tuple[Tensor, list[Tensor]]
        ] = []  # losses since the last update, and the keys of their samples

    def state_dict(self) -> dict[str, Any]:
        return {"skipped": self.skipped}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.skipped = state_dict["skipped"]

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":
            self._agreement = Agreement(trainer)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._agreement.close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._agreement.close()

    # ---- weights

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._seen = []
        infinite = {name for name, value in pl_module.named_buffers() if bad([value])}
        self._constants = {name for name in infinite if not has_nan(pl_module.get_buffer(name))}
        found = self._bad_weight(pl_module) or bad_moment(trainer.optimizers)
        if self._agreement.first(found):
            origin = f"{trainer.ckpt_path} has" if trainer.ckpt_path else "the model begins with"
            raise ValueError(
                f"{origin} a value that is not finite, in {self._agreement.first(found)}: take another one"
            )

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        found = self._agreement.first(self._bad_weight(pl_module) or bad_moment(trainer.optimizers))
        if found:
            raise ValueError(f"step {trainer.global_step}: {found} is not finite: no checkpoint of it is written")

    def _bad_weight(self, module: LightningModule) -> str:
        buffers = {name: value for name, value in module.named_buffers() if name not in self._constants}
        return name_of_bad({**dict(module.named_parameters()), **buffers})

    # ---- before each update

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self._batch = batch

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        self._seen.append((loss.detach(), keys(self._batch)))

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        if not shows_gradients(pl_module):
            self.inspect(trainer, pl_module, optimizer, None)

    def inspect(self, trainer: Trainer, module: LightningModule, optimizer: Optimizer, length: Tensor | None) -> None:
        seen, self._seen = self._seen, []
        parameters = [weight for group in optimizer.param_groups for weight in group["params"]]
        gradients = [dense(weight.grad) for weight in parameters if weight.grad is not None]
        length = get_total_norm(gradients) if length is None else length
        values = [*(loss.to(length.device).reshape(()) for loss, _ in seen), length]
        *losses, gradient = torch.stack(values).isfinite().tolist()  # waits for the device
        wrong = not all(losses) or not (gradient or scaled_down(trainer) or not bad(gradients))
        if not self._agreement.largest(int(wrong))[0]:
            return
        culprit = losses.index(False) if False in losses else None
        reason = self._agreement.first(self._reason(trainer, module, seen, culprit) if wrong else "")
        lost = self._agreement.first(self._bad_weight(module))
        self._batch = None
        where = f"step {trainer.global_step + 1}: {reason}"
        if lost:
            raise ValueError(f"{where}, and {lost} is not finite: go on from a checkpoint from before")
        if self.on_nonfinite == "stop":
            advice = "FiniteGuard(on_nonfinite='skip') leaves such steps out"
            raise ValueError(f"{where}: stopped before the update; {advice}")
        for weight in parameters:
            weight.grad = None  # an optimizer passes over these
        self.skipped += 1
        if trainer.is_global_zero:
            log.warning("zoo: %s: this step is left out, the %d. so far", where, self.skipped)

    def _reason(
        self, trainer: Trainer, module: LightningModule, seen: list[tuple[Tensor, list[Tensor]]], culprit: int | None
    ) -> str:
        """What is wrong in this process."""
        here = f" in process {trainer.global_rank}" if trainer.world_size > 1 else ""
        input_too = ", and so is the input" if bad(tensors(self._batch)) else ""
        if culprit is not None:
            loss, samples = seen[culprit]
            cause = input_too if culprit == len(seen) - 1 else ""  # the other batches are gone
            return f"the loss is {first_bad(loss)}{here}{cause}{listed(samples, trainer)}"
        gradients = {name: weight.grad for name, weight in module.named_parameters() if weight.grad is not None}
        name = name_of_bad(gradients)
        what = (
            f"the gradient of {name} is {first_bad(gradients[name])}" if name else "the scale of the loss is too small"
        )
        return f"{what}{here}{input_too}{listed([key for _, of_batch in seen for key in of_batch], trainer)}"

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *rest: Any) -> None:
        self._batch = None
        if self.skipped:
            note(pl_module, {"skipped_steps": float(self.skipped)})

    # ---- scores

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.sanity_checking or trainer.state.fn != "fit":
            return
        savers = [part for part in trainer.checkpoint_callbacks if isinstance(part, ModelCheckpoint)]
        best = {part.monitor: part.mode for part in savers if part.monitor}
        for name, value in trainer.callback_metrics.items():
            if not (name in best or name.startswith("val")) or math.isfinite(value):
                continue
            if name in best and value == (-math.inf if best[name] == "min" else math.inf):
                raise ValueError(
                    f"step {trainer.global_step}: {name} is {float(value)}, which nothing could improve on"
                )
            if trainer.is_global_zero:
                log.warning("zoo: step %d: %s is %s: worse than any number", trainer.global_step, name, float(value))


def shows_gradients(module: LightningModule) -> bool:
    """Is it a task that asks its inspectors, which one of the user's with a clipping of its own may not do?"""
    own = type(module).configure_gradient_clipping is not Task.configure_gradient_clipping
    return isinstance(module, Task) and module.automatic_optimization and not own


def scaled_down(trainer: Trainer) -> bool:
    """May the gradient be infinite, since a scaler of fp16 will leave the step out and lower its scale?"""
    precision = trainer.precision_plugin
    scaler = precision.scaler if isinstance(precision, (MixedPrecision, FSDPPrecision)) else None
    return scaler is not None and scaler.get_scale() >= LEAST_SCALE


def dense(value: Tensor) -> Tensor:
    """The values of a tensor that are in this process, dense."""
    value = local(value)
    return value.detach().coalesce().values() if value.is_sparse else value


def bad(values: Iterable[Tensor]) -> bool:
    """Is there anything nan or infinite?  The sum of squares is fast; where it overflows, each value is looked at."""
    own = [dense(value) for value in values if value.is_floating_point() and value.itemsize > 1]
    return not bool(get_total_norm(own).isfinite()) and not all(bool(value.isfinite().all()) for value in own)


def has_nan(value: Tensor) -> bool:
    return bool(dense(value).isnan().any())


def name_of_bad(named: Mapping[str, Tensor]) -> str:
    """The first that has something nan or infinite; "" where none has."""
    return next((name for name, value in named.items() if bad([value])), "") if bad(named.values()) else ""


def first_bad(value: Tensor) -> float:
    """Its first value that is not finite."""
    flat = dense(value).flatten()
    return float(flat[~flat.isfinite()][0])


def bad_moment(optimizers: Iterable[Optimizer]) -> str:
    """Which optimizer remembers something that is not finite, such as a mean of gradients; "" where none does."""
    for optimizer in optimizers:
        if bad(value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)):
            return f"the state of {type(optimizer).__name__}"
    return ""


def tensors(batch: Any) -> Iterator[Tensor]:
    """All that are in a batch, whatever it is made of."""
    if isinstance(batch, Tensor):
        yield batch
    elif dataclasses.is_dataclass(batch):
        for field in dataclasses.fields(batch):
            yield from tensors(getattr(batch, field.name))
    elif isinstance(batch, (Mapping, list, tuple)):
        for part in batch.values() if isinstance(batch, Mapping) else batch:
            yield from tensors(part)


def keys(batch: Any) -> list[Tensor]:
    """The keys of a batch's samples, where it is one of ours or several of them."""
    parts = batch.values() if isinstance(batch, Mapping) else [batch]
    return [part.key for part in parts if isinstance(part, Batch) and part.key is not None]


def listed(samples: list[Tensor], trainer: Trainer) -> str:
    """Such as " (samples 1, 2, 3 and 5 more)": by their places in the data, where the data can tell, else by key."""
    if not samples:
        return ""
    every = torch.cat([part.flatten().cpu() for part in samples])
    data = trainer.datamodule
    found = data.places(every, trainer.current_epoch) if isinstance(data, DataModule) else every.tolist()
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return f" (samples {', '.join(map(str, found[:SHOWN]))}{more})"
