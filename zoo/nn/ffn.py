"""Feed-forward networks: each token by itself."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.nn.cache import State
from zoo.nn.context import Context, FeedForward

Activation = Literal["gelu", "gelu_tanh", "quick_gelu", "relu", "relu2", "silu", "tanh", "sigmoid"]


def gelu_tanh(x: Tensor) -> Tensor:
    """GPT-2's approximation (Hendrycks & Gimpel 2016)."""
    return F.gelu(x, approximate="tanh")


def quick_gelu(x: Tensor) -> Tensor:
    """CLIP's."""
    return x * torch.sigmoid(1.702 * x)


def relu2(x: Tensor) -> Tensor:
    """Primer's (So et al. 2021)."""
    return F.relu(x).square()


ACTIVATIONS = {  # named functions, so that a module that holds one can be pickled
    "gelu": F.gelu,
    "gelu_tanh": gelu_tanh,
    "quick_gelu": quick_gelu,
    "relu": F.relu,
    "relu2": relu2,
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

    tensor_parallel = {"up": "column", "down": "row"}

    packs, ahead = True, False

    def __init__(
        self, dim: int, hidden: int | None = None, act: Activation = "gelu", bias: bool = True, dropout: float = 0.0
    ):
        super().__init__()
        hidden = hidden or 4 * dim
        self.up = nn.Linear(dim, hidden, bias=bias)
        self.down = nn.Linear(hidden, dim, bias=bias)
        self.act, self.drop = activation(act), nn.Dropout(dropout)

    def forward(self, x: Tensor, ctx: Context | None = None, state: State | None = None) -> Tensor:
        return self.down(self.drop(self.act(self.up(x))))


class GLU(FeedForward):
    """down(act(gate x) * up x) (Shazeer 2020): SwiGLU with "silu", GEGLU with "gelu".

    ``hidden`` is 8/3 D, rounded up to a multiple of 8, if not given: the parameters of an MLP of 4 D.
    """

    siblings = ("gate", "up")
    tensor_parallel = {"gate": "column", "up": "column", "down": "row"}
    packs, ahead = True, False

    def __init__(
        self, dim: int, hidden: int | None = None, act: Activation = "silu", bias: bool = False, dropout: float = 0.0
    ):
        super().__init__()
        hidden = hidden or -(-8 * dim // 24) * 8
        self.gate = nn.Linear(dim, hidden, bias=bias)
        self.up = nn.Linear(dim, hidden, bias=bias)
        self.down = nn.Linear(hidden, dim, bias=bias)
        self.act, self.drop = activation(act), nn.Dropout(dropout)

    def forward(self, x: Tensor, ctx: Context | None = None, state: State | None = None) -> Tensor:
        return self.down(self.drop(self.act(self.gate(x)) * self.up(x)))
