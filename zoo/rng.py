"""Randomness as a pure function: (seed, epoch, sample) gives the same numbers on any device, rank and worker."""

from __future__ import annotations

import zlib

import torch
from torch import Tensor


def sample_keys(seed: int, epoch: int | Tensor, index: Tensor) -> Tensor:
    """(B,) int64: one key a sample; ``index`` (B,) is its place in the data set, ``epoch`` a number or (B,)."""
    base = _mix(torch.tensor(seed, dtype=torch.int64, device=index.device))
    return _mix(_mix(base + epoch) + index.long())


def uniform(keys: Tensor, *shape: int, stream: str = "") -> Tensor:
    """(B,) keys -> (B, *shape) float32 in [0, 1); ``stream`` names the purpose: two uses share no numbers."""
    count = 1
    for size in shape:
        count *= size
    counter = torch.arange(count, dtype=torch.int64, device=keys.device)
    bits = _mix(_mix(keys + zlib.crc32(stream.encode()))[:, None] + counter)  # (B, count)
    return (_shift(bits, 40).float() / 2**24).view(len(keys), *shape)


def _mix(x: Tensor) -> Tensor:
    """The finaliser of SplitMix64 (Steele et al. 2014) in wrapping 64-bit arithmetic."""
    x = x + _signed(0x9E3779B97F4A7C15)
    x = (x ^ _shift(x, 30)) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shift(x, 27)) * _signed(0x94D049BB133111EB)
    return x ^ _shift(x, 31)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Right shift that fills with zeros; torch's own copies the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
