"""A text of any length as an endless sequence of blocks of ids, which can be gone on with from any block."""

# Shapes: B blocks of a batch, T ids of a block.

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor

from zoo.data.corpus import Piece
from zoo.data.tokenize import encode
from zoo.rng import sample_keys
from zoo.tokenizers import TextTokenizer

LETTERS = 2**26  # characters of the documents that wait to be drawn
Numbered: TypeAlias = "tuple[int, list[Piece]]"


@dataclass(frozen=True)
class Place:
    """Where a reader is: ``batches`` it has given; the pass over its documents; the first document of the window that
    was being read, the place in the order that was drawn for it, and how many ids of that document were given."""

    batches: int = 0
    epoch: int = 0
    window: int = 0
    document: int = 0
    offset: int = 0


@dataclass
class Reader:
    """Reads every ``of``-th document, from document ``which`` on, and cuts their ids into blocks of ``length``, one
    document after the other, one pass after the other.

    ``documents`` gives all of them, the same at each call.  In each pass, windows of ``window`` of the reader's own
    documents (or of 67 million characters) are drawn in an order that is a pure function of ``seed`` and the pass.
    """

    documents: Callable[[], Iterable[Piece]]
    tokenizer: TextTokenizer
    length: int
    seed: int
    window: int
    which: int = 0
    of: int = 1

    def batches(self, size: int, place: Place) -> Iterator[tuple[Tensor, Tensor, Place]]:
        """(B, T) ids, the (B,) keys of the blocks, and the place behind them.  ValueError for a document that cannot be
        read, and where there are fewer documents than readers."""
        blocks, start = self._blocks(place), place.batches
        for number in itertools.count(start):
            found = list(itertools.islice(blocks, size))
            place = replace(found[-1][1], batches=number + 1)
            index = torch.arange(number * size, (number + 1) * size) * self.of + self.which
            yield torch.tensor([ids for ids, _ in found]), sample_keys(self.seed, 0, index), place

    def _blocks(self, place: Place) -> Iterator[tuple[list[int], Place]]:
        waiting: list[int] = []
        while True:
            for first, pieces in self._windows(place.window):
                keys = sample_keys(self.seed, place.epoch, torch.arange(first, first + len(pieces)))
                order = keys.argsort(stable=True).tolist()
                for number in range(place.document, len(pieces)):
                    ids = self._ids(pieces[order[number]])
                    waiting += ids[place.offset :]
                    taken = 0
                    while len(waiting) - taken >= self.length:
                        block = waiting[taken : taken + self.length]
                        taken += self.length
                        given = len(ids) - (len(waiting) - taken)  # what waits is of this document
                        yield block, Place(0, place.epoch, first, number, given)
                    waiting = waiting[taken:]
                    place = replace(place, offset=0)
                place = replace(place, document=0)
            place = Place(0, place.epoch + 1)

    def _windows(self, start: int) -> Iterator[Numbered]:
        """Windows from the one on that begins with the reader's document ``start``, with its number."""
        own = itertools.islice(self.documents(), self.which, None, self.of)
        count = sum(1 for _ in itertools.islice(own, start))
        pieces: list[Piece] = []
        letters = 0
        for piece in own:
            pieces.append(piece)
            letters += len(piece.text)
            if len(pieces) == self.window or letters >= LETTERS:
                yield count, pieces
                count, pieces, letters = count + len(pieces), [], 0
        if pieces:
            yield count, pieces
        elif not count:
            raise ValueError(
                f"there are fewer documents to train on than processes and workers that read ({self.of}): "
                "give fewer workers, or hold out less"
            )

    def _ids(self, piece: Piece) -> list[int]:
        return encode(self.tokenizer, [piece])[1][piece.split][0].tolist()
