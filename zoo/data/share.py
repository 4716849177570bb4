"""Which share of the samples a process reads."""

from __future__ import annotations

from lightning.pytorch import Trainer
from lightning.pytorch.strategies import ModelParallelStrategy


def share(trainer: Trainer | None) -> tuple[int, int]:
    """(which, of how many) shares of the samples this process has.  Devices that share the matrices of a model (tensor
    parallelism) have the same, and draw the same random numbers."""
    if trainer is None:
        return 0, 1
    if not isinstance(trainer.strategy, ModelParallelStrategy):
        return trainer.global_rank, trainer.world_size
    mesh = trainer.strategy.device_mesh["data_parallel"]
    return mesh.get_local_rank(), mesh.size()


def first_reader(trainer: Trainer) -> bool:
    """Is this process the one of those with the same samples that counts them?"""
    return trainer.global_rank % (trainer.world_size // share(trainer)[1]) == 0
