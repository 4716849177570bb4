"""Feed-forward networks: each token by itself."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.nn.context import Context, FeedForward

Activation = Literal["gelu", "gelu_tanh", "quick_gelu", "relu", "relu2", "silu", "tanh", "sigmoid"]

ACTIVATIONS = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),  # GPT-2's
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),  # CLIP's
    "relu": F.relu,
    "relu2": lambda x: F.relu(x).square(),  # So et al. 2021
    "silu": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


def activation(name: Activation):
    if name not in ACTIVATIONS:
        raise ValueError(f"act={name!r} is none of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


class MLP(FeedForward):
    """down(act(up x)); ``hidden`` is 4 D if not given."""

    def __init__(
        self, dim: int, hidden: int | None = None, act: Activation = "gelu", bias: bool = True, dropout: float = 0.0
    ):
        super().__init__()
        hidden = hidden or 4 * dim
        self.up = nn.Linear(dim, hidden, bias=bias)
        self.down = nn.Linear(hidden, dim, bias=bias)
        self.act, self.drop = activation(act), nn.Dropout(dropout)

    def forward(self, x: Tensor, ctx: Context | None = None, state: dict | None = None) -> Tensor:
        return self.down(self.drop(self.act(self.up(x))))


class GLU(FeedForward):
    """down(act(gate x) * up x) (Shazeer 2020): SwiGLU with "silu", GEGLU with "gelu".

    ``hidden`` is 8/3 D, rounded up to a multiple of 8, if not given: the parameters of an MLP of 4 D.
    """

    def __init__(
        self, dim: int, hidden: int | None = None, act: Activation = "silu", bias: bool = False, dropout: float = 0.0
    ):
        super().__init__()
        hidden = hidden or -(-8 * dim // 24) * 8
        self.gate = nn.Linear(dim, hidden, bias=bias)
        self.up = nn.Linear(dim, hidden, bias=bias)
        self.down = nn.Linear(hidden, dim, bias=bias)
        self.act, self.drop = activation(act), nn.Dropout(dropout)

    def forward(self, x: Tensor, ctx: Context | None = None, state: dict | None = None) -> Tensor:
        return self.down(self.drop(self.act(self.gate(x)) * self.up(x)))
