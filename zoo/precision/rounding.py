"""Weights as small integers, and the scales that make weights of them again."""

# Shapes: I inputs, O outputs, G groups of a row of weights, g weights in a group.

from __future__ import annotations

import torch
from torch import Tensor

GROUP = 32  # weights that share a scale in 4 bits: the finest that the kernel takes, and no slower than 64 or 128
SMALLEST = 1e-30  # scale of a row of zeros


def eight_bits(weight: Tensor) -> tuple[Tensor, Tensor]:
    """(O, I) -> (O, I) int8 codes, and (O,) float32 scales that they are multiplied by."""
    weight = weight.float()
    scale = weight.abs().amax(1).clamp(min=SMALLEST) / 127
    return (weight / scale[:, None]).round().to(torch.int8), scale


def four_bits(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(O, I) -> (O, G, g) uint8 codes from 0 to 15, and (O, G) bfloat16 scales and zeros."""
    groups = weight.float().unflatten(1, (-1, GROUP))  # (O, G, g)
    least, largest = groups.aminmax(dim=-1)
    scale = ((largest - least) / 15).clamp(min=SMALLEST).bfloat16()
    zero = (least + 8 * scale.float()).bfloat16()
    codes = (groups - zero[..., None].float()) / scale[..., None].float() + 8
    return codes.round().clamp(0, 15).to(torch.uint8), scale, zero


def restored(codes: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    return (codes.float() - 8) * scale[..., None].float() + zero[..., None].float()
