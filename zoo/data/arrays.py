"""Images as arrays in an .npz file, whose headers are checked before anything is set aside for what they promise."""

# Shapes: N samples, C channels, H height, W width.

from __future__ import annotations

import math
import zipfile
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from zoo.data.bad import sentence
from zoo.data.field import Source
from zoo.data.files import RATIO, is_bomb, regular
from zoo.data.labelled import labelled
from zoo.data.picture import Pictures

HEADER = 2**16  # bytes of an array's header at most; usual are 128
CHANNELS = (1, 3, 4)


def arrays(path: Path) -> Source:
    """An .npz file as a Source.  ValueError names the file and what is wrong with it."""
    try:
        with zipfile.ZipFile(regular(path)) as file:
            found = {name.removesuffix(".npy"): read_array(file, name) for name in file.namelist() if wanted(name)}
    except Exception as error:  # damaged ones raise many kinds
        raise ValueError(f"{path}: not a readable .npz file ({sentence(error)})") from None
    prefixes = {"train": "train_", "val": "val_", "test": "test_"} if "train_images" in found else {"train": ""}
    splits = {}
    for split, prefix in prefixes.items():
        if split != "train" and f"{prefix}images" not in found:
            continue
        for key in (f"{prefix}images", f"{prefix}labels"):
            if key not in found:
                raise ValueError(f"{path}: no array {key!r}; it has {', '.join(sorted(found)) or 'none that is read'}")
        images, labels = found[f"{prefix}images"], found[f"{prefix}labels"]
        check(f"{path}: {prefix}", images, labels)
        splits[split] = Pictures(images[..., 0] if images.shape[3:] == (1,) else images), labels.tolist()
    return labelled(str(path), splits)


def wanted(name: str) -> bool:
    return name.endswith(("images.npy", "labels.npy"))


def read_array(file: zipfile.ZipFile, name: str) -> np.ndarray:
    """An array whose header promises as many bytes as there are, and no Python objects."""
    entry = file.getinfo(name)
    if is_bomb(entry.file_size, entry.compress_size):
        raise ValueError(f"{name} unpacks to more than {RATIO} times its size")
    with file.open(entry) as stream:
        version = npy.read_magic(stream)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, kind = read(stream, max_header_size=HEADER)
        promised = math.prod(shape) * kind.itemsize
        if kind.hasobject or min(shape, default=0) < 0 or promised != entry.file_size - stream.tell():
            raise ValueError(f"{name} is {kind} {shape}, and its file holds {entry.file_size} bytes")
    with file.open(entry) as stream:
        return npy.read_array(stream, allow_pickle=False, max_header_size=HEADER)


def check(where: str, images: np.ndarray, labels: np.ndarray) -> None:
    """Refuse, naming the file, what are no images with labels."""
    shape = images.shape
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise ValueError(f"{where}images is {images.dtype} {shape}, not uint8 (N, H, W) or (N, H, W, C)")
    if shape[3:] and shape[3] not in CHANNELS:
        raise ValueError(f"{where}images has {shape[3]} channels, and images have 1, 3 or 4")
    if 0 in shape:
        raise ValueError(f"{where}images is empty: {shape}")
    if len(images) != len(labels) if labels.ndim == 1 else True:
        raise ValueError(f"{where}labels has the shape {labels.shape} for {len(images)} images")
