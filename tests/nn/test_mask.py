"""Masks against brute force, as values, and what they let a cache forget."""

import itertools

import pytest
import torch

from zoo.nn import Causal, Context, Full, Global, Mask, Position, Prefix, Window

DEFINITIONS = [
    (Full(), lambda q, k: True),
    (Causal(), lambda q, k: k <= q),
    (Window(1), lambda q, k: q == k),
    (Window(3), lambda q, k: k in (q - 2, q - 1, q, q + 1, q + 2)),
    (Prefix(4), lambda q, k: k in (0, 1, 2, 3)),
    (Global(), lambda q, k: q == 0 or k == 0),
    (Global(2), lambda q, k: q < 2 or k < 2),
    (Causal() & Window(4), lambda q, k: 0 <= q - k <= 3),
    (Window(2) | Global(1), lambda q, k: abs(q - k) < 2 or q == 0 or k == 0),
    (Causal() | Prefix(3), lambda q, k: k <= q or k < 3),
    (Causal() & (Window(3) | Global(2)), lambda q, k: k <= q and (abs(q - k) < 3 or q < 2 or k < 2)),
]


@pytest.mark.parametrize(("mask", "definition"), DEFINITIONS, ids=lambda value: repr(value)[:40])
def test_definitions(mask, definition):
    pos = torch.arange(9)
    seen = mask(pos[:, None], pos[None, :])
    assert seen.shape == (9, 9) and seen.dtype == torch.bool
    for q, k in itertools.product(range(9), repeat=2):
        assert bool(seen[q, k]) is bool(definition(q, k)), (q, k)


@pytest.mark.parametrize("mask", [mask for mask, _ in DEFINITIONS], ids=repr)
def test_a_batch_of_positions(mask):
    q, k = torch.tensor([[3, 4], [7, 8]]), torch.tensor([[0, 1, 4], [6, 7, 8]])
    seen = mask(q[:, :, None], k[:, None, :])
    assert seen.shape == (2, 2, 3)
    for b in range(2):
        assert torch.equal(seen[b], mask(q[b][:, None], k[b][None, :]))


def test_values():
    assert Causal() & Window(4) == Causal() & Window(4) != Causal() & Window(5)
    assert hash(Window(2) | Global(1)) == hash(Window(2) | Global(1))
    assert Causal() & Window(4) != Causal() | Window(4)
    assert len({Causal(), Causal(), Full(), Window(3), Prefix(3), Global(3)}) == 5
    assert repr(Causal() & Window(4)) == "And(a=Causal(), b=Window(size=4))"


@pytest.mark.parametrize(
    ("mask", "behind"),
    [
        (Full(), None),
        (Causal(), None),
        (Window(4), 3),
        (Causal() & Window(4), 3),
        (Window(6) & Window(4), 3),
        (Window(6) | Window(4), 5),
        (Causal() | Window(4), None),
        (Causal() & (Window(4) | Global(1)), None),
        (Causal() & (Window(4) | Prefix(1)), None),
    ],
)
def test_behind(mask, behind):
    assert mask.behind == behind
    if behind is not None:  # nothing further back is ever seen, and that far it is
        pos = torch.arange(20)
        q, k = mask(pos[:, None], pos[None, :]).nonzero().T
        assert (q - k).max() == behind


def test_a_window_sees_something():
    with pytest.raises(ValueError, match=r"Window\(size=0\)"):
        Window(0)


def context(tokens: int, **fields) -> Context:
    return Context(Position(), torch.arange(tokens), torch.arange(tokens), **fields)


def test_padding_and_segments_by_brute_force():
    padding = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0]]).bool()
    segments = torch.tensor([[0, 0, 0, 0, 1, 1], [0, 1, 1, 2, 2, 2]])
    about = {"padding": padding, "segments": segments}
    allowed = context(6, **about, **{f"q_{name}": value for name, value in about.items()}).allowed(Causal())
    assert allowed.shape == (2, 1, 6, 6)
    for b, q, k in itertools.product(range(2), range(6), range(6)):
        expected = k <= q and segments[b, q] == segments[b, k] and padding[b, k]
        assert bool(allowed[b, 0, q, k]) is bool(expected or not padding[b, q])


def test_fewer_queries_than_keys():
    ctx = Context(Position(), torch.tensor([5, 6]), torch.arange(4, 7))
    assert torch.equal(ctx.allowed(Causal()), torch.tensor([[True, True, False], [True, True, True]]))
    assert ctx.distance().tolist() == [[-1, 0, 1], [-2, -1, 0]]


@pytest.mark.parametrize(
    "mask", [Full(), Causal(), Causal() & Window(4), Causal() | Prefix(2), Causal() & (Window(2) | Global(1))]
)
def test_where_the_newest_token_sees_all_there_is_no_mask(mask):
    for count in range(1, 8):
        ctx = Context(Position(), torch.tensor([count - 1]), torch.arange(count))
        seen, allowed = mask(ctx.q_pos[:, None], ctx.k_pos[None]), ctx.allowed(mask)
        assert seen.all() if allowed is None else torch.equal(allowed, seen)
    assert Context(Position(), torch.tensor([9]), torch.arange(10)).allowed(Causal()) is None
    assert Context(Position(), torch.tensor([9]), torch.arange(6, 10)).allowed(Causal() & Window(4)) is None


def test_equal_masks_are_built_once():
    ctx = context(4)
    assert ctx.allowed(Causal() & Window(2)) is ctx.allowed(Causal() & Window(2))
    assert ctx.allowed(Causal() & Window(3)) is not ctx.allowed(Causal() & Window(2))


def test_an_own_mask():
    class Even(Mask):
        def __call__(self, q, k):
            return (k % 2 == 0) & (q >= 0)

    assert (Even() & Causal()).behind is None
    assert (Even() & Causal())(torch.arange(4)[:, None], torch.arange(4)[None]).sum() == 1 + 1 + 2 + 2
