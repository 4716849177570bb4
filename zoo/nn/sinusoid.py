"""Fixed sine and cosine tables, in all the layouts that published models use.

=====================  ===========  =========  ==========================================
model                  layout       spacing    frequencies
=====================  ===========  =========  ==========================================
Vaswani et al. 2017    interleaved  half       sin, cos, sin, cos, ...; base^(-i / (d/2))
Marian, DiT            sin_cos      half       all sines, then all cosines
Whisper, FSMT          sin_cos      last       as above; base^(-i / (d/2 - 1))
DiT's time step        cos_sin      half       all cosines, then all sines
=====================  ===========  =========  ==========================================
"""

import math
from typing import Literal

import torch
from torch import Tensor

Layout = Literal["interleaved", "sin_cos", "cos_sin"]
Spacing = Literal["half", "last"]


def sinusoid(
    pos: Tensor, dim: int, layout: Layout = "interleaved", spacing: Spacing = "half", base: float = 10_000.0
) -> Tensor:
    """(...,) positions -> (..., dim) float32."""
    half = dim // 2
    steps = half if spacing == "half" else half - 1
    step = -math.log(base) / steps  # in this order the tables of Whisper and FSMT come out bit for bit
    frequency = (torch.arange(half, device=pos.device).float() * step).exp()
    angle = pos[..., None].float() * frequency  # (..., dim / 2)
    if layout == "interleaved":
        return torch.stack((angle.sin(), angle.cos()), -1).flatten(-2)
    return torch.cat((angle.sin(), angle.cos()) if layout == "sin_cos" else (angle.cos(), angle.sin()), -1)


def sinusoid_2d(dim: int, height: int, width: int, device: torch.device | None = None) -> Tensor:
    """(height * width, dim) float32, row by row: the column in the first half of the channels, then the row."""
    row, column = torch.meshgrid(torch.arange(height, device=device), torch.arange(width, device=device), indexing="ij")
    return torch.cat([sinusoid(axis.flatten(), dim // 2, "sin_cos") for axis in (column, row)], -1)
