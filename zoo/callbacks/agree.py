"""All processes of a run decide alike: what each of them found is known to all."""

from __future__ import annotations

import torch
import torch.distributed as dist
from lightning.pytorch import Trainer


class Agreement:
    """Collectives over the CPU in a gloo group of its own, so that no GPU is waited for and nothing that training sends
    can be mistaken for it.  Every process has to make it, and to call each method equally often; one process alone has
    nothing to ask."""

    def __init__(self, trainer: Trainer | None = None):
        together = trainer is not None and trainer.world_size > 1 and dist.is_available() and dist.is_initialized()
        self.group = dist.new_group(backend="gloo") if together else None

    @property
    def alone(self) -> bool:
        return self.group is None

    def largest(self, *numbers: int) -> list[int]:
        """Of each number the largest that a process has."""
        if self.group is None:
            return list(numbers)
        found = torch.tensor(numbers, device="cpu")
        dist.all_reduce(found, dist.ReduceOp.MAX, group=self.group)
        return found.tolist()

    def first(self, text: str) -> str:
        """What the first process with something to say has to say; "" where none has."""
        if self.group is None:
            return text
        said: list[str] = [""] * dist.get_world_size(self.group)
        dist.all_gather_object(said, text, group=self.group)
        return next((each for each in said if each), "")

    def close(self) -> None:
        if self.group is not None and dist.is_initialized():
            dist.destroy_process_group(self.group)
        self.group = None
