"""Writes the token shards of a split, one after another, as ids arrive."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from zoo.atomic import synchronise
from zoo.data.shards import OFFSET, Index, Shard


class ShardWriter:
    """The shards of ``split``, each of ``size`` ids but the last, in the folder of ``index``."""

    def __init__(self, index: Index, split: str, size: int):
        self.index, self.split, self.size = index, split, size
        self.shards: list[Shard] = []
        self._open()

    def _open(self) -> None:
        number = len(self.shards)
        self.paths = self.index.ids(self.split, number), self.index.offsets(self.split, number)
        self.file = open(self.paths[0], "xb")  # noqa: SIM115 -- closed by ``close``
        self.digest, self.tokens = hashlib.sha256(), 0
        self.starts: list[np.ndarray] = []

    def add(self, ids: np.ndarray, starts: np.ndarray) -> None:
        """(n,) ids, and the places among them at which documents begin."""
        while len(ids):
            room = self.size - self.tokens
            now = np.ascontiguousarray(ids[:room], self.index.dtype)
            self.file.write(now)
            self.digest.update(now)
            self.starts.append(starts[starts < room] + self.tokens)
            self.tokens += len(now)
            ids, starts = ids[room:], starts[starts >= room] - room
            if self.tokens == self.size:
                self._finish()
                self._open()

    def _finish(self) -> None:
        """What has been written is on the disk when this ends."""
        self.file.close()
        offsets = np.concatenate([np.zeros(0, OFFSET), *self.starts]).astype(OFFSET)
        with open(self.paths[1], "xb") as file:
            file.write(offsets)
        for path in self.paths:
            synchronise(path)
        digest = hashlib.sha256(offsets).hexdigest()
        self.shards.append(Shard(self.tokens, len(offsets), self.digest.hexdigest(), digest))

    def close(self) -> list[Shard]:
        """The shards of the split; an empty one stands only alone."""
        if self.tokens or not self.shards:
            self._finish()
        else:
            self.file.close()
            Path(self.paths[0]).unlink()
        return self.shards
