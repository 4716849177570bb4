"""Documents read one after another from files or a data set of any size, without ever holding them all."""

from __future__ import annotations

import codecs
import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from zoo.data.bad import BadItems, sentence
from zoo.data.files import by_split, byte_lines, chunks, existing, is_manifest, regular
from zoo.data.records import checked, no_text, record

TEXT = (".txt", ".txt.gz")
SUFFIXES = (*TEXT, ".jsonl", ".jsonl.gz", ".parquet")
EXPECTED = f"{', '.join(SUFFIXES)}, a folder of them, or hf:NAME"
PIECE = 2**24  # characters of a document from which on it is read in pieces
ROWS = 1024  # of a Parquet file that are read at once


class Piece(NamedTuple):
    """A document, or a part of one that is too long to be held."""

    split: str
    text: str
    begins: bool  # with it begins a document
    ends: bool


@dataclass
class Corpus:
    """What there is to read: files by split, or rows by split, and the key of the text in records.

    Where there is no split "val", the share ``val`` is held out: of text files the last of all bytes, from the start of
    a line on; of records each by chance, a pure function of its number.
    """

    files: dict[str, list[Path]]
    rows: dict[str, Iterable[dict[str, Any]]] = field(default_factory=dict)
    key: str = "text"
    val: float = 0.0

    def pieces(self, only: str | None = None) -> Iterator[Piece]:
        """Every document in order, or those of one split as it is named.  ValueError or FileNotFoundError for the first
        that cannot be read."""
        cut = self.val if "val" not in (*self.files, *self.rows) else 0.0
        for split, paths in self.files.items():
            if only not in (None, split):
                continue
            share = cut if split == "train" else 0.0
            yield from held_out(split, [path for path in paths if path.name.endswith(TEXT)], share)
            records = (text for path in paths if not path.name.endswith(TEXT) for text in file_texts(path, self.key))
            yield from by_chance(split, records, share)
        for split, rows in self.rows.items():
            if only not in (None, split):
                continue
            yield from by_chance(
                split, row_texts(f"the {split} rows", rows, self.key), cut if split == "train" else 0.0
            )

    @property
    def size(self) -> int | None:
        """The bytes of the text, and of what stands around it; None where that is not known beforehand."""
        paths = [path for found in self.files.values() for path in found]
        if self.rows or any(path.suffix in (".gz", ".parquet") for path in paths):
            return None
        return sum(path.stat().st_size for path in paths)


def found(sources: Sequence[str]) -> dict[str, list[Path]]:
    """The files of several sources by split: files together, and each folder, tell it by names.  ValueError where a
    folder has none, or a file is of another kind."""
    paths = [existing(source, EXPECTED) for source in sources]
    for path in paths:
        if path.is_file() and not path.name.endswith(SUFFIXES):
            raise ValueError(f"{path}: is none of {EXPECTED}")
    splits = by_split(files) if (files := [path for path in paths if path.is_file()]) else {}
    for folder in (path for path in paths if path.is_dir()):
        entries = [entry for entry in sorted(folder.iterdir()) if entry.is_dir() or entry.name.endswith(SUFFIXES)]
        for split, some in by_split(entries).items():
            inside = [file for entry in some for file in ([entry] if entry.is_file() else sorted(entry.rglob("*")))]
            inside = [file for file in inside if file.is_file() and file.name.endswith(SUFFIXES)]
            if not inside:
                raise ValueError(f"{folder}: has no {' or '.join(SUFFIXES)} files for {split}")
            splits.setdefault(split, []).extend(inside)
    return splits


def hugging_face(name: str, streaming: bool = False) -> dict[str, Any]:
    """The splits of a data set of the ``datasets`` package: ``name`` is NAME or NAME:CONFIG.  With ``streaming`` its
    rows are fetched as they are read."""
    try:
        import datasets
    except ImportError:
        raise ValueError(f"hf:{name}: needs the datasets package: pip install lightning-zoo[data]") from None
    options = {"streaming": True} if streaming else {}
    try:
        there = datasets.load_dataset(*name.split(":", 1), **options)
    except (OSError, ValueError, RuntimeError) as error:
        raise ValueError(f"hf:{name}: cannot be loaded ({sentence(error)})") from None
    names = {"train": "train", "validation": "val", "test": "test"}
    return {names[split]: rows for split, rows in there.items() if split in names}


def text_parts(path: Path) -> Iterator[str]:
    """A text file in parts that end with lines, of about ``PIECE`` characters at most; an empty one has none."""
    decoder, waiting, read = codecs.getincrementaldecoder("utf-8")(), "", 0
    for chunk in itertools.chain(chunks(path), [b""]):  # nothing ends it
        before = len(decoder.getstate()[0])
        try:
            waiting += decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            place = read - before + error.start
            raise ValueError(f"{path}: not UTF-8 text at byte {place}: convert the file to UTF-8") from None
        waiting = waiting.removeprefix("\ufeff") if read == 0 else waiting
        read += len(chunk)
        while len(waiting) > PIECE:
            end = line_end(waiting, PIECE)
            yield waiting[:end]
            waiting = waiting[end:]
    if waiting:
        yield waiting


def line_end(text: str, before: int) -> int:
    """The place behind the last line end before one that stands alone between letters, where a text can be cut without
    a change of its tokens; ``before`` itself where there is none."""
    end = text.rfind("\n", 1, before)
    while end > 0 and text[end - 1 : end + 2 : 2].strip() != text[end - 1 : end + 2 : 2]:
        end = text.rfind("\n", 1, end)
    return end + 1 if end > 0 else before


def held_out(split: str, paths: list[Path], share: float) -> Iterator[Piece]:
    """Text files, each a document, of which the last ``share`` of all bytes is validation."""
    left = (1 - share) * sum(map(unpacked, paths)) if share else math.inf  # bytes that are still to be trained on
    for path in paths:
        begins, parts = True, text_parts(path)
        text = next(parts, None)
        if text is None:
            raise ValueError(f"{path}: is empty")
        while text is not None:
            after = next(parts, None)
            size = len(text.encode()) if share else 0
            if 0 <= left < size:
                place = int(len(text) * left / size)
                place = text.find("\n", place) + 1 or max(1, place)
                yield Piece(split, text[:place], begins, True)
                begins = place == len(text)  # what comes next does
                if not begins:
                    yield Piece("val", text[place:], True, after is None)
            else:
                yield Piece(split if left >= 0 else "val", text, begins, after is None)
                begins = False
            text, left = after, left - size


def unpacked(path: Path) -> int:
    """The bytes of a text."""
    return sum(map(len, chunks(path))) if path.suffix == ".gz" else regular(path).stat().st_size


def by_chance(split: str, texts: Iterable[str], share: float) -> Iterator[Piece]:
    for number, text in enumerate(texts):
        digest = hashlib.blake2b(str(number).encode(), digest_size=8).digest() if share else b"\xff"
        held = share > 0 and int.from_bytes(digest, "big") < share * 2**64
        yield Piece("val" if held else split, text, True, True)


def file_texts(path: Path, key: str) -> Iterator[str]:
    """The texts of a JSONL or Parquet file.  ValueError names the first line or row that has none."""
    count = 0
    for text in jsonl_texts(path, key) if is_manifest(path) else parquet_texts(path, key):
        count += 1
        yield text
    if not count:
        raise ValueError(f"{path}: has no records")


def jsonl_texts(path: Path, key: str) -> Iterator[str]:
    stop = BadItems()
    for number, line in enumerate(byte_lines(path), 1):
        if line.strip():
            yield checked(path, {number: record(path, number, line)}, {key: no_text}, stop)[0][key]


def parquet_texts(path: Path, key: str) -> Iterator[str]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ValueError(f"{path}: Parquet needs pyarrow: pip install lightning-zoo[data]") from None
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if key not in names:
                raise KeyError(f"no column {key!r}; it has {', '.join(map(repr, names))}; say which it is")
            yield from row_texts(
                path, (row for part in file.iter_batches(ROWS, columns=[key]) for row in part.to_pylist()), key
            )
    except KeyError as error:
        raise ValueError(f"{path}: {error.args[0]}") from None
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path}: no whole Parquet file ({sentence(error)})") from None


def row_texts(origin: Path | str, rows: Iterable[dict[str, Any]], key: str) -> Iterator[str]:
    stop = BadItems()
    for number, row in enumerate(rows, 1):
        yield checked(origin, {number: row}, {key: no_text}, stop)[0][key]
