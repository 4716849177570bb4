"""Attention against torch's own, and its variants against their definitions."""

import pytest
import torch
from torch import nn

from zoo.nn import ALiBi, Attention, Causal, Context, Position, RMSNorm, Rotary, Window

B, T, D, H = 2, 6, 16, 4


def context(tokens: int = T, plain: bool = True, **fields) -> Context:
    return Context(Position(), torch.arange(tokens), torch.arange(tokens), plain=plain, **fields)


def reference(ours: Attention) -> nn.MultiheadAttention:
    """torch's attention with our weights."""
    theirs = nn.MultiheadAttention(D, H, batch_first=True)
    with torch.no_grad():
        for weight in ours.parameters():
            nn.init.normal_(weight, std=0.5)
        theirs.in_proj_weight.copy_(torch.cat([ours.q.weight, ours.k.weight, ours.v.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.q.bias, ours.k.bias, ours.v.bias]))
    theirs.out_proj.load_state_dict(ours.o.state_dict())
    return theirs


def test_self_attention():
    ours, x = Attention(D, H), torch.randn(B, T, D)
    expected = reference(ours)(x, x, x)[0]
    assert torch.allclose(ours(x, context()), expected, atol=1e-5)


@pytest.mark.parametrize("plain", [True, False])
def test_causal(plain):
    ours, x = Attention(D, H, mask=Causal()), torch.randn(B, T, D)
    later = torch.ones(T, T, dtype=torch.bool).triu(1)
    expected = reference(ours)(x, x, x, attn_mask=later)[0]
    assert torch.allclose(ours(x, context(plain=plain)), expected, atol=1e-5)


def test_padding():
    ours, x = Attention(D, H), torch.randn(B, T, D)
    padding = torch.tensor([[1] * T, [1] * 4 + [0] * 2]).bool()
    expected = reference(ours)(x, x, x, key_padding_mask=~padding)[0]
    result = ours(x, context(plain=False, padding=padding))
    assert torch.allclose(result[padding], expected[padding], atol=1e-5)
    assert result.isfinite().all()


def test_cross_attention_with_a_padded_memory():
    ours, x, memory = Attention(D, H, cross=True), torch.randn(B, T, D), torch.randn(B, 9, D)
    padding = torch.tensor([[1] * 9, [1] * 5 + [0] * 4]).bool()
    expected = reference(ours)(x, memory, memory, key_padding_mask=~padding)[0]
    assert torch.allclose(ours(x, context(memory=memory, memory_padding=padding)), expected, atol=1e-5)
    whole = reference(ours)(x, memory, memory)[0]
    assert torch.allclose(ours(x, context(memory=memory)), whole, atol=1e-5)


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_grouped_queries_are_repeated_keys(kv_heads):
    grouped, full = Attention(D, H, kv_heads=kv_heads), Attention(D, H)
    state = grouped.state_dict()
    for name in ("k.weight", "k.bias", "v.weight", "v.bias"):
        state[name] = state[name].unflatten(0, (kv_heads, D // H)).repeat_interleave(H // kv_heads, 0).flatten(0, 1)
    full.load_state_dict(state)
    x = torch.randn(B, T, D)
    assert torch.allclose(grouped(x, context()), full(x, context()), atol=1e-6)


def test_own_head_width_and_scale():
    ours, x = Attention(D, 3, head_dim=5, scale=0.7, bias=False), torch.randn(1, T, D)
    q, k, v = (part(x)[0].view(T, 3, 5) for part in (ours.q, ours.k, ours.v))
    heads = [((0.7 * q[:, h] @ k[:, h].T).softmax(-1) @ v[:, h]) for h in range(3)]
    assert torch.allclose(ours(x, context())[0], ours.o(torch.cat(heads, -1)), atol=1e-5)


@pytest.mark.parametrize(("bias", "letters"), [(True, "qkvo"), (False, ""), ("qvo", "qvo"), ("o", "o")])
def test_biases(bias, letters):
    ours = Attention(D, H, bias=bias)
    assert [x for x in "qkvo" if getattr(ours, x).bias is not None] == list(letters)


def test_queries_and_keys_normed_a_head():
    ours, x = Attention(D, H, qk_norm=RMSNorm), torch.randn(B, T, D)
    plain = Attention(D, H)
    plain.load_state_dict(ours.state_dict(), strict=False)
    assert ours.q_norm.weight.shape == (D // H,)
    assert not torch.allclose(ours(x, context()), plain(x, context()), atol=1e-3)
    doubled = Attention(D, H, qk_norm=RMSNorm)
    doubled.load_state_dict(ours.state_dict())
    with torch.no_grad():
        for part in (doubled.q, doubled.k):  # a norm does not see lengths
            part.weight.mul_(2)
            part.bias.mul_(2)
    assert torch.allclose(ours(x, context()), doubled(x, context()), atol=1e-4)


def test_its_own_position_in_place_of_the_backbone_s():
    own, given = Attention(D, H, position=ALiBi), Attention(D, H)
    given.load_state_dict(own.state_dict())
    x, pos = torch.randn(B, T, D), torch.arange(T)
    assert torch.allclose(own(x, Context(Rotary(), pos, pos)), given(x, Context(ALiBi(), pos, pos)), atol=1e-6)


def test_dropout_acts_on_the_weights_in_training_only():
    ours, x = Attention(D, H, dropout=0.5), torch.randn(B, T, D)
    assert not torch.equal(ours(x, context()), ours(x, context()))
    ours.eval()
    assert torch.equal(ours(x, context()), ours(x, context()))


def test_a_bias_and_a_mask_together():
    ours, x, pos = Attention(D, H, mask=Causal() & Window(3)), torch.randn(B, T, D), torch.arange(T)
    ctx = Context(ALiBi(), pos, pos, plain=True)
    slopes = torch.tensor([1 / 4, 1 / 16, 1 / 64, 1 / 256])
    distance = pos[:, None] - pos[None, :]
    bias = torch.where((distance >= 0) & (distance < 3), -slopes[:, None, None] * distance, -torch.inf)
    expected = reference(ours)(x, x, x, attn_mask=bias.repeat(B, 1, 1))[0]
    assert torch.allclose(ours(x, ctx), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"heads": 3}, "heads=3 does not divide dim=16"),
        ({"heads": 4, "kv_heads": 3}, "kv_heads=3 does not divide heads=4"),
        ({"heads": 4, "bias": "qx"}, "bias='qx' names projections other than"),
    ],
)
def test_errors(arguments, words):
    with pytest.raises(ValueError, match=words):
        Attention(D, **arguments)
