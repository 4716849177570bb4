"""Finding and reading what users have on disk: text, manifests, class folders, and the splits that their names tell."""

from __future__ import annotations

import codecs
import gzip
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

_SPLIT = re.compile(r"(train|val|dev|test)(ing|id|idation)?([^a-z].*)?$", re.IGNORECASE)
CHUNK = 2**20  # bytes that are read at once
LONGEST = 2**24  # bytes of a line
UNPACKED, RATIO = 2**24, 100  # bytes from which on a compressed file may have grown by no more than this factor


def existing(root: str, expected: str) -> Path:
    """``root`` as a path.  FileNotFoundError where there is nothing."""
    path = Path(root).expanduser()
    if not (path.is_file() or path.is_dir()):
        raise FileNotFoundError(f"{root}: no such file or folder; expected {expected}")
    return path


def cache() -> Path:
    """Where downloads go: $ZOO_CACHE, or .cache/zoo in the home folder."""
    return Path(os.environ.get("ZOO_CACHE", "~/.cache/zoo")).expanduser()


def regular(path: Path, what: str = "file") -> Path:
    """The path itself.  FileNotFoundError where there is none, or where it is a folder, a pipe or a device, which
    would be read for ever."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such {what}")
    return path


def stored(files: Sequence[Path]) -> int:
    """The bytes of all files; those that are not there, which is told when they are read, have none."""
    return sum(file.stat().st_size for file in files if file.is_file())


def is_bomb(unpacked: int, packed: int) -> bool:
    """Are so many bytes, made of so few, more than any text or images would be?"""
    return unpacked > UNPACKED and unpacked > RATIO * packed


def chunks(path: Path) -> Iterator[bytes]:
    """The content of a file, decompressed if it is a .gz.  ValueError for a damaged one, and one that would grow to
    more than ``RATIO`` times its size."""
    with open(regular(path), "rb") as raw:
        if path.suffix != ".gz":
            yield from iter(lambda: raw.read(CHUNK), b"")
            return
        size = 0
        try:
            with gzip.GzipFile(fileobj=raw) as file:
                while chunk := file.read(CHUNK):
                    size += len(chunk)
                    if is_bomb(size, raw.tell()):
                        raise ValueError(f"{path}: unpacks to more than {RATIO} times its size: unpack it yourself")
                    yield chunk
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{path}: not a whole gzip file ({error})") from None


def read_text(path: Path) -> str:
    """A UTF-8 text file, which may be compressed (.gz).  ValueError names the file and the first bad byte."""
    try:
        return b"".join(chunks(path)).decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text at byte {error.start}: convert the file to UTF-8") from None


def byte_lines(path: Path) -> Iterator[bytes]:
    """The lines of a text file before they are decoded; of one that is too long, little more than ``LONGEST`` bytes."""
    waiting, size, first = [], 0, True
    for chunk in chunks(path):
        *ends, last = chunk.removeprefix(codecs.BOM_UTF8 if first else b"").split(b"\n")
        first = False
        for end in ends:
            yield b"".join((*waiting, end)).removesuffix(b"\r")
            waiting, size = [], 0
        if last and size <= LONGEST:
            waiting.append(last)
            size += len(last)
    if waiting:
        yield b"".join(waiting)


def decoded(path: Path, number: int, line: bytes) -> str:
    """A line as text.  ValueError names the file and the line."""
    if len(line) > LONGEST:
        raise ValueError(f"{path}, line {number}: has more than {LONGEST:,} bytes: is this a text file of lines?")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}, line {number}: not UTF-8 text at byte {error.start} of the line: convert the file to UTF-8"
        ) from None


def lines(path: Path) -> list[str]:
    """The lines of a text file: only a line feed ends one, so that parallel files stay parallel."""
    return [decoded(path, number, line) for number, line in enumerate(byte_lines(path), 1)]


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
