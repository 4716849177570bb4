"""Models that are spread over devices: FSDP2, tensor parallelism, their updates and their checkpoints."""

from zoo.parallel.strategy import ModelParallel

__all__ = ["ModelParallel"]
