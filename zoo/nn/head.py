"""From a state to a prediction."""

# Shapes: D model width, V outputs: a vocabulary, classes, or a token's features.

from collections.abc import Callable

import torch
from torch import Tensor, nn

from zoo.nn.ffn import Activation, activation
from zoo.nn.norm import LayerNorm, NoNorm, Norm


class Head(nn.Module):
    """What a ``head`` slot takes: built as ``head(dim, outputs, tied)``, (..., D) -> (..., V).

    ``tied`` is an embedding's table (V, D) whose weights are shared, or None.
    """

    out: nn.Linear  # the last layer of a head that has ``split``

    def split(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """(features (..., D), bias (V,) or None) with ``forward(x) == features @ out.weight.mT + bias``.

        For heads of this form, so that a loss need not have all predictions in memory; others go without.
        """
        raise NotImplementedError


HeadFactory = Callable[[int, int, nn.Parameter | None], Head]


class Project(Head):
    """scale * (W norm(x) + b): GPT-2, LLaMA, ViT; AST with a norm; T5 with a scale of D^-1/2."""

    def __init__(
        self,
        dim: int,
        outputs: int,
        tied: nn.Parameter | None = None,
        bias: bool = True,
        scale: float = 1.0,
        norm: Callable[[int], Norm] = NoNorm,
    ):
        super().__init__()
        self.scale, self.norm = scale, norm(dim)
        self.out = linear(dim, outputs, tied, bias)

    def forward(self, x: Tensor) -> Tensor:
        y = self.out(self.norm(x))
        return y if self.scale == 1 else y * self.scale

    def split(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        x, bias = self.norm(x), self.out.bias
        if self.scale == 1:
            return x, bias
        return x * self.scale, None if bias is None else bias * self.scale


class Shifted(Head):
    """W x + b with a ``bias`` that is kept but not trained: the final_logits_bias of BART and Marian."""

    def __init__(self, dim: int, outputs: int, tied: nn.Parameter | None = None):
        super().__init__()
        self.out = linear(dim, outputs, tied, False)
        self.register_buffer("bias", torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x) + self.bias

    def split(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        return x, self.bias


class TransformHead(Head):
    """W norm(act(W' x + b')) + b: the masked-LM head of BERT (Devlin et al. 2018), RoBERTa and DeBERTa."""

    def __init__(
        self,
        dim: int,
        outputs: int,
        tied: nn.Parameter | None = None,
        act: Activation = "gelu",
        norm: Callable[[int], Norm] = LayerNorm,
    ):
        super().__init__()
        self.dense, self.act, self.norm = nn.Linear(dim, dim), activation(act), norm(dim)
        self.out = linear(dim, outputs, tied, True)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.norm(self.act(self.dense(x))))

    def split(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.norm(self.act(self.dense(x))), self.out.bias


def linear(dim: int, outputs: int, tied: nn.Parameter | None, bias: bool) -> nn.Linear:
    layer = nn.Linear(dim, outputs, bias=bias)
    if tied is not None:
        layer.weight = tied
    return layer
