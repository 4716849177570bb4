"""The order of samples, a pure function of (seed, epoch, rank, world), and a loader that resumes inside an epoch."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler

from zoo.rng import sample_keys
from zoo.tokenizers import Batch


class Order(DistributedSampler):
    """Yields ``(epoch, index)`` pairs.  It is a DistributedSampler so that Lightning keeps it and calls ``set_epoch``.

    Training (``shuffle=True``): a permutation for each pass over the data, wrapped around so that all ranks have the
    same count: at most ``world - 1`` samples are seen twice, none is left out.  An epoch has ``repeats`` passes, and
    the pairs carry the number of the pass, so that a small data set beside a large one is new in each pass.
    Evaluation (``shuffle=False``): strided over the ranks without padding, each sample exactly once, epoch 0 always.
    """

    def __init__(
        self, length: int, seed: int = 0, rank: int = 0, world: int = 1, shuffle: bool = True, repeats: int = 1
    ):
        super().__init__(range(length), num_replicas=world, rank=rank, shuffle=shuffle, seed=seed)
        self.length = length
        self.repeats = repeats
        self.resume: tuple[int, int] | None = None  # (epoch, samples of this rank to leave out at its start)

    def own(self, number: int) -> Tensor:
        """(N,) indices that this rank reads in pass ``number``."""
        if not self.shuffle:
            return torch.arange(self.length)[self.rank :: self.num_replicas]
        order = sample_keys(self.seed, number, torch.arange(self.length)).argsort(stable=True)
        return order[torch.arange(self.rank, self._padded, self.num_replicas) % self.length]

    @property
    def skip(self) -> int:
        """How many samples of this rank the coming pass leaves out, since they were read before a restart."""
        return self.resume[1] if self.resume and self.resume[0] == self.epoch else 0

    @property
    def _padded(self) -> int:
        return -(-self.length // self.num_replicas) * self.num_replicas

    def __len__(self) -> int:
        if not self.shuffle:
            return len(range(self.rank, self.length, self.num_replicas))
        return self._padded // self.num_replicas * self.repeats

    def __iter__(self) -> Iterator[tuple[int, int]]:
        first, skip = self.epoch * self.repeats if self.shuffle else 0, self.skip
        for number in range(first, first + self.repeats):
            own = self.own(number).tolist()
            yield from ((number, index) for index in own[skip:])
            skip = max(0, skip - len(own))


class Loader(DataLoader):
    """A DataLoader over an Order whose state is (epoch, batches taken in it): training resumes with the next batch.

    Reading starts with the first batch, not with ``iter``: Lightning makes the iterator before it sets the epoch.
    What its batches say was left out is noted, and is part of the state; a batch with nothing left is passed over.
    """

    position = (0, 0)  # (epoch, batches taken)
    samples = 0  # of this process, in these batches

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
        with torch.random.fork_rng([]):  # to begin draws a number, which would be another's after a restart
            batches = super().__iter__()
        for taken, batch in enumerate(batches, start + 1):
            order.resume = None
            self.position, self.samples = (epoch, taken), skip + (taken - start) * self.batch_size
            if self.note(batch):
                yield batch

    def note(self, batch: object) -> bool:
        """Take down what is not in a batch; is there something in it?"""
        if not isinstance(batch, Batch):
            return True
        self.skipped.update(dict.fromkeys(batch.skipped))
        return len(batch) > 0

    def state_dict(self) -> dict[str, Any]:
        epoch, batch = self.position
        counts = {"epoch": epoch, "batch": batch, "batch_size": self.batch_size, "samples": self.samples}
        world = self.sampler.num_replicas if isinstance(self.sampler, Order) else 1
        return {**counts, "world": world, "skipped": list(self.skipped)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next batch begins behind the samples that were read, also where batches were of another size then, or
        there was another number of processes."""
        self.skipped.update(dict.fromkeys(state.get("skipped", ())))
        if not isinstance(self.sampler, Order):
            return
        world = self.sampler.num_replicas
        samples = state.get("samples", state["batch"] * state.get("batch_size", self.batch_size))
        samples = samples * state.get("world", world) // world
        self.sampler.resume = (state["epoch"], samples)
        self.position, self.samples = (state["epoch"], self.behind(samples)), samples

    def behind(self, samples: int) -> int:
        """How many batches have been taken where so many samples have been read: all but those that follow."""
        return len(self) - -(-max(0, len(self.sampler) - samples) // self.batch_size)
