"""Packed rows against the padded batch that they stand for: outputs and gradients, in every family and variant."""

import random
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter
from torch._subclasses.fake_tensor import FakeTensorMode

from zoo.models import BART, BERT, ESM, GPT, GPT2, T5, DeBERTa, DeBERTa2, LLaMA, Mistral, RoBERTa, T5Gated, ViT, Whisper
from zoo.nn import (
    MLP,
    AdaNorm,
    ALiBi,
    Attention,
    Backbone,
    Block,
    Buckets,
    Causal,
    Gated,
    LayerNorm,
    Learned2d,
    Mixer,
    Parallel,
    Position,
    PostNorm,
    PreNorm,
    Rotary,
    Sandwich,
    Sinusoidal2d,
    Window,
    attend,
    packing,
    padding_positions,
)
from zoo.nn.context import Slot, slots
from zoo.nn.packing import Layout, Moved, arrange, arranged, work

B, T, M, D = 7, 24, 20, 32
COUNTS = torch.tensor([24, 5, 9, 3, 12, 1, 8])[:, None]
PADDED = {
    "right": torch.arange(T) < COUNTS,
    "left": torch.arange(T) >= T - COUNTS,
    "holes": torch.rand(B, T, generator=torch.Generator().manual_seed(1)) < 0.4,
}
RIGHT = PADDED["right"]
SOURCE = torch.arange(M) < torch.tensor([20, 7, 11, 2, 9, 3, 6])[:, None]
ATTEND, FORWARD = partial(Attention, heads=4), partial(Attention, heads=4, mask=Causal())


def stack(position=Rotary, residual=PreNorm, mixer=ATTEND) -> Backbone:
    block = partial(Block, mixer=mixer, ffn=MLP, residual=residual)
    return Backbone(D, 2, block, position=position, last_norm=LayerNorm)


STACKS = {
    "BERT": lambda: BERT(D, 2, 4, length=T),
    "RoBERTa": lambda: RoBERTa(D, 2, 4, length=T),
    "ESM": lambda: ESM(D, 2, 4),
    "DeBERTa": lambda: DeBERTa(D, 2, 4, furthest=9),
    "DeBERTa far": lambda: DeBERTa(D, 2, 4, furthest=64),
    "DeBERTa2": lambda: DeBERTa2(D, 2, 4, furthest=16, buckets=8, kernel=3),
    "GPT": lambda: GPT(D, 2, 4, length=T),
    "GPT2": lambda: GPT2(D, 2, 4, length=T),
    "LLaMA": lambda: LLaMA(D, 2, 4, 2, 48),
    "Mistral": lambda: Mistral(D, 2, 4, 2, 48, window=4),
    "T5": lambda: T5(D, 2, 4, 16, 64).encoder,
    "ViT": lambda: ViT(D, 2, 4, grid=[1, T - 1]),
    "causal buckets": lambda: stack(partial(Buckets, heads=4, causal=True), mixer=FORWARD),
    "learned grid": lambda: stack(partial(Learned2d, height=4, width=6)),
    "waves on a grid": lambda: stack(partial(Sinusoidal2d, height=4, width=6)),
    "alibi": lambda: stack(ALiBi, mixer=FORWARD),
    "a layer's own": lambda: stack(Position, mixer=partial(ATTEND, position=ALiBi, mask=Window(3))),
    "parallel": lambda: stack(ALiBi, mixer=partial(Parallel, parts=[ATTEND, MLP])),
    "post": lambda: stack(residual=PostNorm),
    "sandwich": lambda: stack(residual=Sandwich),
    "gated": lambda: stack(residual=Gated),
}
PAIRS = {
    "T5": lambda: T5(D, 2, 4, 16, 64),
    "T5Gated": lambda: T5Gated(D, 2, 4, 16, 64),
    "BART": lambda: BART(D, 2, 4, length=T),
    "Whisper": lambda: Whisper(D, 2, 4, length=T),
}


@pytest.fixture(autouse=True)
def small(monkeypatch) -> None:
    """Also batches that are too small for it to pay are packed."""
    monkeypatch.setattr(packing, "LEAST", 0.0)


@pytest.fixture
def entered(monkeypatch) -> list[Layout]:
    """The layouts that backbones have worked in."""
    found: list[Layout] = []
    enter = Layout.enter
    monkeypatch.setattr(Layout, "enter", lambda self, x, ctx: found.append(self) or enter(self, x, ctx))
    return found


def drawn(model: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.2)
    return model


def compare(model: nn.Module, run: Callable[..., Tensor], real: Tensor, *inputs: Tensor) -> None:
    """``run`` of the real tokens, and the gradients of its inputs and of all weights, packed and as the batch is."""
    weight = torch.randn(*real.shape, D, generator=torch.Generator().manual_seed(2)) * real[..., None]
    found = []
    for worth in (packing.WORTH, 0.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(packing, "WORTH", worth)
            leaves = [x.clone().requires_grad_() for x in inputs]
            torch.manual_seed(3)
            y = run(*leaves)
            used = [*leaves, *(weight for weight in model.parameters() if weight.requires_grad)]
            found.append([y[real], *torch.autograd.grad((y * weight).sum(), used, allow_unused=True)])
    for one, other in zip(*found, strict=True):
        if one is None or other is None:
            assert one is other
        else:
            assert torch.allclose(one, other, atol=1e-5 * max(1.0, float(other.detach().abs().max())))


@pytest.mark.parametrize("where", PADDED)
@pytest.mark.parametrize("name", STACKS)
def test_a_stack(name, where, entered):
    model, real = drawn(STACKS[name]()), PADDED[where]
    compare(model, lambda x: model(x, padding=real), real, torch.randn(B, T, D))
    assert len(entered) == 1 and entered[0].own.source.numel() < 0.7 * B * T


@pytest.mark.parametrize("name", PAIRS)
def test_an_encoder_and_its_decoder(name, entered):
    model = drawn(PAIRS[name]())
    source, target = torch.randn(B, M, D), torch.randn(B, T, D)
    compare(model, lambda x, y: model(x, y, padding=SOURCE, target_padding=RIGHT), RIGHT, source, target)
    assert [layout.memory is not None for layout in entered] == [False, True]


def test_a_memory_without_padding(entered):
    model = drawn(PAIRS["BART"]().decoder)
    compare(model, lambda x, m: model(x, padding=RIGHT, memory=m), RIGHT, torch.randn(B, T, D), torch.randn(B, M, D))
    assert entered[0].memory is not None


@pytest.mark.parametrize("name", ["GPT2", "DeBERTa", "T5", "alibi", "LLaMA"])
def test_positions_that_were_given(name, entered):
    model, real = drawn(STACKS[name]()), PADDED["left"]
    positions = padding_positions(real)
    x = torch.randn(B, T, D)
    compare(model, lambda x: model(x, padding=real, positions=positions), real, x)
    alone = model(x[2:3, -9:])[0]  # the sample by itself, counted from zero
    assert torch.allclose(model(x, padding=real, positions=positions)[2, -9:], alone, atol=1e-4)
    assert len(entered) == 2


def test_each_sample_is_as_if_alone(entered):
    model, x = drawn(STACKS["BERT"]()), torch.randn(B, T, D)
    y = model(x, padding=RIGHT)
    for b, count in enumerate(COUNTS[:, 0].tolist()):
        assert torch.allclose(y[b, :count], model(x[b : b + 1, :count])[0], atol=1e-4)
        assert not y[b, count:].any()
    assert len(entered) == 1


def test_a_condition_reaches_its_sample(entered):
    model = drawn(stack(residual=AdaNorm))
    compare(model, lambda x, c: model(x, padding=RIGHT, cond=c), RIGHT, torch.randn(B, T, D), torch.randn(B, D))
    assert len(entered) == 1


def test_a_branch_is_left_out_for_whole_samples(entered):
    """From one seed the same samples lose the same branches, in packed rows as in their own."""
    model = drawn(stack(residual=partial(PreNorm, drop_path=0.5))).train()
    compare(model, lambda x: model(x, padding=RIGHT), RIGHT, torch.randn(B, T, D))
    assert len(entered) == 1


def test_activations_that_are_computed_again(entered):
    model = drawn(STACKS["DeBERTa"]()).train()
    model.set_grad_checkpointing()
    compare(model, lambda x: model(x, padding=RIGHT), RIGHT, torch.randn(B, T, D))
    assert len(entered) == 1


def test_autocast(entered):
    model, x = drawn(STACKS["BERT"]()), torch.randn(B, T, D)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        y = model(x, padding=RIGHT)
    assert len(entered) == 1
    for b, count in enumerate(COUNTS[:, 0].tolist()):
        assert torch.allclose(y[b, :count].float(), model(x[b : b + 1, :count])[0], atol=0.1)


def test_a_sample_without_any_token(entered):
    model, x = drawn(PAIRS["T5"]()), torch.randn(B, T, D, requires_grad=True)
    real, read = RIGHT.clone(), SOURCE.clone()
    real[1], read[2] = False, False
    y = model(torch.randn(B, M, D), x, padding=read, target_padding=real)
    y.sum().backward()
    assert y.isfinite().all() and not y[1].any() and x.grad.isfinite().all() and len(entered) == 2
    assert all(weight.grad is None or weight.grad.isfinite().all() for weight in model.parameters())
    assert not stack()(torch.randn(2, 8, D), padding=torch.zeros(2, 8, dtype=torch.bool)).isnan().any()


# ---- when it is not done


class Average(Mixer):
    """Looks at its whole row."""

    def forward(self, x, ctx, state=None):
        return x.mean(1, keepdim=True).expand_as(x)


class Ahead(Attention):
    """Looks at the next place in its row."""

    def forward(self, x, ctx, state=None):
        return super().forward(x, ctx, state) + x.roll(-1, 1)


class Parity(Position):
    """Tells even places of the row from odd ones."""

    def bias(self, q, k, attention, ctx):
        return (torch.arange(k.size(2)) % 2).float().expand(q.size(1), q.size(2), -1)


class Plain(nn.Module):
    """Stands in a block's place."""

    def __init__(self, dim: int):
        super().__init__()
        self.linear = nn.Linear(dim, dim)

    def forward(self, x, ctx, state=None):
        return self.linear(x) + x.mean(1, keepdim=True)


@pytest.mark.parametrize(
    "model",
    [
        stack(mixer=lambda dim: Average()),
        stack(mixer=partial(Ahead, heads=4)),
        stack(Parity),
        Backbone(D, 1, Plain),
        stack(mixer=partial(Parallel, parts=[ATTEND, lambda dim: Average()])),
    ],
    ids=["mixer", "subclass", "position", "block", "inner"],
)
def test_not_with_a_part_that_does_not_say_it_packs(model, entered):
    assert model(torch.randn(B, T, D), padding=RIGHT).shape == (B, T, D) and not entered


class Renamed(Attention):
    """Changes nothing."""


class Vouched(Ahead):
    packs = True


def test_a_subclass_says_it_again_where_it_overrides_a_method():
    assert Attention.packs and Renamed.packs and Vouched.packs and Rotary.packs and Position.packs
    assert not (Ahead.packs or Parity.packs or Average.packs or Mixer.packs)


def test_not_where_states_or_maps_are_asked_for(entered):
    model, x, states = drawn(stack()), torch.randn(B, T, D), []
    packed = model(x, padding=RIGHT)
    assert len(entered) == 1
    y = model(x, padding=RIGHT, states=states)
    assert torch.allclose(y[RIGHT], packed[RIGHT], atol=1e-5) and [s.shape for s in states] == [(B, T, D)] * 2
    _, maps = model(x, padding=RIGHT, return_attention=True)
    assert {m.shape for m in maps.values()} == {(B, 4, T, T)} and len(entered) == 1


def test_not_where_values_are_unknown(entered):
    model, another = stack(), stack()
    assert model.to("meta")(torch.randn(B, T, D, device="meta"), padding=RIGHT.to("meta")).shape == (B, T, D)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert another(mode.from_tensor(torch.randn(B, T, D)), padding=mode.from_tensor(RIGHT)).shape == (B, T, D)
    whole = torch.compile(stack(), fullgraph=True, backend="eager")
    assert whole(torch.randn(B, T, D), padding=RIGHT).shape == (B, T, D) and not entered


def test_not_where_little_is_saved(entered):
    full = torch.ones(4, 64, dtype=torch.bool)
    full[0, 60:] = False
    x = torch.randn(4, 64, D)
    assert arranged(x, 2, full) is None and arranged(x[:1], 2, full[:1]) is None
    stack()(x, padding=full)
    assert not entered


def test_not_where_it_costs_more_than_it_saves(monkeypatch, entered):
    monkeypatch.undo()
    assert arranged(torch.empty(B, T, D), 2, RIGHT) is None
    assert arranged(torch.empty(B, T, 20 * D), 12, RIGHT) is not None


def test_padding_on_the_right_needs_no_mask_where_nobody_looks_ahead(monkeypatch, entered):
    """The kernel's own triangle stays in use."""
    asked: list[tuple] = []

    def spy(*inputs, allowed, causal, **more):
        asked.append((causal, allowed is None))
        return attend(*inputs, allowed=allowed, causal=causal, **more)

    monkeypatch.setattr("zoo.nn.attention.attend", spy)
    full = torch.ones(2, 64, dtype=torch.bool)
    full[0, 60:] = False
    x = torch.randn(2, 64, D)
    for model, padding, expected in [
        (stack(mixer=FORWARD), full, (True, True)),
        (stack(mixer=FORWARD), full.flip(1), (False, False)),
        (stack(), full, (False, False)),
    ]:
        asked.clear()
        model(x, padding=padding)
        assert asked == [expected] * 2 and not entered


def test_blocks_are_compiled_once_for_all_rows(entered):
    torch.compiler.reset()
    model, counter = drawn(stack()), CompileCounter()
    for block in model.blocks:
        block.compile(dynamic=True, backend=counter)
    seen = []
    for seed in range(8):
        torch.manual_seed(seed)
        length = 24 + 4 * seed
        padding = torch.arange(length) < torch.randint(1, length, (6 + seed, 1)).clamp(max=length // 2 + seed)
        x = torch.randn(6 + seed, length, D)
        y = model(x, padding=padding)
        seen.append(counter.frame_count)
        assert torch.allclose(y[0, :1].detach(), model(x[:1], padding=padding[:1])[0, :1].detach(), atol=1e-4)
    assert len(entered) == 8 and len({layout.own.source.shape for layout in entered}) > 4
    assert seen[-1] == seen[2]
    torch.compiler.reset()


# ---- the arrangement


def test_every_token_has_one_slot_in_its_sample_s_row():
    shuffled = random.Random(0)
    for _ in range(60):
        samples, widest = shuffled.randint(2, 40), shuffled.randint(8, 90)
        real = torch.rand(samples, widest) < torch.rand(samples, 1)
        layout = arranged(torch.empty(samples, widest, 256), 2, real)
        if layout is None:
            continue
        own, x = layout.own, torch.arange(1, samples * widest + 1).view(samples, widest)
        rows = own.pack(x)
        assert sorted(rows[rows > 0].tolist()) == x[real].tolist()
        assert torch.equal(own.unpack(rows), x * real)
        assert torch.equal(own.padding, rows > 0) and rows.size(1) % 8 == 0
        assert torch.equal(own.segments[own.padding], (rows[own.padding] - 1) // widest)
        assert torch.equal(own.positions[own.padding], (rows[own.padding] - 1) % widest)
        assert set(own.segments[~own.padding].tolist()) <= {-1}
        where = {(int(s), r) for r, row in enumerate(own.segments) for s in row if s >= 0}
        assert len(where) == int(real.any(1).sum())  # a sample is not torn apart
        spread = own.spread(torch.arange(samples)[:, None])
        assert torch.equal(spread[own.padding], own.segments[own.padding])


def test_what_is_left_over():
    """The lengths of texts (lognormal, median 90, clipped at 256): less than 8 % of the slots stay empty."""
    generator = torch.Generator().manual_seed(0)
    for samples in (8, 64):
        share = []
        for _ in range(30):
            counts = (90 * torch.randn(samples, generator=generator).mul(0.7).exp()).clamp(1, 256).long().tolist()
            where, lengths = arrange([counts], [256], 384, 6)
            share.append(sum(counts) / ((max(where) + 1) * lengths[0]))
        assert sum(share) / len(share) > 0.92


def test_rows_of_a_memory_count():
    where, lengths = arrange([[8] * 8, [100, 1, 1, 1, 1, 1, 1, 100]], [64, 128], 64, 1)
    assert work(max(where) + 1, lengths, 64) < 0.5 * work(8, [64, 128], 64)
    assert where[0] != where[7]  # else a row's memory were as long as both


def test_the_way_back_is_a_look_up():
    own = arranged(torch.empty(B, T, D), 2, RIGHT).own
    x = torch.randn(B, T, 2, dtype=torch.double, requires_grad=True)
    y = torch.randn(own.rows, own.source.numel() // own.rows, 2, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(own.pack, x) and torch.autograd.gradgradcheck(own.pack, x)
    assert torch.autograd.gradcheck(own.unpack, y)
    both = torch.randn(3, B * T, 2)
    moved = torch.vmap(lambda one: Moved.apply(one, own.source, own.place))(both)
    assert torch.equal(moved[1], Moved.apply(both[1], own.source, own.place))


def test_the_walk_for_parts_meets_those_that_torch_s_meets():
    model = stack(mixer=partial(Parallel, parts=[ATTEND, FORWARD]))
    model.blocks[0].register_module("none", None)
    expected = {part for part in model.modules() if isinstance(part, Slot)}
    assert set(slots(model)) == expected and len(expected) > 8


def test_a_part_that_is_exchanged_later_is_asked_too(entered):
    """Also where torch does not see it, as quantization does it."""
    model = stack()
    model(torch.randn(B, T, D), padding=RIGHT)
    assert entered
    entered.clear()
    model.blocks[1].mixer._modules["fn"] = Average()
    model(torch.randn(B, T, D), padding=RIGHT)
    assert not entered
