"""The order of samples, a pure function of (seed, epoch, rank, world), and a loader that resumes inside an epoch."""

# Shapes: N samples of the data set, n samples in a row, B batch.

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler

from zoo.data.by_length import ByLength
from zoo.data.permutation import permuted
from zoo.data.split import Split
from zoo.data.streamed import StreamBatch, StreamSet
from zoo.rng import sample_keys
from zoo.tokenizers import Batch

SORTED = 2**24  # samples up to which a pass is drawn by sorting their keys: a second, and half a gigabyte
AT_ONCE = 4096  # samples whose places and keys are found together


class Order(DistributedSampler):
    """Yields ``(epoch, index)`` pairs.  It is a DistributedSampler so that Lightning keeps it and calls ``set_epoch``.

    Training (``shuffle=True``): a permutation for each pass over the data, wrapped around so that all ranks have the
    same count: at most ``world - 1`` samples are seen twice, none is left out.  An epoch has ``repeats`` passes, and
    the pairs carry the number of the pass, so that a small data set beside a large one is new in each pass.
    ``by_length`` rearranges the permutation for batches of ``batch`` samples of each rank.
    Evaluation (``shuffle=False``): strided over the ranks without padding, each sample exactly once, epoch 0 always.
    """

    def __init__(
        self,
        length: int,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        shuffle: bool = True,
        repeats: int = 1,
        by_length: ByLength | None = None,
        batch: int = 1,
    ):
        super().__init__(range(length), num_replicas=world, rank=rank, shuffle=shuffle, seed=seed)
        self.length = length
        self.repeats = repeats
        self.by_length = by_length
        self.batch = batch * world
        self.batches: dict[int, int] = {}  # epoch -> what ``batch`` was where it began, before a restart
        self.resume: tuple[int, int] | None = None  # (epoch, samples of this rank to leave out at its start)

    def own(self, number: int) -> Tensor:
        """(N,) indices that this rank reads in pass ``number``."""
        if not self.shuffle:
            return torch.arange(self.length)[self.rank :: self.num_replicas]
        order = sample_keys(self.seed, number, torch.arange(self.length)).argsort(stable=True)
        if self.by_length:
            batch = self.batches.get(number // self.repeats, self.batch)
            order = self.by_length(order, batch, self.seed, number)
        return order[torch.arange(self.rank, self._padded, self.num_replicas) % self.length]

    def parts(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The passes (n,) and indices (n,) of the coming epoch, ``size`` samples at a time, but for the last."""
        first, skip = self.epoch * self.repeats if self.shuffle else 0, self.skip
        waiting: list[tuple[Tensor, Tensor]] = []
        room = size
        for number in range(first, first + self.repeats):
            count = len(self) // self.repeats
            order = None if self.shuffle and self.length > SORTED and not self.by_length else self.own(number)
            while skip < count:
                end = min(count, skip + room)
                index = self._drawn(number, skip, end) if order is None else order[skip:end]
                waiting.append((torch.full_like(index, number), index))
                room, skip = room - len(index), end
                if not room:
                    yield _joined(waiting)
                    waiting, room = [], size
            skip -= count
        if waiting:
            yield _joined(waiting)

    def _drawn(self, number: int, begin: int, end: int) -> Tensor:
        """(n,) part of a pass that is too long to be sorted."""
        place = torch.arange(begin, end) * self.num_replicas + self.rank
        return permuted(place % self.length, self.length, self.seed, number)

    @property
    def skip(self) -> int:
        """How many samples of this rank the coming pass leaves out, since they were read before a restart."""
        return self.resume[1] if self.resume and self.resume[0] == self.epoch else 0

    @property
    def _padded(self) -> int:
        return -(-self.length // self.num_replicas) * self.num_replicas

    def __len__(self) -> int:
        if not self.shuffle:
            return len(range(self.rank, self.length, self.num_replicas)) * self.repeats
        return self._padded // self.num_replicas * self.repeats

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for numbers, index in self.parts(AT_ONCE):
            yield from zip(numbers.tolist(), index.tolist())


def _joined(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    if len(parts) == 1:
        return parts[0]
    return torch.cat([numbers for numbers, _ in parts]), torch.cat([index for _, index in parts])


class Loader(DataLoader):
    """A DataLoader over an Order whose state is (epoch, batches taken in it): training resumes with the next batch.

    Reading starts with the first batch, not with ``iter``: Lightning makes the iterator before it sets the epoch.
    What its batches say was left out is noted, and is part of the state; a batch with nothing left is passed over.
    """

    position = (0, 0)  # (epoch, batches taken)
    samples = 0  # of this process, in these batches
    whole = False  # was the last epoch taken from its first batch to its last?

    @cached_property
    def skipped(self) -> dict[str, None]:
        """A sentence for each sample that was left out, in the order in which they were met."""
        return {}

    def __iter__(self):
        order = self.sampler
        if not isinstance(order, Order):  # Lightning's overfit_batches puts a plain sampler here
            yield from filter(self.note, super().__iter__())
            return
        epoch, skip = order.epoch, order.skip
        start = self.behind(skip)
        if isinstance(self.dataset, StreamSet):
            self.go_on(self.dataset, start)
        if self.num_workers == 0 and isinstance(self.dataset, Split):
            batches = self.alone(order, self.dataset)
        else:
            with torch.random.fork_rng([]):  # to begin draws a number, which would be another's after a restart
                batches = super().__iter__()
        for taken, batch in enumerate(batches, start + 1):
            order.resume = None
            self.position, self.samples = (epoch, taken), skip + (taken - start) * self.batch_size
            self.whole = start == 0 and taken == len(self)
            if self.note(batch):
                yield batch

    def alone(self, order: Order, samples: Split) -> Iterator[Batch]:
        """The batches, made by this process without what torch's loader does for each sample."""
        for numbers, index in order.parts(self.batch_size * max(1, AT_ONCE // self.batch_size)):
            columns = (numbers, index, samples.keys(numbers, index))
            for one in zip(*(column.split(self.batch_size) for column in columns)):
                batch = samples.batch(*one)
                yield batch.pin_memory() if self.pin_memory else batch

    def go_on(self, stream: StreamSet, start: int) -> None:
        """Workers that are waiting for the next epoch give it; they begin anew where batches that they had read were
        not taken, or another of them is to give the first."""
        if not (self.whole and start == 0):
            self._iterator = None
            stream.begin(start)
        self.whole = False

    def note(self, batch: object) -> bool:
        """Take down what is not in a batch; is there something in it?"""
        if not isinstance(batch, Batch):
            return True
        if isinstance(batch, StreamBatch) and isinstance(self.dataset, StreamSet):
            self.dataset.note(batch)
        self.skipped.update(dict.fromkeys(batch.skipped))
        return len(batch) > 0

    def state_dict(self) -> dict[str, Any]:
        epoch, batch = self.position
        counts = {"epoch": epoch, "batch": batch, "batch_size": self.batch_size, "samples": self.samples}
        order = self.sampler if isinstance(self.sampler, Order) else None
        state = {**counts, "world": order.num_replicas if order else 1, "skipped": list(self.skipped)}
        if order and order.by_length:
            state["ordered"] = order.batches.get(epoch, order.batch)
        if isinstance(self.dataset, StreamSet):
            state["places"] = self.dataset.state()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next batch begins behind the samples that were read, also where batches were of another size then, or
        there was another number of processes.  An epoch that was sorted by length for them goes on as it was sorted."""
        self.skipped.update(dict.fromkeys(state.get("skipped", ())))
        if not isinstance(self.sampler, Order):
            return
        world = self.sampler.num_replicas
        self.sampler.batches = {state["epoch"]: state["ordered"]} if "ordered" in state else {}
        samples = state.get("samples", state["batch"] * state.get("batch_size", self.batch_size))
        samples = samples * state.get("world", world) // world
        self.sampler.resume = (state["epoch"], samples)
        self.position, self.samples = (state["epoch"], self.behind(samples)), samples
        if isinstance(self.dataset, StreamSet):
            self.dataset.load(state["places"])
            self.whole = False

    def behind(self, samples: int) -> int:
        """How many batches have been taken where so many samples have been read: all but those that follow."""
        return len(self) - -(-max(0, len(self.sampler) - samples) // self.batch_size)
