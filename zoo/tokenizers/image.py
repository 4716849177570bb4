"""Images as a sequence of square patches (Dosovitskiy et al. 2020)."""

# Shapes: B batch, C channels, H height, W width, h and w those of a smaller image, P patch size, T = H W / P^2 patches,
# F = P P C features, D width.

import math
from collections.abc import Callable, Sequence
from typing import Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from zoo.described import Described
from zoo.tokenizers.embed import FeatureEmbed, FeatureTokenizer, LinearEmbed
from zoo.tokenizers.tokenizer import Tokens

Filter = Literal["bilinear", "bicubic", "nearest"]
PIXELS = 2**26  # of the largest image: 8192 x 8192, 268 MB while it is read
HEADS = 10  # that a picture of attention has room for
OUTSIDE = -math.inf  # what a patch beside a smaller image consists of, which no pixel is
MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # channels -> PIL's name


class Stem(FeatureEmbed):
    """What ``Patches``' ``stem`` slot takes: built as ``stem(dim, tokenizer)``."""


class LinearStem(LinearEmbed, Stem):
    """One linear map of each patch; without ``bias``, CLIP's (Radford et al. 2021)."""


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

    def project(self, value: Tensor, padding: Tensor | None) -> Tensor:
        x = self.projection(self.convolutions(self.tokenizer.unpatchify(value)))  # (B, D, H / P, W / P)
        return x.flatten(2).mT


class Resizing(Described):
    """What ``Patches``' ``resize`` slot takes: how an image of any size becomes one that the model reads."""

    fixed = True  # does every image get the model's own size?

    def __call__(self, image: Tensor, height: int, width: int, patch: int = 1) -> Tensor:
        """(C, h, w) uint8 -> (C, H, W) uint8, of at most ``height`` x ``width`` pixels, in whole ``patch``es."""
        raise NotImplementedError


class Resize(Resizing):
    """Every image becomes ``height`` x ``width``.

    ``size`` None: both sides become the model's, whatever the proportions (ViT).  A number: the shorter side gets so
    many pixels, and the centre is cut out (CLIP; timm).  [height, width]: both sides, then the centre is cut out.
    Black surrounds an image that is smaller than the cut.  Resized are bytes, antialiased, as torchvision does it; PIL
    rounds otherwise, by a few of 255.
    """

    def __init__(
        self,
        size: list[int] | int | None = None,
        interpolation: Filter = "bilinear",
    ):
        self.size, self.interpolation = size, known(interpolation)

    def __call__(self, image: Tensor, height: int, width: int, patch: int = 1) -> Tensor:
        old = image.size(-2), image.size(-1)
        if isinstance(self.size, int):
            new = tuple(int(self.size * side / min(old)) for side in old)
        else:
            new = (height, width) if self.size is None else tuple(self.size)
        if new[0] * new[1] > max(PIXELS, old[0] * old[1]):  # the other side of an image that is a thin line
            raise ValueError(
                f"{old[1]} x {old[0]} pixels would become {new[1]:,} x {new[0]:,}: not the shape of an image"
            )
        image = interpolated(image, new, self.interpolation) if new != old else image
        down, across = height - image.size(-2), width - image.size(-1)
        if max(down, across) > 0:
            down, across = max(down, 0), max(across, 0)
            image = F.pad(image, (across // 2, across - across // 2, down // 2, down - down // 2))
        top, left = (image.size(-2) - height) // 2, (image.size(-1) - width) // 2
        return image[:, top : top + height, left : left + width]


class Fit(Resizing):
    """An image keeps its shape (NaViT, Dehghani et al. 2023): one that is too large is made smaller until it fits, and
    none is made larger.  Its sides are rounded to whole patches, one at least, by which its shape changes a little.

    It lies in the upper left of the grid of patches, and what is beside it is padding, which costs no computation.
    """

    fixed = False

    def __init__(self, interpolation: Filter = "bilinear"):
        self.interpolation = known(interpolation)

    def __call__(self, image: Tensor, height: int, width: int, patch: int = 1) -> Tensor:
        old = image.size(-2), image.size(-1)
        scale = min(height / old[0], width / old[1], 1.0)
        new = tuple(max(1, round(side * scale / patch)) * patch for side in old)
        return interpolated(image, new, self.interpolation) if new != old else image


def known(interpolation: Filter) -> Filter:
    if interpolation not in get_args(Filter):
        raise ValueError(f"interpolation={interpolation!r} is none of {', '.join(get_args(Filter))}")
    return interpolation


def interpolated(image: Tensor, size: tuple[int, ...], mode: str) -> Tensor:
    if mode == "nearest":
        return F.interpolate(image[None], size, mode="nearest-exact")[0]
    if mode == "bilinear" and torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):  # no kernel for bytes
        image = F.interpolate(image[None].float(), size, mode=mode, antialias=True, align_corners=False)[0]
        return image.round().clamp(0, 255).to(torch.uint8)
    return F.interpolate(image[None], size, mode=mode, antialias=True, align_corners=False)[0]


def converted(image: Image.Image, channels: int) -> Image.Image:
    """A PIL image of any mode -> one of so many channels; what is transparent lies on white, where there is no alpha
    channel.  Raises ValueError for numbers of channels that images have not."""
    if channels not in MODES:
        raise ValueError(f"channels={channels}: images have 1, 3 or 4 channels")
    if image.mode.startswith("I"):  # 16 bits, which PIL would cut off at 255
        image = Image.fromarray((np.array(image).clip(0, 65535) / 257).round().astype(np.uint8))
    if channels < 4 and ("A" in image.getbands() or image.info.get("transparency") is not None):
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image if image.mode == MODES[channels] else image.convert(MODES[channels])


def pixels(image: Image.Image) -> Tensor:
    """(C, H, W) uint8"""
    value = torch.from_numpy(np.array(image))  # (H, W) or (H, W, C)
    return value[None] if value.dim() == 2 else value.permute(2, 0, 1)


class Patches(FeatureTokenizer):
    """Images as ``patch`` x ``patch`` squares, row by row; ``size`` is a number of pixels or [height, width].

    A token is the normalised pixels (x - ``mean``) / ``std`` of its square, in the order row, column, channel; pixels
    are in [0, 1] before.  Predictions are scored by their mean squared error on normalised pixels.

    ``resize`` brings images of other sizes to this one; without it ``encode`` raises ValueError for them, and a data
    module fits them by the shorter side.  With ``Fit`` an image may be smaller: it fills a part of the grid, and the
    other patches are padding.
    Raises ValueError where the patch does not divide the image.
    """

    modality = "image"
    unit = "patches"

    def __init__(
        self,
        size: list[int] | int = 224,
        patch: int = 16,
        channels: int = 3,
        mean: list[float] | float = 0.5,
        std: list[float] | float = 0.5,
        stem: Callable[[int, "Patches"], Stem] | None = None,
        resize: Resizing | None = None,
    ):
        self.height, self.width = (size, size) if isinstance(size, int) else size
        self.patch, self.channels, self.stem, self.resize = patch, channels, stem, resize
        self.gaps = resize is not None and not resize.fixed
        if patch < 1 or self.height % patch or self.width % patch:
            raise ValueError(f"patch={patch} does not divide the image of {self.height} x {self.width} pixels")
        self.features = patch * patch * channels
        self.length = (self.height // patch) * (self.width // patch)
        self.mean, self.std = _per_channel("mean", mean, channels), _per_channel("std", std, channels)

    @property
    def grid(self) -> tuple[int, int]:
        """Patches down and across."""
        return self.height // self.patch, self.width // self.patch

    def encode(self, raw: Tensor | Image.Image) -> Tensor:
        """(C, H, W) -> (T, F), or with a batch in front; uint8, or floats in [0, 1].  With ``resize``, PIL images go
        through it, and single images of bytes that have another size.  Patches beside a smaller image are -inf."""
        shape = (self.channels, self.height, self.width)
        if isinstance(raw, Image.Image):
            raw = pixels(converted(raw, self.channels))
            raw = self.resize(raw, *shape[1:], self.patch) if self.resize else raw
        elif (
            self.resize and raw.dtype == torch.uint8 and len(raw) == shape[0] and raw.dim() == 3 and raw.shape != shape
        ):
            raw = self.resize(raw, *shape[1:], self.patch)
        if tuple(raw.shape[-3:]) != shape and not (self.gaps and self._fits(raw)):
            small = min(raw.shape[-2:]) < self.patch
            parts = f" at most, in whole patches of {self.patch} x {self.patch}" if self.gaps else ""
            raise ValueError(
                f"an image of {raw.shape[-3]} channels and {raw.shape[-2]} x {raw.shape[-1]} pixels"
                + (f" is smaller than a patch of {self.patch} x {self.patch}" if small else "")
                + f"; Patches expects {self.channels} channels and {self.height} x {self.width} pixels{parts}; "
                + ("resize it" if self.gaps else "resize it, or give Patches a resize")
            )
        beside = (0, self.width - raw.size(-1), 0, self.height - raw.size(-2))
        value = self.patchify(F.pad(raw, beside) if any(beside) else raw)  # bytes are moved faster than floats
        mean, std = (each.to(value.device).flatten().repeat(self.patch**2) for each in (self.mean, self.std))  # (F,)
        value = value.float().div_(255).sub_(mean) if raw.dtype == torch.uint8 else value.float() - mean
        value = value.div_(std)
        if any(beside):
            rows, columns = raw.size(-2) // self.patch, raw.size(-1) // self.patch
            value.unflatten(-2, self.grid)[..., rows:, :, :] = OUTSIDE
            value.unflatten(-2, self.grid)[..., columns:, :] = OUTSIDE
        return value

    def prompt(self, raw: Tensor | Image.Image) -> Tensor:
        """The same.  Raises ValueError for an image that is smaller than the grid, whose end nothing tells."""
        value = self.encode(raw)
        if self._extent(value) != self.grid:
            down, across = (self.patch * count for count in self._extent(value))
            raise ValueError(
                f"an image of {down} x {across} pixels cannot be gone on from: give one of {self.height} x {self.width}"
            )
        return value

    def _fits(self, image: Tensor) -> bool:
        """Do whole patches of it fill a part of the grid?"""
        channels, height, width = image.shape[-3:]
        whole = height % self.patch == width % self.patch == 0
        return channels == self.channels and whole and 0 < height <= self.height and 0 < width <= self.width

    def batched(self, value: Tensor) -> Tokens:
        if not self.gaps:
            return Tokens(value)
        outside = value[..., 0] == OUTSIDE  # (B, T)
        return Tokens(value.masked_fill(outside[..., None], self.filler), ~outside) if outside.any() else Tokens(value)

    def unpadded(self, value: Tensor, real: Tensor) -> Tensor:
        """The whole grid, for a patch's place tells its row and column; those beside the image are -inf."""
        return value.masked_fill(~real.view(-1, *[1] * (value.dim() - 1)), OUTSIDE)

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
        """(T, F) -> (C, H, W), floats in [0, 1]; smaller where patches beside the image are -inf."""
        rows, columns = self._extent(value)
        image = self.unpatchify(value.float()) * self.std.to(value.device) + self.mean.to(value.device)
        return image[:, : rows * self.patch, : columns * self.patch].clamp(0, 1)

    def _extent(self, value: Tensor) -> tuple[int, int]:
        """The patches down and across that an image (T, F) fills."""
        inside = (value[:, 0] != OUTSIDE).view(self.grid)
        return int(inside.any(1).sum()), int(inside.any(0).sum())

    def regarded(self, value: Tensor, weights: Tensor) -> dict[str, tuple[Tensor, Tensor | None]]:
        """The image, and over it the mean of the heads and each of the first ``HEADS``."""
        rows, columns = self._extent(value)
        image, grids = self.decode(value), weights.unflatten(-1, self.grid)[:, :rows, :columns]  # (H, rows, columns)
        heads = {f"head {i + 1}": (image, grid) for i, grid in enumerate(grids[:HEADS])}
        return {"image": (image, None), "mean": (image, grids.mean(0)), **heads}


def _per_channel(name: str, value: Sequence[float] | float, channels: int) -> Tensor:
    """(C, 1, 1)"""
    values = [value] * channels if isinstance(value, (int, float)) else list(value)
    if len(values) != channels:
        raise ValueError(f"{name}={value} has {len(values)} numbers for {channels} channels")
    return torch.tensor(values, device="cpu").view(channels, 1, 1)  # also where models are built without values
