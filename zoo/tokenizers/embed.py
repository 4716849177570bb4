"""Embeddings of feature vectors (patches, frames): what images and audio share."""

# Shapes: B batch, T tokens, F features a token, D model width.

import torch
from torch import Tensor, nn

from zoo.tokenizers.tokenizer import Embed


class FeatureEmbed(Embed):
    """Base: ``project`` (B, T, F) -> (B, T, D) is the subclass's; vectors for hidden tokens and the start are kept."""

    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def add_mask(self) -> None:
        self.mask = nn.Parameter(torch.randn(self.dim) * 0.02)

    def add_start(self) -> None:
        self.first = nn.Parameter(torch.randn(self.dim) * 0.02)

    def project(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, value: Tensor, hidden: Tensor | None = None) -> Tensor:
        if hidden is None:
            return self.project(value)
        if self.stride != 1:
            raise ValueError(
                f"{type(self).__name__} merges {self.stride} frames into one token, so no single one can be hidden; "
                f"use Frames(stack={self.stride}) for masked modelling"
            )
        x = self.project(value.masked_fill(hidden[..., None], 0.0))  # zeroed first: a stem may look at its neighbours
        return torch.where(hidden[..., None], self.mask.type_as(x), x)

    def start(self, batch: int) -> Tensor:
        return self.first.expand(batch, 1, -1)


class LinearEmbed(FeatureEmbed):
    """One linear map of each token's features: for patches, the same as a convolution whose stride is its size."""

    def __init__(self, features: int, dim: int):
        super().__init__(dim)
        self.projection = nn.Linear(features, dim)

    def project(self, value: Tensor) -> Tensor:
        return self.projection(value)


def squared_error(prediction: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """(N, F) twice -> the sum over tokens of the mean squared error of their features, and N."""
    error = (prediction.float() - target.float()).square().mean(-1).sum()
    return error, torch.tensor(len(target), device=error.device)
