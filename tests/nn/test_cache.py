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
    Disentangled,
    Global,
    LayerNorm,
    Learned,
    Learned2d,
    LinearScaling,
    Mixer,
    Parallel,
    Position,
    PostNorm,
    Prefix,
    RMSNorm,
    Rotary,
    Sinusoidal,
    Sinusoidal2d,
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
    "learned grid": partial(Learned2d, height=2, width=5, prefix=1),
    "sinusoidal grid": partial(Sinusoidal2d, height=2, width=5, prefix=1),
    "disentangled": partial(Disentangled, furthest=4),
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
CACHES = {"growing": Cache, "fixed": partial(Cache, capacity=T + 2), "with spare room": partial(Cache, spare=2)}


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


@pytest.mark.parametrize(
    ("position", "mask", "kind"),
    [
        row
        for row in itertools.product(POSITIONS, MASKS, KINDS)
        if row[0] != "disentangled" or row[2] == "mha"  # its tables have as many heads as the queries
    ],
)
@torch.no_grad()
def test_equal(position, mask, kind):
    """Plain, left-padded, and packed; a token at a time and in chunks; in every kind of cache."""
    model, x = build(POSITIONS[position], MASKS[mask], **KINDS[kind]), torch.randn(B, T, D)
    head = torch.randn(D, 50)
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
    for given in fields:
        full = model(x, **given)
        real = given.get("padding", torch.ones(B, T, dtype=torch.bool))
        assert full.isfinite().all()
        for sizes, cache in itertools.product(chunks, CACHES):
            step_by_step = decode(model, x, sizes, CACHES[cache](), **given)
            assert (step_by_step - full)[real].abs().max() < 1e-5 * full.abs().max().clamp(min=1), cache
            assert torch.equal((step_by_step @ head).argmax(-1)[real], (full @ head).argmax(-1)[real])


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
    for ring in "kv":
        slots = [getattr(layer["mixer"], ring).data.size(2) for layer in cache.layers.values()]
        assert [slots[0], slots[3]] == [4, 1] and min(slots[1:3]) >= T
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
def test_reorder_of_beams_leaves_their_memory_where_it_is():
    """Rows that read the same are exchanged, doubled and dropped among themselves."""
    model, x, memory = build(cross=True), torch.randn(4, T, D), torch.randn(2, 7, D).repeat_interleave(2, 0)
    cache, rows = Cache(), torch.tensor([1, 0, 3, 3])
    model(x[:, :6], cache=cache, memory=memory)
    before = cache.layers[0]["cross"].memory
    cache.reorder(rows, same_memory=True)
    steps = [model(x[rows, t : t + 1], cache=cache, memory=memory) for t in range(6, T)]
    assert torch.allclose(torch.cat(steps, 1), model(x[rows], memory=memory)[:, 6:], atol=1e-5)
    assert cache.layers[0]["cross"].memory is before


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


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("mask", MASKS)
@torch.no_grad()
def test_forgotten_tokens_leave_no_trace(mask, cache):
    """Speculation: tokens are read, some of the last taken back, and others read in their place."""
    model, x, wrong = build(mask=MASKS[mask], cross=True), torch.randn(B, T, D), torch.randn(B, T, D)
    memory, padding = torch.randn(B, 7, D), torch.arange(T) >= torch.tensor([[0], [3]])
    given = {"padding": padding, "positions": padding_positions(padding)}
    cache, start, outputs = CACHES[cache](), 7, []  # a prefix is read in one call
    if not cache.spare and MASKS[mask].behind is not None:
        model(x[:, :start], cache=cache, memory=memory)
        with pytest.raises(ValueError, match=r"make it with Cache\(spare=2\)"):
            cache.rewind(2)
        return
    outputs.append(model(x[:, :start], cache=cache, memory=memory, **{n: v[:, :start] for n, v in given.items()}))
    while start < T:
        end = min(start + 3, T)
        tried = torch.cat((x[:, start : start + 1], wrong[:, start + 1 : end]), 1)  # the first is right
        outputs.append(model(tried, cache=cache, memory=memory, positions=given["positions"][:, start:end])[:, :1])
        cache.rewind(end - start - 1)
        start += 1
        assert cache.length == start
    full = model(x, memory=memory, **given)
    assert (torch.cat(outputs, 1) - full)[padding].abs().max() < 1e-5
    with pytest.raises(ValueError, match="it cannot forget 12"):
        cache.rewind(12)


@torch.no_grad()
def test_a_recurrent_state_cannot_be_taken_back():
    class Sum(Mixer):
        """Everything so far, added up."""

        def __init__(self, dim):
            super().__init__()

        def forward(self, x, ctx, state=None):
            total = x.cumsum(1) + (0 if state is None else state.get("sum", 0))
            if state is not None:
                state["sum"] = total[:, -1:]
            return total

    model, x, cache = randomised(Backbone(D, 2, partial(Block, mixer=Sum, ffn=MLP))), torch.randn(B, T, D), Cache()
    assert torch.allclose(decode(model, x, CHUNKS[1], cache), model(x), atol=1e-4)
    with pytest.raises(ValueError, match="a layer's 'sum' has read all tokens"):
        cache.rewind(1)
    cache.reorder(torch.tensor([1, 1]))
    assert cache.layers[0]["mixer"]["sum"].shape == (2, 1, D)
    assert torch.equal(cache.layers[0]["mixer"]["sum"][0], cache.layers[0]["mixer"]["sum"][1])


@torch.no_grad()
def test_positions_and_capacity_end():
    model, x = build(POSITIONS["learned"]), torch.randn(B, T + 1, D)
    cache = Cache()
    model(x[:, :T], cache=cache)
    with pytest.raises(ValueError, match="the input has 12 tokens, the position table 11 rows"):
        model(x[:, T:], cache=cache)
    cache = Cache(capacity=5)
    build()(x[:, :4], cache=cache)
    with pytest.raises(RuntimeError, match="more tokens than the cache's capacity of 5"):
        build()(x[:, :2], cache=cache)


@pytest.mark.parametrize("mask", ["causal", "window"])
@torch.no_grad()
def test_a_step_in_a_fixed_cache_is_compiled_once(mask):
    """One graph, whatever the number of tokens so far."""
    graphs: list[torch.fx.GraphModule] = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    model, x = build(mask=MASKS[mask], cross=True), torch.randn(B, T, D)
    once, cache = {"memory": torch.randn(B, 7, D)}, Cache(capacity=16)
    full, step = model(x, **once), torch.compile(model, backend=count, fullgraph=True)
    outputs = [model(x[:, :4], cache=cache, **once)]
    for t in range(4, T):
        outputs.append(step(x[:, t : t + 1], cache=cache, **once))
        if t == 4:
            first = len(graphs)
    assert torch.allclose(torch.cat(outputs, 1), full, atol=1e-5)
    assert first == len(graphs) == 1
