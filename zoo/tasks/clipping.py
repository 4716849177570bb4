"""Gradients are measured once: who looks at them before they are clipped is told the length that clipping needs."""

from __future__ import annotations

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.plugins import MixedPrecision, Precision
from torch import Tensor
from torch.optim import Optimizer


class Inspector:
    """A callback that sees the gradients of a ``Task`` before each update, whole and not clipped yet."""

    def inspect(self, trainer: Trainer, module: LightningModule, optimizer: Optimizer, length: Tensor | None) -> None:
        """``length`` is the L2 norm of all gradients, a number; None where clipping asks for none.  What raises here
        stops training before the update, and a gradient that is set to None here is neither clipped nor followed."""
        raise NotImplementedError


def show(trainer: Trainer, module: LightningModule, optimizer: Optimizer, length: Tensor | None) -> None:
    """Let every inspector among the callbacks look, in their order."""
    for part in trainer.callbacks:
        if isinstance(part, Inspector):
            part.inspect(trainer, module, optimizer, length)


def clips_as_torch(precision: Precision) -> bool:
    """Does it do what ``torch.nn.utils.clip_grad_norm_`` does?  FSDP refuses to, DeepSpeed clips elsewhere, a user's
    own does as it likes, and one that scales gradients has rules for optimizers that take the scale back themselves."""
    scales = isinstance(precision, MixedPrecision) and precision.scaler is not None
    kind = type(precision)
    own = kind.clip_gradients not in (Precision.clip_gradients, MixedPrecision.clip_gradients)
    return not scales and not own and kind.clip_grad_by_norm is Precision.clip_grad_by_norm
