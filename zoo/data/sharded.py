"""Token shards as a field: blocks of ids, of which a whole batch is gathered at once from files mapped into memory."""

# Shapes: N blocks, B blocks of a batch, T ids of a block.

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch

from zoo.data.field import Blocks, Field
from zoo.data.shards import Index
from zoo.tokenizers import Tokenizer, Tokens


class ShardBlocks(Field):
    """The ids of a split, cut into blocks of ``length``, from block ``first`` on to before ``last``.  ValueError where
    they are fewer than one block."""

    modality = "text"

    def __init__(self, index: Index, split: str, length: int, first: int = 0, last: int | None = None):
        self.index, self.split, self.length, self.first = index, split, length, first
        self.last = index.tokens(split) // length if last is None else last
        if self.last <= first:
            raise ValueError(
                f"{index.folder}: {split} has {index.tokens(split):,} ids, too few for a block of length={length}: "
                "give a smaller length, or another val"
            )

    def __len__(self) -> int:
        return self.last - self.first

    def parted(self, share: float) -> tuple[ShardBlocks, ShardBlocks]:
        """All but the last ``share`` of the blocks, and these."""
        place = self.last - max(1, round(len(self) * share))
        return (
            ShardBlocks(self.index, self.split, self.length, self.first, place),
            ShardBlocks(self.index, self.split, self.length, place, self.last),
        )

    def take(self, index: list[int]) -> Field:
        return Blocks(torch.from_numpy(self.gather(np.asarray(index))).int())

    def ready(self, tokenizer: Tokenizer) -> Field:
        self.index.require(tokenizer)
        return self

    def raw(self, index: list[int]) -> Tokens:
        return Tokens(torch.from_numpy(self.gather(np.asarray(index))))

    def gather(self, index: np.ndarray) -> np.ndarray:
        """(B,) blocks -> (B, T) int64"""
        starts, parts = self._parts
        place = index + self.first
        if len(parts) == 1:
            return parts[0][place].astype(np.int64)
        owner = np.searchsorted(starts, place, "right") - 1
        found = np.empty((len(place), self.length), np.int64)
        for number in np.unique(owner):
            own = owner == number
            found[own] = parts[number][place[own] - starts[number]]
        return found

    @cached_property
    def _parts(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """(n, T) arrays that hold all blocks of the split, and the number of the first of each: views of the shards
        and, between them, copies of the blocks that begin in one and end in another."""
        starts, parts, ready, begin = [], [], 0, 0
        seam: list[np.ndarray] = []  # ids behind block ``ready`` that no part has yet

        for ids in self.index.maps(self.split):
            skip = min(len(ids), -begin % self.length)  # belong to a block that began before
            seam.append(ids[:skip])
            if (begin + skip) % self.length == 0:
                crossing = np.concatenate(seam)
                count = (len(ids) - skip) // self.length
                for rows in (crossing, ids[skip : skip + count * self.length]):
                    if len(rows):
                        starts.append(ready)
                        parts.append(rows.reshape(-1, self.length))
                        ready += len(parts[-1])
                seam = [ids[skip + count * self.length :]]
            begin += len(ids)
        return np.array(starts), parts

    @property
    def size(self) -> int:
        return self.index.tokens(self.split)

    def __getstate__(self) -> dict[str, Any]:
        """Another process maps the files by itself."""
        return {name: value for name, value in self.__dict__.items() if name != "_parts"}
