"""The order of samples: pure, complete over the ranks, and resumable."""

import pytest
from torch.utils.data import DistributedSampler

from zoo.data import Loader, Order


def read(order, epoch):
    order.set_epoch(epoch)
    return list(order)


def test_it_is_what_lightning_leaves_alone():
    assert isinstance(Order(3), DistributedSampler)


@pytest.mark.parametrize("length", [1, 7, 8, 101])
@pytest.mark.parametrize("world", [1, 2, 3])
def test_training_sees_all_and_evaluation_each_once(length, world):
    ranks = [read(Order(length, 5, rank, world), 3) for rank in range(world)]
    assert len({len(own) for own in ranks}) == 1 == len({len(ranks[0]), len(Order(length, 5, 0, world))})
    seen = [pair for own in ranks for pair in own]
    assert set(seen) == {(3, i) for i in range(length)} and len(seen) - length <= world - 1
    ranks = [read(Order(length, 5, rank, world, shuffle=False), 3) for rank in range(world)]
    assert sorted(pair for own in ranks for pair in own) == [(0, i) for i in range(length)]
    assert [len(own) for own in ranks] == [len(Order(length, 5, rank, world, shuffle=False)) for rank in range(world)]


def test_order_depends_on_seed_and_epoch_alone():
    order = Order(50, seed=1)
    first = read(order, 0)
    assert read(order, 1) != [(1, i) for _, i in first]
    assert read(order, 0) == first == read(Order(50, seed=1), 0) != read(Order(50, seed=2), 0)


def test_repeats_are_epochs_of_their_own():
    once = Order(5, seed=1)
    assert read(Order(5, seed=1, repeats=3), 2) == read(once, 6) + read(once, 7) + read(once, 8)


def test_another_batch_size_goes_on_with_the_next_sample():
    def loader(size):
        return Loader(Echo(99), size, sampler=Order(11), collate_fn=list)

    before, after = loader(2), loader(4)
    taken = [batch for _, batch in zip(range(2), before)]
    after.load_state_dict(before.state_dict())
    assert [item for batch in [*taken, *after] for item in batch] == [item for batch in loader(11) for item in batch]
    assert after.position == (0, 3) and after.state_dict()["samples"] >= 11


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("repeats", [1, 3])
def test_resume_goes_on_with_the_next_batch(workers, repeats):
    def loader():
        pairs = [range(11)] * 99  # the collate function gets what the sampler says
        return Loader(Echo(len(pairs)), 2, sampler=Order(11, repeats=repeats), num_workers=workers, collate_fn=list)

    whole, part, resumed = loader(), loader(), loader()
    whole.sampler.set_epoch(4)
    batches = list(whole)
    part.sampler.set_epoch(4)
    taken = [batch for _, batch in zip(range(3), part)]
    assert taken == batches[:3] and part.position == (4, 3) and part.state_dict()["samples"] == 6
    resumed.load_state_dict(part.state_dict())
    iterator = iter(resumed)  # as Lightning does, before it sets the epoch
    resumed.sampler.set_epoch(4)
    assert list(iterator) == batches[3:] and resumed.state_dict() == whole.state_dict()
    assert list(resumed) == batches  # and after that whole epochs
    resumed.load_state_dict(part.state_dict())
    resumed.sampler.set_epoch(5)
    assert len(list(resumed)) == len(batches)  # another epoch is not cut


class Echo:
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, pair):
        return pair
