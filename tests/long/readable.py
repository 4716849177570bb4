"""Is every file of a run whole?  What a reader of each kind says about it."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml
from PIL import Image

from zoo.checkpoints import read_checkpoint


def unreadable(run: Path) -> Iterator[str]:
    """What is wrong with which file of a run; partial files, which are swept away later, have names of their own."""
    for path in sorted(run.rglob("*")):
        if path.is_file() and not path.name.endswith(".partial"):
            try:
                READERS.get(path.suffix, Path.read_bytes)(path)
            except Exception as error:  # each reader has its own
                yield f"{path}: {type(error).__name__}: {error}"


def table(path: Path) -> None:
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    ragged = [row for row in rows if len(row) != len(header)]
    if ragged:
        raise ValueError(f"{len(header)} columns, and a row with {len(ragged[0])}")


def picture(path: Path) -> None:
    with Image.open(path) as image:
        image.load()


def mapping(path: Path) -> None:
    if not isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict):
        raise ValueError("no mapping")


READERS: dict[str, Callable[[Path], object]] = {
    ".ckpt": read_checkpoint,
    ".csv": table,
    ".json": lambda path: json.loads(path.read_text(encoding="utf-8")),
    ".png": picture,
    ".txt": lambda path: path.read_text(encoding="utf-8"),
    ".yaml": mapping,
}
