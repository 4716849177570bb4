"""Token shards: a corpus as ids on the disk, in files that are mapped into memory, with an index that describes them.

A folder of shards holds ``index.json``, ``tokenizer.json`` where the tokenizer has such a file, and for each split
``SPLIT-00000.bin`` and so on: its ids one after the other, little-endian, without a header, 2 bytes each where the
vocabulary has at most 65,536 tokens and else 4.  All shards of a split but the last have equally many ids, so a
document may begin in one and end in the next.  Beside each, ``SPLIT-00000.idx`` has the places (8 bytes each) at which
documents begin.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo.data.files import chunks
from zoo.described import describe
from zoo.tokenizers import TextTokenizer, Tokenizer

INDEX, TOKENIZER = "index.json", "tokenizer.json"
VERSION = 1  # of the form
LARGEST = 2**24  # bytes of an index; one of 100,000 shards has as many
DTYPES: dict[str, np.dtype] = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}
OFFSET = np.dtype("<i8")
APART = ("file", "stem", "vocabulary")  # arguments of a tokenizer that do not change which ids a text has
SPLIT = re.compile(r"[a-z]+")
SUM = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Shard:
    """How many ids a shard has, how many documents begin in it, and the SHA-256 of its two files."""

    tokens: int
    documents: int
    sha256: str
    offsets_sha256: str


@dataclass(frozen=True)
class Index:
    """What ``index.json`` says; ``tokenizer`` is its description, as a config would say it."""

    folder: Path
    dtype: np.dtype
    vocabulary: int
    tokenizer: dict[str, Any]
    tokenizer_sha256: str
    splits: dict[str, list[Shard]]

    def tokens(self, split: str) -> int:
        return sum(shard.tokens for shard in self.splits[split])

    def documents(self, split: str) -> int:
        return sum(shard.documents for shard in self.splits[split])

    def ids(self, split: str, number: int) -> Path:
        return self.folder / f"{split}-{number:05}.bin"

    def offsets(self, split: str, number: int) -> Path:
        return self.folder / f"{split}-{number:05}.idx"

    def maps(self, split: str) -> list[np.ndarray]:
        """The ids of each shard of a split that has any, mapped into memory; another process maps them by itself."""
        shards = enumerate(self.splits[split])
        return [np.asarray(np.memmap(self.ids(split, i), self.dtype, "r")) for i, shard in shards if shard.tokens]

    def text(self) -> str:
        splits = {split: [asdict(shard) for shard in shards] for split, shards in self.splits.items()}
        name = next(name for name, dtype in DTYPES.items() if dtype == self.dtype)
        about = {"tokenizer": self.tokenizer, "tokenizer_sha256": self.tokenizer_sha256}
        return json.dumps(
            {"version": VERSION, "dtype": name, "vocabulary": self.vocabulary, **about, "splits": splits}, indent=1
        )

    def require(self, tokenizer: Tokenizer) -> None:
        """Raises ValueError where a text has other ids by ``tokenizer`` than in the shards."""
        vocabulary = tokenizer.vocabulary if isinstance(tokenizer, TextTokenizer) else 0
        if fingerprint(tokenizer) == self.tokenizer_sha256 and vocabulary >= self.vocabulary:
            return
        made = f"{self.tokenizer['class_path'].split('.')[-1]} of {self.vocabulary:,} tokens"
        given = f"{type(tokenizer).__name__} of {vocabulary:,}"
        same = f", {self.tokenizer_sha256[:8]}, not {fingerprint(tokenizer)[:8]}" if made.startswith(given) else ""
        file = self.folder / TOKENIZER
        way = f"give it the file {file}" if file.is_file() else "give it the arguments that stand in the index"
        raise ValueError(f"{self.folder}: made by {made}, and the tokenizer of the task is {given}{same}: {way}")


def is_sharded(path: Path) -> bool:
    return (path / INDEX).is_file()


def dtype_for(vocabulary: int) -> np.dtype:
    return DTYPES["uint16" if vocabulary <= 2**16 else "uint32"]


def fingerprint(tokenizer: Tokenizer) -> str:
    """The SHA-256 of what decides which ids a text has."""
    made = describe(tokenizer)
    arguments = {name: value for name, value in made["init_args"].items() if name not in APART}
    return hashlib.sha256(json.dumps([made["class_path"], arguments], sort_keys=True).encode()).hexdigest()


def read_index(folder: Path) -> Index:
    """What a folder of shards holds.  ValueError where the index is damaged, or a file is missing or has not the size
    that the index tells."""
    path = folder / INDEX
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"more than {LARGEST:,} bytes")
        found = _parsed(folder, json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path}: no index of token shards ({type(error).__name__}: {str(error)[:80]})") from None
    for split, shards in found.splits.items():
        for number, shard in enumerate(shards):
            _require_size(found.ids(split, number), shard.tokens * found.dtype.itemsize)
            _require_size(found.offsets(split, number), shard.documents * OFFSET.itemsize)
    return found


def _parsed(folder: Path, found: dict[str, Any]) -> Index:
    if found["version"] != VERSION:
        raise ValueError(f"version {found['version']!r}, and only {VERSION} is known")
    splits = {split: [Shard(**shard) for shard in shards] for split, shards in found["splits"].items()}
    for split, shards in splits.items():
        for shard in shards:
            sizes = all(type(count) is int and count >= 0 for count in (shard.tokens, shard.documents))
            if not (SPLIT.fullmatch(split) and sizes and SUM.fullmatch(shard.sha256)):
                raise ValueError(f"{split}: {shard}")
        if len({shard.tokens for shard in shards[:-1]} | {max(shard.tokens for shard in shards)}) > 1:
            raise ValueError(f"{split}: shards before the last differ in size")
    if "train" not in splits:
        raise ValueError("there is no split train")
    sha, vocabulary, made = found["tokenizer_sha256"], found["vocabulary"], found["tokenizer"]
    if not (isinstance(sha, str) and type(vocabulary) is int and isinstance(made["class_path"], str)):
        raise ValueError("the tokenizer is not described")
    return Index(folder, DTYPES[found["dtype"]], vocabulary, made, sha, splits)


def _require_size(path: Path, size: int) -> None:
    there = path.stat().st_size if path.is_file() else None
    if there != size:
        state = "is missing" if there is None else f"has {there:,} bytes instead of {size:,}"
        raise ValueError(f"{path}: {state}; copy it again, or tokenize again")


def verify(folder: Path, tell: Callable[[int], None]) -> Index:
    """The index of a folder each of whose files has been read, as ``tell`` hears in bytes, and has the SHA-256 that was
    written down.  ValueError names the first that has not."""
    if not is_sharded(folder):
        raise ValueError(f"{folder}: no folder of token shards: it has no {INDEX}")
    index = read_index(folder)
    for split, shards in index.splits.items():
        for number, shard in enumerate(shards):
            sums = {index.ids(split, number): shard.sha256, index.offsets(split, number): shard.offsets_sha256}
            for path, wanted in sums.items():
                digest = hashlib.sha256()
                for chunk in chunks(path):
                    digest.update(chunk)
                    tell(len(chunk))
                if digest.hexdigest() != wanted:
                    raise ValueError(f"{path}: its SHA-256 is not that of {INDEX}; copy it again, or tokenize again")
    return index
