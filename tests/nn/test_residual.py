"""Residual branches against their formulas, and the blocks that chain them."""

from functools import partial

import pytest
import torch
from torch import nn

from zoo.nn import (
    MLP,
    AdaNorm,
    Attention,
    Block,
    Context,
    Gated,
    Init,
    LayerNorm,
    Parallel,
    Position,
    PostNorm,
    PreNorm,
    RMSNorm,
    Sandwich,
)

D = 8
POS = torch.arange(5)
CTX = Context(Position(), POS, POS, plain=True)


def randomised(module):
    for weight in module.parameters():
        nn.init.normal_(weight)
    return module


FORMULAS = {
    PreNorm: lambda r, x: x + r.fn(r.norm(x)),
    PostNorm: lambda r, x: r.norm(x + r.fn(x)),
    Sandwich: lambda r, x: x + r.norm_out(r.fn(r.norm(x))),
    Gated: lambda r, x: x + torch.tanh(r.gate) * r.fn(r.norm(x)),
}


@pytest.mark.parametrize("style", FORMULAS)
def test_formulas(style):
    residual, x = randomised(style(D, MLP(D), norm=RMSNorm)), torch.randn(2, 5, D)
    assert torch.allclose(residual(x, CTX), FORMULAS[style](residual, x), atol=1e-5)


def test_a_gate_begins_closed():
    x = torch.randn(2, 5, D)
    assert torch.equal(Gated(D, MLP(D))(x, CTX), x)


def test_ada_norm():
    residual, x, cond = randomised(AdaNorm(D, MLP(D))), torch.randn(2, 5, D), torch.randn(2, D)
    shift, scale, gate = residual.modulate(nn.functional.silu(cond)).chunk(3, -1)
    normed = nn.functional.layer_norm(x, (D,), eps=1e-6)
    expected = [x[b] + gate[b] * residual.fn(normed[b] * (1 + scale[b]) + shift[b]) for b in range(2)]
    result = residual(x, Context(Position(), POS, POS, cond=cond))
    assert torch.allclose(result, torch.stack(expected), atol=1e-5)
    assert {name.split(".")[0] for name, _ in residual.named_parameters()} == {"fn", "modulate"}


def test_ada_norm_begins_as_the_identity():
    residual, x = AdaNorm(D, MLP(D)), torch.randn(2, 5, D)
    Init()(residual, depth=1)
    assert torch.equal(residual(x, Context(Position(), POS, POS, cond=torch.randn(2, D))), x)


@pytest.mark.parametrize("style", [PreNorm, PostNorm, Sandwich])
def test_dropout_and_drop_path(style):
    x = torch.randn(400, 5, D)
    residual = style(D, MLP(D), drop_path=0.25)
    with torch.no_grad():
        nothing = residual.norm(x) if style is PostNorm else x
        left_out = (residual(x, CTX) == nothing).flatten(1).all(1)  # a whole sample, or none of it
        assert 0.15 < left_out.float().mean() < 0.35
        full = residual.eval()(x, CTX)
        assert not (full == nothing).flatten(1).all(1).any()
    if style is PreNorm:  # kept branches are enlarged, so that the mean stays
        kept = residual.train()(x, CTX)
        kept, branch = kept - x, full - x
        some = kept.flatten(1).abs().sum(1) > 0
        assert torch.allclose(kept[some], branch[some] / 0.75, atol=1e-5)
    assert not torch.equal(style(D, MLP(D), dropout=0.5)(x, CTX), full)


def test_a_block_is_a_chain():
    block = Block(D, partial(Attention, heads=2), partial(Attention, heads=2, cross=True), MLP, residual=PreNorm)
    ctx = Context(Position(), POS, POS, memory=torch.randn(2, 3, D), plain=True)
    x = torch.randn(2, 5, D)
    expected = block.ffn(block.cross(block.mixer(x, ctx), ctx), ctx)
    assert torch.equal(block(x, ctx), expected)
    assert [name for name, _ in block.named_children()] == ["mixer", "cross", "ffn"]


def test_a_block_has_the_branches_that_are_given():
    assert [name for name, _ in Block(D, ffn=MLP).named_children()] == ["ffn"]
    assert isinstance(Block(D, ffn=MLP).ffn, PreNorm)


def test_parallel_parts_share_a_norm():
    """PaLM: x + attention(norm x) + mlp(norm x)."""
    block = Block(D, partial(Parallel, parts=[partial(Attention, heads=2), MLP]))
    x = torch.randn(2, 5, D)
    normed = block.mixer.norm(x)
    attention, mlp = block.mixer.fn.parts
    assert torch.allclose(block(x, CTX), x + attention(normed, CTX) + mlp(normed), atol=1e-6)
    assert sum(isinstance(part, LayerNorm) for part in block.modules()) == 1
