"""Batches of samples of similar length, in an order that is still drawn by chance."""

# Shapes: N samples of the data set, n samples of a pass.

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.rng import sample_keys


@dataclass
class ByLength:
    """Rearranges a pass: each ``window`` batches of the order that was drawn are sorted by ``lengths`` (N,), and after
    that all batches change places by chance.  A wide window leaves less padding, a narrow one batches that are more
    mixed.  The samples that are left over by batches of full size stay at the end."""

    lengths: Tensor
    window: int

    def __call__(self, order: Tensor, batch: int, seed: int, number: int) -> Tensor:
        """(n,) samples of pass ``number`` in their order -> (n,) in another, for batches of ``batch`` samples of all
        processes together."""
        by_length = self.lengths[order].argsort(stable=True)
        windows = by_length // (batch * self.window)
        order = order[by_length[windows.argsort(stable=True)]]
        whole = len(order) // batch
        turn = sample_keys(seed, number, torch.arange(len(self.lengths), len(self.lengths) + whole))  # no sample's keys
        full = order[: whole * batch].view(whole, batch)[turn.argsort(stable=True)]
        return torch.cat((full.flatten(), order[whole * batch :]))
