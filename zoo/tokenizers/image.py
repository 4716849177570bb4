"""Images as a sequence of square patches (Dosovitskiy et al. 2020)."""

# Shapes: B batch, C channels, H height, W width, P patch size, T = H W / P^2 patches, F = P P C features, D width.

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from zoo.tokenizers.embed import FeatureEmbed, FeatureTokenizer


class Stem(FeatureEmbed):
    """What ``Patches``' ``stem`` slot takes: built as ``stem(dim, tokenizer)``."""


class ConvStem(Stem):
    """3x3 convolutions over the whole image, then one token a patch: early convolutions see better (Xiao et al. 2021).

    ``width`` channels in each of ``layers`` convolutions, normalised in 8 groups (Wu & He 2018).
    """

    def __init__(self, dim: int, tokenizer: "Patches", width: int = 32, layers: int = 2):
        super().__init__(dim)
        self.tokenizer = tokenizer
        channels, parts = tokenizer.channels, []
        for _ in range(layers):
            parts += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.GroupNorm(8, width), nn.GELU()]
            channels = width
        self.convolutions = nn.Sequential(*parts)
        self.projection = nn.Conv2d(channels, dim, tokenizer.patch, tokenizer.patch)

    def project(self, value: Tensor) -> Tensor:
        x = self.projection(self.convolutions(self.tokenizer.unpatchify(value)))  # (B, D, H / P, W / P)
        return x.flatten(2).mT


class Patches(FeatureTokenizer):
    """Images as ``patch`` x ``patch`` squares, row by row; ``size`` is a number of pixels or [height, width].

    A token is the normalised pixels (x - ``mean``) / ``std`` of its square, in the order row, column, channel; pixels
    are in [0, 1] before.  Predictions are scored by their mean squared error on normalised pixels.
    Raises ValueError where the patch does not divide the image.
    """

    modality = "image"

    def __init__(
        self,
        size: list[int] | int = 224,
        patch: int = 16,
        channels: int = 3,
        mean: list[float] | float = 0.5,
        std: list[float] | float = 0.5,
        stem: Callable[[int, "Patches"], Stem] | None = None,
    ):
        self.height, self.width = (size, size) if isinstance(size, int) else size
        self.patch, self.channels, self.stem = patch, channels, stem
        if patch < 1 or self.height % patch or self.width % patch:
            raise ValueError(f"patch={patch} does not divide the image of {self.height} x {self.width} pixels")
        self.features = patch * patch * channels
        self.length = (self.height // patch) * (self.width // patch)
        self.mean, self.std = _per_channel("mean", mean, channels), _per_channel("std", std, channels)

    @property
    def grid(self) -> tuple[int, int]:
        """Patches down and across."""
        return self.height // self.patch, self.width // self.patch

    def encode(self, raw: Tensor) -> Tensor:
        """(C, H, W) -> (T, F), or with a batch in front; uint8, or floats in [0, 1]."""
        if tuple(raw.shape[-3:]) != (self.channels, self.height, self.width):
            small = min(raw.shape[-2:]) < self.patch
            raise ValueError(
                f"an image of {raw.shape[-3]} channels and {raw.shape[-2]} x {raw.shape[-1]} pixels"
                + (f" is smaller than a patch of {self.patch} x {self.patch}" if small else "")
                + f"; Patches expects {self.channels} channels and {self.height} x {self.width} pixels"
            )
        x = raw.float() / 255 if raw.dtype == torch.uint8 else raw.float()
        return self.patchify((x - self.mean.to(x.device)) / self.std.to(x.device))

    def patchify(self, x: Tensor) -> Tensor:
        """(..., C, H, W) -> (..., T, F)."""
        p, (rows, columns) = self.patch, self.grid
        x = x.unflatten(-1, (columns, p)).unflatten(-3, (rows, p))  # (..., C, rows, P, columns, P)
        lead = range(x.dim() - 5)
        x = x.permute(*lead, -4, -2, -3, -1, -5)  # (..., rows, columns, P, P, C)
        return x.flatten(-3).flatten(-3, -2)

    def unpatchify(self, value: Tensor) -> Tensor:
        """(..., T, F) -> (..., C, H, W), the inverse of ``patchify``."""
        p, grid = self.patch, self.grid
        x = value.unflatten(-2, grid).unflatten(-1, (p, p, self.channels))  # (..., rows, columns, P, P, C)
        x = x.permute(*range(x.dim() - 5), -1, -5, -3, -4, -2)  # (..., C, rows, P, columns, P)
        return x.flatten(-2).flatten(-3, -2)

    def decode(self, value: Tensor) -> Tensor:
        """(T, F) -> (C, H, W), floats in [0, 1]."""
        return (self.unpatchify(value.float()) * self.std.to(value.device) + self.mean.to(value.device)).clamp(0, 1)


def _per_channel(name: str, value: Sequence[float] | float, channels: int) -> Tensor:
    """(C, 1, 1)"""
    values = [value] * channels if isinstance(value, (int, float)) else list(value)
    if len(values) != channels:
        raise ValueError(f"{name}={value} has {len(values)} numbers for {channels} channels")
    return torch.tensor(values).view(channels, 1, 1)
