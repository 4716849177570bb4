"""The order of samples: pure, complete over the ranks, and resumable."""

import pytest
import torch
from torch.utils.data import DistributedSampler

from zoo.data import Loader, Order
from zoo.data.by_length import ByLength
from zoo.data.permutation import permuted


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


@pytest.mark.parametrize("length", [1, 2, 3, 31, 32, 33, 1000])
def test_a_permutation_without_sorting_is_one(length):
    first, other = (permuted(torch.arange(length), length, 5, number) for number in (0, 1))
    assert first.sort().values.tolist() == other.sort().values.tolist() == list(range(length))
    some = torch.arange(length - 1, -1, -2)
    assert torch.equal(permuted(some, length, 5, 0), first[some])
    if length == 1000:
        assert not torch.equal(first, other)
        assert (first - torch.arange(length)).abs().float().mean() == pytest.approx(length / 3, rel=0.1)
        assert len(set((first[1:] - first[:-1]).tolist())) > 500  # neighbours do not stay together


@pytest.mark.parametrize("world", [1, 2, 3])
def test_long_passes_are_drawn_bit_by_bit(world, monkeypatch):
    monkeypatch.setattr("zoo.data.order.SORTED", 50)
    monkeypatch.setattr("zoo.data.order.AT_ONCE", 16)
    orders = [Order(101, 5, rank, world, repeats=2) for rank in range(world)]
    ranks = [read(order, 3) for order in orders]
    assert {len(own) for own in ranks} == {len(orders[0])}
    seen = [pair for own in ranks for pair in own]
    assert set(seen) == {(number, i) for number in (6, 7) for i in range(101)} and len(seen) - 202 <= 2 * (world - 1)
    for skip in (1, 30, len(orders[0]) - 1):
        orders[0].resume = (3, skip)
        assert read(orders[0], 3) == ranks[0][skip:]


def by_length(length, rank=0, world=1, batch=4, repeats=1):
    lengths = torch.randint(1, 100, (length,), generator=torch.Generator().manual_seed(0))
    return Order(length, 5, rank, world, repeats=repeats, by_length=ByLength(lengths, 5), batch=batch), lengths


@pytest.mark.parametrize("world", [1, 2])
def test_batches_by_length_hold_every_sample_once_and_are_alike(world):
    orders = [by_length(203, rank, world) for rank in range(world)]
    lengths, ranks = orders[0][1], [read(order, 2) for order, _ in orders]
    seen = [index for own in ranks for _, index in own]
    assert set(seen) == set(range(203)) and len(seen) - 203 <= world - 1
    padded = 0
    for start in range(0, len(ranks[0]), 4):
        tops = [max(lengths[index] for _, index in own[start : start + 4]) for own in ranks]
        padded += 4 * sum(map(int, tops))
        assert start + 4 >= len(ranks[0]) or max(tops) - min(tops) < 30  # of all ranks
    mixed = [Order(203, 5, rank, world) for rank in range(world)]
    plain = sum(
        4 * max(int(lengths[index]) for _, index in own[start : start + 4])
        for own in (read(order, 2) for order in mixed)
        for start in range(0, len(own), 4)
    )
    assert lengths.sum() / plain < 0.7 and lengths.sum() / padded > 0.85
    tops = [int(lengths[ranks[0][start][1]]) for start in range(0, 200 // world, 4)]
    assert tops != sorted(tops)
    assert read(orders[0][0], 3) != ranks[0] and read(by_length(203, 0, world)[0], 2) == ranks[0]


def test_an_epoch_by_length_goes_on_with_other_batches():
    def loader(size):
        return Loader(Echo(99), size, sampler=by_length(50, batch=size)[0], collate_fn=list)

    before, between, after = loader(4), loader(7), loader(5)
    taken = [batch for _, batch in zip(range(3), before)]
    between.load_state_dict(before.state_dict())
    taken.append(next(iter(between)))
    after.load_state_dict(between.state_dict())
    assert [item for batch in [*taken, *after] for item in batch] == [item for batch in loader(4) for item in batch]
