"""Fields of images: files, arrays or PIL images, decoded and fitted to the tokenizer's size."""

# Shapes: N samples, B batch, C channels, H height, W width.

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import ExifTags, Image, ImageOps
from torch import Tensor
from torch.utils.data import Subset
from tqdm import tqdm

from zoo.data.bad import DAMAGE, sentence
from zoo.data.field import Field
from zoo.data.files import regular, stored
from zoo.tokenizers import Tokenizer
from zoo.tokenizers.image import PIXELS, converted, pixels

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "PPM", "TIFF")  # PIL's decoders that meet files from anywhere
MEMORY = 4 * 2**30  # bytes of decoded images that are kept
ORIENTATION = ExifTags.Base.Orientation
SCANS = 100  # of a progressive JPEG, each of which costs as much time as the whole image; usual are 10


class Pictures(Field):
    """Images as files, arrays (H, W) or (H, W, C) of uint8, or PIL images; fitted to the tokenizer's size when it is
    known: its channels, its way of resizing, or bicubic resizing of the shorter side and the centre cut out.  Where
    images keep different sizes (``Fit``), a batch is a list of them."""

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
            images = torch.zeros(shape, dtype=torch.uint8)
            sizes = torch.tensor(shape[2:]).repeat(len(self), 1)
        bad: dict[int, str] = {}

        def place(i: int) -> None:
            try:
                image = fit(self.items[i], tokenizer)
                sizes[i, 0], sizes[i, 1] = height, width = image.shape[1:]
                images[i, :, :height, :width] = image
            except DAMAGE as error:
                bad[i] = sentence(error)

        with ThreadPoolExecutor() as pool:
            for _ in tqdm(pool.map(place, range(len(self))), "decoding images", len(self), delay=3, leave=False):
                pass
        return Pixels(images, bad, sizes if tokenizer.gaps else None)

    def raw(self, index: list[int]) -> list[Tensor] | Tensor:
        images = [fit(self.items[i], self.tokenizer) for i in index]
        return images if self.tokenizer.gaps else torch.stack(images)

    @property
    def size(self) -> int:
        if isinstance(self.items, np.ndarray):
            return self.items.size
        first = self.items[0]
        return stored([self.items[i] for i in range(len(self))]) if isinstance(first, Path) else len(self)


class Pixels(Field):
    """(N, C, H, W) uint8 images of the tokenizer's size; ``bad`` are those that could not be read, and why.  ``sizes``
    (N, 2), where there are any, are the height and width of each image, which lies in the upper left."""

    def __init__(self, images: Tensor, bad: Mapping[int, str], sizes: Tensor | None = None):
        self.images, self.bad, self.sizes = images, bad, sizes

    def __len__(self) -> int:
        return len(self.images)

    def take(self, index: list[int]) -> Field:
        bad = {new: self.bad[old] for new, old in enumerate(index) if old in self.bad}
        return Pixels(self.images[index], bad, None if self.sizes is None else self.sizes[index])

    def raw(self, index: list[int]) -> list[Tensor] | Tensor:
        if self.sizes is None:
            return self.images[index]
        return [self.images[i, :, :height, :width] for i, (height, width) in zip(index, self.sizes[index].tolist())]

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
    """One image -> (C, H, W) uint8 as ``tokenizer`` wants it, or smaller where it may be.  ValueError names the file
    that cannot be used."""
    name = item if isinstance(item, Path) else "image"
    image = read_image(item) if isinstance(item, Path) else item
    image = Image.fromarray(image) if isinstance(image, np.ndarray) else image
    height, width, patch = tokenizer.height, tokenizer.width, tokenizer.patch
    if min(image.size) < patch:
        raise ValueError(f"{name}: {image.width} x {image.height} pixels are less than one {patch} x {patch} patch")
    try:
        image = converted(image, tokenizer.channels)
        if tokenizer.resize is not None:
            return tokenizer.resize(pixels(image), height, width, patch)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if image.size != (width, height):
        image = ImageOps.fit(image, (width, height), Image.Resampling.BICUBIC)
    return pixels(image)


def read_image(path: Path) -> Image.Image:
    """A decoded image, turned upright; of a moving one, the first picture.

    Raises FileNotFoundError, or ValueError for what is not a whole image, or has more than ``PIXELS`` pixels; other
    errors are those of the disk.
    """
    try:
        with Image.open(regular(path, "image"), formats=FORMATS) as image:
            _check(path, image)
            if image.format == "PNG":  # whose checksums PIL passes over while it decodes
                with Image.open(path, formats=("PNG",)) as again:
                    again.verify()
            image.load()
            return ImageOps.exif_transpose(image) if image.getexif().get(ORIENTATION, 1) != 1 else image
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # PIL's own have none
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise _unreadable(path, error) from None
    except Exception as error:  # PIL's decoders raise many kinds
        raise _unreadable(path, error) from None


def _check(path: Path, image: Image.Image) -> None:
    """Refuse, by what its header says, an image that would take too much memory or time."""
    if image.width * image.height > PIXELS:
        raise ValueError(f"{image.width:,} x {image.height:,} pixels, and {PIXELS:,} are the most")
    if image.format == "JPEG" and "progressive" in image.info:
        scans = path.read_bytes().count(b"\xff\xda")
        if scans > SCANS:
            raise ValueError(f"a JPEG of {scans} scans, and {SCANS} are the most")


def _unreadable(path: Path, error: Exception) -> ValueError:
    return ValueError(f"{path}: not a whole image that can be read ({sentence(error)}): replace or remove it")
