"""Checkpoints that are written whole or not at all, carry a seal, and are checked before anything is made of them."""

from zoo.checkpoints.io import AtomicCheckpointIO
from zoo.checkpoints.read import newest, read_checkpoint

__all__ = ["AtomicCheckpointIO", "newest", "read_checkpoint"]
