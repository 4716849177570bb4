"""Reading what users have on disk: text, JSONL manifests, class folders, and the splits that their names tell."""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

_SPLIT = re.compile(r"(train|val|dev|test)(ing|id|idation)?([^a-z].*)?$", re.IGNORECASE)
_MOST_CLASSES = 100_000


def existing(root: str, expected: str) -> Path:
    """``root`` as a path.  FileNotFoundError where there is nothing."""
    path = Path(root).expanduser()
    if not path.exists():
        raise FileNotFoundError(f"{root}: no such file or folder; expected {expected}")
    return path


def cache() -> Path:
    """Where downloads go: $ZOO_CACHE, or .cache/zoo in the home folder."""
    return Path(os.environ.get("ZOO_CACHE", "~/.cache/zoo")).expanduser()


def read_text(path: Path) -> str:
    """A UTF-8 text file, which may be compressed (.gz).  ValueError names the file and the first bad byte."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path}: not a whole gzip file ({error})") from None
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text at byte {error.start}: convert the file to UTF-8") from None


def lines(path: Path) -> list[str]:
    """The lines of a text file: only a line feed ends one, so that parallel files stay parallel."""
    found = read_text(path).replace("\r\n", "\n").split("\n")
    return found[:-1] if found[-1] == "" else found


def by_split(paths: Sequence[Path]) -> dict[str, list[Path]]:
    """Paths named train*, val* (valid*, dev*) and test*; all of them are "train" where no name tells a split."""
    splits: dict[str, list[Path]] = {}
    for path in paths:
        if match := _SPLIT.match(path.name):
            splits.setdefault(match[1].lower().replace("dev", "val"), []).append(path)
    if not splits:
        return {"train": list(paths)}
    if "train" not in splits:
        raise ValueError(f"{paths[0].parent}: there is {' and '.join(sorted(splits))} data, but nothing named train")
    return splits


def is_manifest(path: Path) -> bool:
    return path.name.endswith((".jsonl", ".jsonl.gz"))


def manifests(path: Path) -> dict[str, list[Path]]:
    """The JSONL files of a path by split; empty where it is a folder without any."""
    if path.is_file():
        return {"train": [path]} if is_manifest(path) else {}
    found = [child for child in sorted(path.iterdir()) if is_manifest(child)]
    return by_split(found) if found else {}


def records(path: Path) -> list[dict]:
    """The objects in a JSONL file; empty lines are passed over."""
    found = []
    for number, line in enumerate(lines(path), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: not JSON ({error})") from None
        if not isinstance(record, dict):
            raise ValueError(f"{path}, line {number}: {line[:40]!r} is not an object {{...}}")
        found.append(record)
    if not found:
        raise ValueError(f"{path}: has no records")
    return found


def column(path: Path | str, rows: Sequence[dict], key: str, kind: type = object) -> list:
    """What the records of ``path`` have at ``key``.  ValueError where one has nothing there, or no ``kind``."""
    for number, row in enumerate(rows, 1):
        if key not in row:
            known = ", ".join(map(repr, row))
            raise ValueError(f"{path}, record {number}: no key {key!r}; it has {known}; say which it is")
        if not isinstance(row[key], kind):
            raise ValueError(f"{path}, record {number}: {key!r} is {row[key]!r}, not a {kind.__name__}")
    return [row[key] for row in rows]


def class_folders(path: Path, suffixes: Sequence[str]) -> dict[str, tuple[list[Path], list[str]]]:
    """Split -> (files, class names) of root/<class>/<file> or root/<split>/<class>/<file>."""
    folders = [child for child in sorted(path.iterdir()) if child.is_dir() and not child.name.startswith(".")]
    named = [child for child in folders if _SPLIT.match(child.name) and any(c.is_dir() for c in child.iterdir())]
    splits = {}  # a class may be called "train", too: a split has folders inside
    for split, (folder, *_) in (by_split(named) if named else {"train": [path]}).items():
        files = [
            file
            for kind in sorted(folder.iterdir())
            if kind.is_dir()
            for file in sorted(kind.rglob("*"))
            if file.suffix.lower() in suffixes
        ]
        if not files:
            raise ValueError(
                f"{folder}: expected folders named as the classes, with {', '.join(suffixes)} files inside"
            )
        splits[split] = files, [file.relative_to(folder).parts[0] for file in files]
    return splits


def label_ids(origin: str, values: dict[str, Sequence]) -> tuple[list[str], dict[str, Tensor]]:
    """Labels by split -> the classes and, by split, (N,) class ids.  Labels are all strings (classes in alphabetical
    order) or all whole numbers from 0.  ValueError names ``origin`` and the label."""
    every = {label for labels in values.values() for label in labels}
    if all(isinstance(label, str) for label in every):
        classes = sorted(every)
    else:
        for label in every:
            if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < _MOST_CLASSES:
                raise ValueError(
                    f"{origin}: label {label!r} is not a class: labels are all strings, "
                    f"or all whole numbers from 0 to {_MOST_CLASSES - 1}"
                )
        classes = [str(label) for label in range(max(every) + 1)]
    place = {name: i for i, name in enumerate(classes)}
    return classes, {split: torch.tensor([place[str(label)] for label in found]) for split, found in values.items()}
