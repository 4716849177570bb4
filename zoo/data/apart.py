"""Documents apart: each is a sample of its own, or several where it is long, encoded at once or read from shards."""

# Shapes: M documents, N pieces.

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zoo.data.field import Field, Texts
from zoo.data.shards import OFFSET, Index
from zoo.tokenizers import Tokenizer, Tokens

SHORTEST = 2  # ids of a piece: one alone has nothing before it, and nothing around it, to be guessed from


class Apart(Texts):
    """Texts that are cut into pieces of ``length`` ids; the last piece of each is shorter, and left out below 2 ids."""

    def __init__(self, values: Sequence[str], length: int):
        super().__init__(values)
        self.length = length

    def take(self, index: list[int]) -> Field:
        return Apart([self.values[i] for i in index], self.length)

    def ready(self, tokenizer: Tokenizer) -> Field:
        encoded = [tokenizer.encode(text).int().numpy() for text in self.values]
        counts = np.array([len(ids) for ids in encoded], np.int64)
        ends = counts.cumsum()
        begins, ends = cut_apart(ends - counts, ends, self.length)
        if not len(begins):
            raise ValueError(f"none of {len(self)} documents has {SHORTEST} ids: give more text, or another val")
        return Pieces(np.concatenate(encoded), begins, ends, tokenizer)


class ShardPieces(Field):
    """The same of a split of token shards, whose documents the shards' offsets tell; ``pieces`` are (N,) places at
    which pieces begin and (N,) at which they end.  ValueError where there is none."""

    modality = "text"

    def __init__(self, index: Index, split: str, pieces: tuple[np.ndarray, np.ndarray]):
        self.index, self.split, self.pieces = index, split, pieces
        if not len(self):
            raise ValueError(
                f"{index.folder}: {split} has too few pieces of {SHORTEST} ids or more: give more text, or another val"
            )

    def __len__(self) -> int:
        return len(self.pieces[0])

    def parted(self, share: float) -> tuple[ShardPieces, ShardPieces]:
        """All but the last ``share`` of the pieces, and these."""
        place = len(self) - max(1, round(len(self) * share))
        return self._of(slice(place)), self._of(slice(place, None))

    def take(self, index: list[int]) -> Field:
        return self._of(index)

    def ready(self, tokenizer: Tokenizer) -> Field:
        self.index.require(tokenizer)
        return Pieces(ShardIds(self.index, self.split), *self.pieces, tokenizer)

    @property
    def size(self) -> int:
        return self.index.tokens(self.split)

    def _of(self, chosen: slice | list[int]) -> ShardPieces:
        begins, ends = self.pieces
        return ShardPieces(self.index, self.split, (begins[chosen], ends[chosen]))


class Pieces(Field):
    """``ids`` from ``begins`` (N,) on to before ``ends`` (N,), padded to the longest of a batch."""

    def __init__(self, ids: np.ndarray | ShardIds, begins: np.ndarray, ends: np.ndarray, tokenizer: Tokenizer):
        self.ids, self.begins, self.ends, self.tokenizer = ids, begins, ends, tokenizer

    def __len__(self) -> int:
        return len(self.begins)

    def take(self, index: list[int]) -> Field:
        return Pieces(self.ids, self.begins[index], self.ends[index], self.tokenizer)

    def raw(self, index: list[int]) -> Tokens:
        places = zip(self.begins[index].tolist(), self.ends[index].tolist(), strict=True)
        return self.tokenizer.collate([torch.from_numpy(self.ids[a:b].astype(np.int64)) for a, b in places])

    @property
    def lengths(self) -> Tensor | None:
        return torch.from_numpy(self.ends - self.begins)

    @property
    def size(self) -> int:
        return int((self.ends - self.begins).sum())


class ShardIds:
    """The ids of a split of token shards by their places in it, mapped into memory; ``ids[begin:end]`` reads
    them, whatever shards they are in."""

    def __init__(self, index: Index, split: str):
        self.index, self.split = index, split

    def __getitem__(self, place: slice) -> np.ndarray:
        size = self.index.splits[self.split][0].tokens  # all shards but the last have equally many ids
        first, last = place.start // size, (place.stop - 1) // size
        begins = range(first * size, (last + 1) * size, size)
        parts = [self._maps[b // size][max(0, place.start - b) : place.stop - b] for b in begins]
        return parts[0] if first == last else np.concatenate(parts)

    @cached_property
    def _maps(self) -> list[np.ndarray]:
        return self.index.maps(self.split)

    def __getstate__(self) -> dict[str, Any]:
        """Another process maps the files by itself."""
        return {name: value for name, value in self.__dict__.items() if name != "_maps"}


def shard_pieces(index: Index, split: str, length: int) -> ShardPieces:
    """All pieces of a split.  ValueError where there is none, or the offsets are damaged."""
    shards, tokens = index.splits[split], index.tokens(split)
    parts = [np.fromfile(index.offsets(split, number), OFFSET) for number in range(len(shards))]
    begins = np.concatenate([part + number * shards[0].tokens for number, part in enumerate(parts)])
    ends = np.append(begins[1:], tokens)
    if begins[:1].tolist() != [0] or (ends < begins).any():
        raise ValueError(f"{index.offsets(split, 0)}: it or one that follows is damaged; copy it again")
    return ShardPieces(index, split, cut_apart(begins, ends, length))


def cut_apart(begins: np.ndarray, ends: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """(M,) places where documents begin and end -> (N,) where their pieces of at most ``length`` ids do, those of fewer
    than 2 left out."""
    counts = -(-(ends - begins) // length)
    before = counts.cumsum() - counts  # pieces of the documents in front
    first = np.repeat(begins - before * length, counts) + np.arange(counts.sum()) * length
    last = np.minimum(first + length, np.repeat(ends, counts))
    kept = last - first >= SHORTEST
    return first[kept], last[kept]
