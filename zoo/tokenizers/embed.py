"""Tokens that are feature vectors (patches, frames): what images and audio share."""

# Shapes: B batch, T tokens, F features a token, D model width.

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from zoo.nn import HeadFactory, Project
from zoo.tokenizers.tokenizer import Embed, Scores, Tokenizer


class FeatureEmbed(Embed):
    """Base: ``project`` (B, T, F) -> (B, T, D) is the subclass's, and ``padding`` as in ``Tokens``; vectors for hidden
    tokens and the start are kept."""

    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def add_mask(self) -> None:
        self.mask = nn.Parameter(torch.randn(self.dim) * 0.02)

    def add_start(self) -> None:
        self.first = nn.Parameter(torch.randn(self.dim) * 0.02)

    def project(self, value: Tensor, padding: Tensor | None) -> Tensor:
        raise NotImplementedError

    def forward(
        self,
        value: Tensor,
        hidden: Tensor | None = None,
        types: Tensor | None = None,
        padding: Tensor | None = None,
    ) -> Tensor:
        if hidden is None:
            return self.project(value, padding)
        if self.stride != 1:
            raise ValueError(
                f"{type(self).__name__} merges {self.stride} frames into one token, so no single one can be hidden; "
                f"use Frames(stack={self.stride}) for masked modelling"
            )
        seen = value.masked_fill(hidden[..., None], 0.0)  # a stem may look at neighbours
        x = self.project(seen, padding)
        return torch.where(hidden[..., None], self.mask.type_as(x), x)

    def start(self, batch: int) -> Tensor:
        return self.first.expand(batch, 1, -1)


class LinearEmbed(FeatureEmbed):
    """One linear map of each token's features: for patches, the same as a convolution whose stride is its size."""

    def __init__(self, dim: int, tokenizer: "FeatureTokenizer", bias: bool = True):
        super().__init__(dim)
        self.projection = nn.Linear(tokenizer.features, dim, bias=bias)

    def project(self, value: Tensor, padding: Tensor | None) -> Tensor:
        return self.projection(value)


class FeatureTokenizer(Tokenizer):
    """Base of the tokenizers whose tokens are ``features`` numbers each.

    Predictions are such numbers too, scored by their mean squared error.  ``stem`` builds the embedding as
    ``stem(dim, tokenizer)``; None for a linear map.
    """

    features: int
    endless = True
    stem: Callable[..., Embed] | None = None

    @property
    def nothing(self) -> Tensor:
        return torch.zeros(0, self.features)

    def embed(self, dim: int) -> Embed:
        return (self.stem or LinearEmbed)(dim, self)

    def head(self, dim: int, tied: Embed | None = None, make: HeadFactory | None = None) -> nn.Module:
        return (make or Project)(dim, self.features, None)

    def score(self, prediction: Tensor, target: Tensor, smoothing: float = 0.0) -> Scores:
        """ "loss": the squared error, averaged over a token's features."""
        error = (prediction.float() - target.float()).square().mean(-1).sum()
        return {"loss": (error, torch.tensor(len(target), device=error.device))}

    def choose(self, prediction: Tensor) -> Tensor:
        return prediction

    def guessed(self, truth: Tensor, guess: Tensor, hidden: Tensor) -> dict[str, Any]:
        """Hidden features are NaN."""
        return self._three(truth, "masked", hidden, "guessed", guess)

    def continued(self, truth: Tensor, written: Tensor, given: int) -> dict[str, Any]:
        later = torch.arange(len(truth), device=truth.device) >= given
        return self._three(truth, "given", later, "completed", written)

    def _three(self, truth: Tensor, shown: str, hidden: Tensor, made: str, other: Tensor) -> dict[str, Any]:
        outside = truth.isinf()  # beside a smaller image
        visible = truth.masked_fill(hidden[:, None] & ~outside, math.nan)
        other = torch.where(outside, truth, other) if outside.any() else other
        return {"original": self.decode(truth), shown: self.decode(visible), made: self.decode(other)}
