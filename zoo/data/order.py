"""The order of samples, a pure function of (seed, epoch, rank, world), and a loader that resumes inside an epoch."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler

from zoo.rng import sample_keys


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
    """

    position = (0, 0)  # (epoch, batches taken)

    def __iter__(self):
        order = self.sampler
        if not isinstance(order, Order):  # Lightning's overfit_batches puts a plain sampler here
            yield from super().__iter__()
            return
        epoch, start = order.epoch, order.skip // self.batch_size
        for taken, batch in enumerate(super().__iter__(), start + 1):
            order.resume = None
            self.position = (epoch, taken)
            yield batch

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.position[0], "batch": self.position[1], "batch_size": self.batch_size}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """The next batch begins behind the samples that were read, also where batches were of another size then."""
        size = self.batch_size or 1
        samples = state["batch"] * state.get("batch_size", size)
        self.position = (state["epoch"], samples // size)
        if isinstance(self.sampler, Order):
            self.sampler.resume = (state["epoch"], samples)
