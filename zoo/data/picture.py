"""Fields of images: files, arrays or PIL images, decoded and fitted to the tokenizer's size."""

# Shapes: N samples, B batch, C channels, H height, W width.

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import Subset
from tqdm import tqdm

from zoo.data.field import Field
from zoo.tokenizers import Tokenizer
from zoo.tokenizers.image import converted, pixels

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "PPM", "TIFF")  # PIL's decoders that meet files from anywhere
MEMORY = 4 * 2**30  # bytes of decoded images that are kept


class Pictures(Field):
    """Images as files, arrays (H, W) or (H, W, C) of uint8, or PIL images; fitted to the tokenizer's size when it is
    known: its channels, its way of resizing, or bicubic resizing of the shorter side and the centre cut out."""

    modality = "image"

    def __init__(self, items: Sequence[Path | np.ndarray | Image.Image], tokenizer: Tokenizer | None = None):
        self.items, self.tokenizer = items, tokenizer

    def __len__(self) -> int:
        return len(self.items)

    def take(self, index: list[int]) -> Field:
        items = self.items[index] if isinstance(self.items, np.ndarray) else Subset(self.items, index)
        return Pictures(items, self.tokenizer)

    def ready(self, tokenizer: Tokenizer) -> Field:
        """All decoded in memory, where that takes no more than 4 GB."""
        shape = (len(self), tokenizer.channels, tokenizer.height, tokenizer.width)
        if np.prod(shape, dtype=np.int64) > MEMORY:
            return Pictures(self.items, tokenizer)
        with torch.inference_mode(False):  # other threads fill it
            images = torch.empty(shape, dtype=torch.uint8)

        def place(i: int) -> None:
            images[i] = fit(self.items[i], tokenizer)

        with ThreadPoolExecutor() as pool:
            for _ in tqdm(pool.map(place, range(len(self))), "decoding images", len(self), delay=3, leave=False):
                pass
        return Pixels(images)

    def raw(self, index: list[int]) -> Tensor:
        return torch.stack([fit(self.items[i], self.tokenizer) for i in index])

    @property
    def size(self) -> int:
        if isinstance(self.items, np.ndarray):
            return self.items.size
        first = self.items[0]
        return sum(self.items[i].stat().st_size for i in range(len(self))) if isinstance(first, Path) else len(self)


class Pixels(Field):
    """(N, C, H, W) uint8 images of the tokenizer's size."""

    def __init__(self, images: Tensor):
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def take(self, index: list[int]) -> Field:
        return Pixels(self.images[index])

    def raw(self, index: list[int]) -> Tensor:
        return self.images[index]

    @property
    def size(self) -> int:
        return self.images.numel()


class Firsts(Sequence):
    """The images of a data set of (image, label) pairs, decoded when they are needed."""

    def __init__(self, pairs: Sequence):
        self.pairs = pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, i: int) -> Image.Image:
        return self.pairs[i][0]


def fit(item: Path | np.ndarray | Image.Image, tokenizer: Tokenizer) -> Tensor:
    """One image -> (C, H, W) uint8 as ``tokenizer`` wants it.  ValueError names the file that cannot be used."""
    name = item if isinstance(item, Path) else "image"
    image = read_image(item) if isinstance(item, Path) else item
    image = Image.fromarray(image) if isinstance(image, np.ndarray) else image
    height, width, patch = tokenizer.height, tokenizer.width, tokenizer.patch
    if min(image.size) < patch:
        raise ValueError(f"{name}: {image.width} x {image.height} pixels are less than one {patch} x {patch} patch")
    image = converted(image, tokenizer.channels)
    if tokenizer.resize is not None:
        return tokenizer.resize(pixels(image), height, width)
    if image.size != (width, height):
        image = ImageOps.fit(image, (width, height), Image.Resampling.BICUBIC)
    return pixels(image)


def read_image(path: Path) -> Image.Image:
    """A decoded image, turned upright.  Raises FileNotFoundError, or ValueError for what is not a whole image."""
    try:
        with Image.open(path, formats=FORMATS) as image:
            image.load()
            return ImageOps.exif_transpose(image)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such image") from None
    except Exception as error:  # PIL's decoders raise many kinds
        reason = str(error).replace("\n", " ")
        raise ValueError(f"{path}: not a whole image that can be read ({reason}): replace or remove it") from None
