"""A stream of text as a field, and as a data set whose batches are asked for one after another."""

# Shapes: B blocks of a batch, T ids of a block.

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch.utils.data import get_worker_info

from zoo.data.corpus import Corpus, Piece
from zoo.data.field import Blocks, Field
from zoo.data.reader import Place, Reader
from zoo.tokenizers import Batch, TextTokenizer, Tokenizer, Tokens

FIRST = 16  # blocks that a stream shows as a field


@dataclass
class Training:
    """The documents of a corpus to train on: all but the first ``held``."""

    corpus: Corpus
    held: int

    def __call__(self) -> Iterable[Piece]:
        return itertools.islice(self.corpus.pieces("train"), self.held, None)


class Streamed(Field):
    """Blocks of ``length`` ids without end; as a field, the first of them, by which pictures and costs are made."""

    modality = "text"

    def __init__(self, documents: Training, length: int, window: int, steps: int):
        self.documents, self.length, self.window, self.steps = documents, length, window, steps

    def __len__(self) -> int:
        return FIRST

    def take(self, index: list[int]) -> Field:
        raise ValueError("nothing can be held out of a stream by its place")

    def ready(self, tokenizer: Tokenizer) -> Field:
        reader = Reader(self.documents, tokenizer, self.length, 0, 1)
        ids, _, _ = next(reader.batches(FIRST, Place()))
        return Blocks(ids)

    @property
    def size(self) -> int:
        return self.documents.corpus.size or 0


@dataclass
class StreamBatch(Batch):
    """A batch that knows which reader of its process gave it, and where that reader is now."""

    reader: int = 0
    place: Place = field(default_factory=Place)


@dataclass
class StreamSet:
    """What the workers get.  ``places`` are those from which readers go on; reader 0 gives batch 0 of an epoch, reader
    1 batch 1 and so on, also where training goes on with batch ``shift``."""

    stream: Streamed
    tokenizer: TextTokenizer
    batch: int
    seed: int
    rank: int
    world: int
    workers: int
    shift: int = 0
    places: dict[int, Place] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._reading: Iterator[StreamBatch] | None = None

    def __len__(self) -> int:
        return self.stream.steps * self.batch * self.world

    def __getitems__(self, keys: list[Any]) -> StreamBatch:
        """The next batch of this worker's reader, whatever the keys."""
        if self._reading is None:
            self._reading = self.read()
        return next(self._reading)

    def read(self) -> Iterator[StreamBatch]:
        worker = get_worker_info()
        own = ((worker.id if worker else 0) + self.shift) % self.readers
        which = self.rank * self.readers + own
        of = self.world * self.readers
        made = Reader(
            self.stream.documents, self.tokenizer, self.stream.length, self.seed, self.stream.window, which, of
        )
        for ids, key, place in made.batches(self.batch, self.places.get(own, Place())):
            yield StreamBatch(Tokens(ids), None, None, key, (), own, place)

    @property
    def readers(self) -> int:
        """Of this process."""
        return max(1, self.workers)

    def note(self, batch: StreamBatch) -> None:
        """A batch was taken."""
        self.places[batch.reader] = batch.place

    def state(self) -> list[dict[str, Any]]:
        """The places of all readers of all processes, in their order; each process must ask."""
        own = [asdict(self.places.get(number, Place())) for number in range(self.readers)]
        if self.world == 1:
            return own
        every: list[Any] = [None] * self.world
        torch.distributed.all_gather_object(every, own)
        return [place for places in every for place in places]

    def load(self, places: list[dict[str, int]]) -> None:
        """Raises ValueError where there were more readers or fewer."""
        if len(places) != self.world * self.readers:
            raise ValueError(
                f"the stream was read by {len(places)} processes and workers, and now there are "
                f"{self.world * self.readers}: go on with as many"
            )
        own = places[self.rank * self.readers :][: self.readers]
        self.places = {number: Place(**place) for number, place in enumerate(own)}

    def begin(self, shift: int) -> None:
        """Read from ``places`` on."""
        self.shift, self._reading = shift % self.readers, None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reading": None}
