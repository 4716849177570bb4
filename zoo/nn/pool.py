"""From a sequence to one vector."""

# Shapes: B batch, T tokens, D model width.

import torch
from torch import Tensor, nn

from zoo.nn.ffn import Activation, activation


class Pool(nn.Module):
    """What a ``pool`` slot takes: may put tokens of its own in front, and reads (B, T, D) into (B, D)."""

    def __init__(self, dim: int = 0):
        super().__init__()

    def extend(self, x: Tensor, padding: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Before the backbone; ``padding`` (B, T) is True where real."""
        return x, padding

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        """After the backbone."""
        raise NotImplementedError


class Mean(Pool):
    """The mean of the real tokens."""

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        if padding is None:
            return x.mean(1)
        weight = padding.unsqueeze(-1).type_as(x)
        return (x * weight).sum(1) / weight.sum(1).clamp(min=1)


class First(Pool):
    """The first token (BERT's [CLS], which its tokenizer writes)."""

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        return x[:, 0]


class Pooler(Pool):
    """act(W x_0 + b) of the first token: BERT (tanh), RoBERTa's and DeBERTa's (gelu) classifiers."""

    def __init__(self, dim: int, act: Activation = "tanh"):
        super().__init__(dim)
        self.dense, self.act = nn.Linear(dim, dim), activation(act)

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        return self.act(self.dense(x[:, 0]))


class Last(Pool):
    """The last real token: decoders."""

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        if padding is None:
            return x[:, -1]
        index = torch.arange(x.size(1), device=x.device)
        return x[torch.arange(len(x), device=x.device), (padding * index).argmax(-1)]


class ClassToken(Pool):
    """``count`` trained tokens in front of the sequence, read by their mean (ViT: 1; DeiT and AST: 2)."""

    def __init__(self, dim: int, count: int = 1):
        super().__init__(dim)
        self.count = count
        self.weight = nn.Parameter(torch.zeros(count, dim))

    def extend(self, x: Tensor, padding: Tensor | None) -> tuple[Tensor, Tensor | None]:
        x = torch.cat((self.weight.type_as(x).expand(len(x), -1, -1), x), 1)
        if padding is not None:
            padding = torch.cat((padding.new_ones(len(padding), self.count), padding), 1)
        return x, padding

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        return x[:, : self.count].mean(1)
