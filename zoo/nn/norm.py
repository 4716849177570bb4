"""Normalisation layers; every one is built as ``norm(dim)``."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Norm(nn.Module):
    """What a ``norm`` slot takes: (..., D) -> (..., D)."""


class LayerNorm(Norm):
    """(x - mean) / sqrt(variance + eps) * weight + bias (Ba et al. 2016)."""

    def __init__(self, dim: int, eps: float = 1e-5, affine: bool = True, bias: bool = True):
        super().__init__()
        self.dim, self.eps = dim, eps
        self.weight = nn.Parameter(torch.ones(dim)) if affine else None
        self.bias = nn.Parameter(torch.zeros(dim)) if affine and bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, (self.dim,), self.weight, self.bias, self.eps)


class RMSNorm(Norm):
    """x / sqrt(mean(x^2) + eps) * weight (Zhang & Sennrich 2019), computed in float32 whatever the input."""

    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * y.type_as(x)


class NoNorm(Norm):
    """The identity, for slots that a family leaves empty."""

    def __init__(self, dim: int):
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x
