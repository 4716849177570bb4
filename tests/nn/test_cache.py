"""The invariant: decoding with a cache, a token or a chunk at a time, equals one full forward."""

import itertools
from functools import partial

import pytest
import torch
from torch import nn

from zoo.nn import (
    MLP,
    ALiBi,
    Attention,
    Backbone,
    Block,
    Buckets,
    Cache,
    Causal,
    Global,
    LayerNorm,
    Learned,
    LinearScaling,
    Parallel,
    Position,
    PostNorm,
    Prefix,
    RMSNorm,
    Rotary,
    Sinusoidal,
    Window,
    padding_positions,
    segment_positions,
)

B, T, D = 2, 11, 32

POSITIONS = {
    "none": Position,
    "learned": partial(Learned, length=T),
    "learned, offset": partial(Learned, length=T, offset=2),
    "sinusoidal": Sinusoidal,
    "rotary": Rotary,
    "rotary, partial": partial(Rotary, fraction=0.5, layout="interleaved", scaling=LinearScaling(2.0)),
    "alibi": ALiBi,
    "buckets": partial(Buckets, heads=4, buckets=8, furthest=10, causal=True),
    "buckets both ways": partial(Buckets, heads=4, buckets=8, furthest=10),
}
MASKS = {
    "causal": Causal(),
    "window": Causal() & Window(4),
    "window of one": Causal() & Window(1),
    "window and sink": Causal() & (Window(3) | Global(1)),
    "prefix": Causal() | Prefix(4),
}
KINDS = {
    "mha": {},
    "gqa": {"kv_heads": 2},
    "mqa": {"kv_heads": 1},
    "qk-norm": {"qk_norm": RMSNorm, "kv_heads": 2, "bias": False},
}
CHUNKS = [[1] * T, [5, 1, 3, 2]]


def build(position=Rotary, mask=Causal(), depth: int = 2, cross: bool = False, **kind) -> Backbone:
    block = partial(
        Block,
        mixer=partial(Attention, heads=4, mask=mask, **kind),
        cross=partial(Attention, heads=4, cross=True) if cross else None,
        ffn=MLP,
    )
    return randomised(Backbone(D, depth, block, position=position, last_norm=LayerNorm))


def randomised(model: Backbone) -> Backbone:
    for name, weight in model.named_parameters():
        nn.init.normal_(weight, mean=float("norm" in name and name.endswith("weight")), std=0.25)
    return model.eval()


def decode(model: Backbone, x, chunks: list[int], cache: Cache | None = None, once: dict | None = None, **fields):
    """``fields`` (B, T) are cut like the input; ``once`` is given to every call as it is."""
    cache, outputs, start = Cache() if cache is None else cache, [], 0
    for size in chunks:
        part = slice(start, start + size)
        cut = {name: value[:, part] for name, value in fields.items()}
        outputs.append(model(x[:, part], cache=cache, **cut, **(once or {})))
        start += size
    assert start == x.size(1) == cache.length
    return torch.cat(outputs, 1)


@pytest.mark.parametrize(("position", "mask", "kind"), [*itertools.product(POSITIONS, MASKS, KINDS)])
@torch.no_grad()
def test_equal(position, mask, kind):
    """Plain, left-padded, and packed; a token at a time and in chunks."""
    model, x = build(POSITIONS[position], MASKS[mask], **KINDS[kind]), torch.randn(B, T, D)
    padding = torch.arange(T) >= torch.tensor([[0], [3]])
    segments = torch.tensor([[0] * 6 + [1] * 5, [0] * 3 + [1] * 2 + [2] * 6])
    fields = [
        {},
        {"padding": padding, "positions": padding_positions(padding)},
        {"padding": padding},
        {"segments": segments, "positions": segment_positions(segments)},
    ]
    chunks = CHUNKS
    if mask == "prefix":  # the prefix must be read in one call: its tokens see each other
        chunks, fields = [[5, 1, 3, 2], [4] + [1] * 7], fields[:1] + fields[2:3]
    for given, sizes in itertools.product(fields, chunks):
        full = model(x, **given)
        real = given.get("padding", torch.ones(B, T, dtype=torch.bool))
        assert full.isfinite().all()
        assert (decode(model, x, sizes, **given) - full)[real].abs().max() < 1e-5 * full.abs().max().clamp(min=1)


@pytest.mark.parametrize("mask", ["causal", "window", "window and sink"])
@torch.no_grad()
def test_left_padding_equals_no_padding(mask):
    model, x = build(Rotary, MASKS[mask]), torch.randn(B, T, D)
    padding = torch.arange(T) >= torch.tensor([[0], [3]])
    y = decode(model, x, [5] + [1] * 6, padding=padding, positions=padding_positions(padding))
    assert torch.allclose(y[1, 3:], model(x[1:, 3:])[0], atol=1e-5)


@torch.no_grad()
def test_packed_segments_equal_separate_documents():
    model, x = build(Rotary, Causal() & Window(4)), torch.randn(1, T, D)
    segments = torch.tensor([[0] * 6 + [1] * 5])
    y = decode(model, x, [4, 1, 3, 1, 2], segments=segments, positions=segment_positions(segments))
    assert torch.allclose(y[:, :6], model(x[:, :6]), atol=1e-5)
    assert torch.allclose(y[:, 6:], model(x[:, 6:]), atol=1e-5)


@pytest.mark.parametrize("what", ["padding", "padding and positions", "segments"])
@torch.no_grad()
def test_fields_may_be_given_with_the_prompt_only(what):
    """Generation: the prompt is padded or packed, what follows is real, and goes on."""
    model, x = build(), torch.randn(B, T, D)
    padding = torch.arange(T) >= torch.tensor([[0], [3]])
    segments = torch.tensor([[0] * T, [0] * 3 + [1] * 8])
    fields = {
        "padding": {"padding": padding},
        "padding and positions": {"padding": padding, "positions": padding_positions(padding)},
        "segments": {"segments": segments, "positions": segment_positions(segments)},
    }[what]
    full, cache = model(x, **fields), Cache()
    steps = [model(x[:, :6], cache=cache, **{name: value[:, :6] for name, value in fields.items()})]
    steps += [model(x[:, t : t + 1], cache=cache) for t in range(6, T)]
    real = fields.get("padding", torch.ones(B, T, dtype=torch.bool))
    assert (torch.cat(steps, 1) - full)[real].abs().max() < 1e-5


@torch.no_grad()
def test_padding_may_begin_later():
    model, x = build(), torch.randn(B, T, D)
    padding = torch.ones(B, T, dtype=torch.bool)
    padding[0, 7] = False
    cache = Cache()
    steps = [model(x[:, :5], cache=cache), model(x[:, 5:], cache=cache, padding=padding[:, 5:])]
    assert (torch.cat(steps, 1) - model(x, padding=padding))[padding].abs().max() < 1e-5


@torch.no_grad()
def test_mixed_calls_are_refused():
    model, x, cache = build(), torch.randn(B, T, D), Cache()
    model(x[:, :4], cache=cache)
    with pytest.raises(ValueError, match="give them always or never"):
        model(x[:, 4:5], cache=cache, positions=torch.full((B, 1), 4))
    with pytest.raises(ValueError, match="give them from the start"):
        model(x[:, 4:5], cache=cache, segments=torch.ones(B, 1, dtype=torch.long))
    assert cache.length == 4


@torch.no_grad()
def test_a_window_keeps_only_what_it_can_see():
    masks = [Causal() & Window(4), Causal(), Causal() & (Window(4) | Global(1)), Causal() & Window(1)]
    model = randomised(Backbone(D, 4, [partial(Block, mixer=partial(Attention, heads=4, mask=mask)) for mask in masks]))
    cache, x = Cache(), torch.randn(B, T, D)
    y = decode(model, x, [6, 1, 1, 3], cache)
    assert [layer["mixer"]["k"].size(2) for layer in cache.layers.values()] == [3, T, T, 0]
    assert [layer["mixer"]["v"].size(2) for layer in cache.layers.values()] == [3, T, T, 0]
    assert torch.allclose(y, model(x), atol=1e-5)


@torch.no_grad()
def test_the_memory_is_projected_once():
    model, x, memory = build(cross=True), torch.randn(B, T, D), torch.randn(B, 7, D)
    padding = torch.arange(7) < torch.tensor([[7], [4]])
    calls = []
    for block in model.blocks:
        block.cross.fn.k.register_forward_hook(lambda *_: calls.append("k"))
        block.cross.fn.v.register_forward_hook(lambda *_: calls.append("v"))
    once = {"memory": memory, "memory_padding": padding}
    full = model(x, **once)
    calls.clear()
    assert torch.allclose(decode(model, x, [3, 1, 1, 6], once=once), full, atol=1e-5)
    assert sorted(calls) == ["k", "k", "v", "v"]
    assert not torch.allclose(full, model(x, memory=memory), atol=1e-3)


@pytest.mark.parametrize("padded", [True, False])
@torch.no_grad()
def test_reorder(padded):
    """A beam search: rows are dropped, doubled and exchanged between steps."""
    model, x, memory = build(mask=Causal() & Window(4), cross=True), torch.randn(3, T, D), torch.randn(3, 7, D)
    padding = torch.arange(T) >= torch.tensor([[0], [3], [1]])
    fields = {"padding": padding, "positions": padding_positions(padding)} if padded else {}
    cache, rows = Cache(), torch.tensor([2, 1, 1, 2])
    model(x[:, :6], cache=cache, memory=memory, **{name: value[:, :6] for name, value in fields.items()})
    cache.reorder(rows)
    given = {name: value[rows] for name, value in fields.items()}
    steps = [
        model(x[rows, t : t + 1], cache=cache, memory=memory[rows], **{n: v[:, t : t + 1] for n, v in given.items()})
        for t in range(6, T)
    ]
    full = model(x[rows], memory=memory[rows], **given)
    assert torch.allclose(torch.cat(steps, 1), full[:, 6:], atol=1e-5)


@torch.no_grad()
def test_other_blocks():
    """Parallel parts keep a state each; post-norm and a layer's own position are no exception."""
    attention = partial(Attention, heads=4, mask=Causal())
    blocks = [
        partial(Block, mixer=partial(Parallel, parts=[attention, partial(attention, mask=Causal() & Window(3)), MLP])),
        partial(Block, mixer=partial(attention, position=ALiBi), ffn=MLP, residual=PostNorm),
    ]
    model, x = randomised(Backbone(D, 4, blocks, position=Rotary)), torch.randn(B, T, D)
    for chunks in CHUNKS:
        assert torch.allclose(decode(model, x, chunks), model(x), atol=1e-5)
