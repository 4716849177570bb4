"""The batches whose gradients make one optimizer step, weighted as if they were one batch."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed
from torch import Tensor

from zoo.parallel.optimizing import local
from zoo.tasks.metrics import distributed


class Window:
    """The weights of a step's batches, which may differ in length, over all processes.

    Every batch's sum is divided by the weight of the step's first batch, since those of the others are not known yet;
    before the update the gradients, which Lightning divides by the number of batches, are multiplied by ``factor``.
    They are then those of the sum over all batches by the sum of all weights.  A weight is the mean over processes, as
    gradients are.  Nothing waits for the device.
    """

    def __init__(self, first: Tensor | None = None, whole: Tensor | None = None):
        self.first, self.whole = first, whole

    @property
    def begun(self) -> bool:
        return self.first is not None

    def add(self, weight: Tensor, index: int, batches: int) -> Tensor:
        """What to divide the sum of a batch by, ``index`` of the epoch, where a step has so many ``batches``."""
        weight = shared(weight)
        if batches == 1:
            return weight
        place = index % batches
        if place == 0 or self.first is None or self.whole is None:  # begun by another release: as if all weighed alike
            self.first, self.whole = weight, weight * place
        self.first, self.whole = self.first.to(weight.device), self.whole.to(weight.device) + weight
        return some(self.first)

    def factor(self, batches: int) -> Tensor:
        assert self.first is not None and self.whole is not None, "a step without a batch"
        return batches * some(self.first) / some(self.whole)

    def state(self) -> list[float]:
        """The weights as plain numbers; the device is waited for."""
        return [] if self.first is None or self.whole is None else [float(self.first), float(self.whole)]

    @classmethod
    def restored(cls, state: list[float]) -> Window:
        return cls(*(torch.tensor(value, device="cpu") for value in state))


def shared(weight: Tensor) -> Tensor:
    """Its mean over all processes, in float32; every one must call this."""
    weight = weight.detach().float()
    if not distributed():
        return weight
    weight = weight.clone()
    torch.distributed.all_reduce(weight)
    return weight / torch.distributed.get_world_size()


def some(weight: Tensor) -> Tensor:
    """1 for nothing: where no token counts, the sum is 0 too."""
    return weight.masked_fill(weight == 0, 1)


@torch.no_grad()
def multiply(parameters: Iterable[Tensor], factor: Tensor) -> None:
    """The gradients of ``parameters`` times a number, in place; of sharded ones the part that is here."""
    gradients = [weight.grad for weight in parameters if weight.grad is not None]
    own = [local(gradient) for gradient in gradients]
    if own:
        torch._foreach_mul_(own, factor.to(own[0].device))
