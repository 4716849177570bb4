"""Position schemes against their definitions."""

import math

import pytest
import torch
from timm.layers import resample_abs_pos_embed

from zoo.nn import (
    ALiBi,
    Buckets,
    Context,
    Learned,
    Learned2d,
    LinearScaling,
    Llama3Scaling,
    Position,
    Rotary,
    resize_grid,
)
from zoo.nn.position import alibi_slopes


def context(position: Position, q_pos, k_pos=None) -> Context:
    return Context(position, q_pos, q_pos if k_pos is None else k_pos)


def turned(position: Rotary, x: torch.Tensor, pos: torch.Tensor) -> torch.Tensor:
    return position.rotate(x, x, context(position, pos))[0]


def test_no_position_says_nothing():
    position, x = Position(8), torch.randn(1, 2, 3, 4)
    ctx = context(position, torch.arange(3))
    assert position.embed(x, ctx.q_pos) is x and position.rotate(x, x, ctx) == (x, x)
    assert position.bias(x, x, None, ctx) is None


# Rotary


@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotary_scores_depend_on_the_distance_only(layout, fraction):
    position = Rotary(layout=layout, fraction=fraction)
    q, k = torch.randn(1, 1, 1, 16), torch.randn(1, 1, 1, 16)

    def score(a: int, b: int) -> float:
        return (turned(position, q, torch.tensor([a])) * turned(position, k, torch.tensor([b]))).sum().item()

    assert math.isclose(score(3, 1), score(40, 38), abs_tol=1e-4)
    assert math.isclose(score(5, 5), (q * k).sum().item(), abs_tol=1e-4)
    assert abs(score(3, 1) - score(3, 2)) > 1e-3 and abs(score(3, 1) - score(1, 3)) > 1e-3


def test_rotary_is_a_complex_product():
    x, theta = torch.randn(2, 3, 5, 8), 100.0
    pos = torch.arange(5)
    frequency = torch.tensor([theta ** (-2 * i / 8) for i in range(4)])
    angle = torch.polar(torch.ones(5, 4), pos[:, None] * frequency)
    expected = torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (4, 2))) * angle).flatten(-2)
    assert torch.allclose(turned(Rotary(theta=theta, layout="interleaved"), x, pos), expected, atol=1e-5)


def test_rotary_layouts_are_permutations_of_each_other():
    x, pos = torch.randn(2, 3, 5, 8), torch.arange(5)
    order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])  # interleaved channels, pair by pair -> halves
    half = turned(Rotary(layout="half"), x[..., order], pos)
    assert torch.allclose(half, turned(Rotary(layout="interleaved"), x, pos)[..., order], atol=1e-6)


def test_rotary_fraction_passes_the_rest_through():
    x, pos = torch.randn(2, 3, 5, 16), torch.arange(5)
    y = turned(Rotary(fraction=0.25), x, pos)
    assert torch.equal(y[..., 4:], x[..., 4:])
    assert torch.allclose(y[..., :4], turned(Rotary(), x[..., :4], pos))


def test_rotary_a_sample_s_own_positions():
    x, pos = torch.randn(2, 3, 4, 8), torch.tensor([[0, 1, 2, 3], [0, 0, 5, 9]])
    y = turned(Rotary(), x, pos)
    for b in range(2):
        assert torch.allclose(y[b : b + 1], turned(Rotary(), x[b : b + 1], pos[b]), atol=1e-6)


def test_rotary_keeps_the_type():
    assert turned(Rotary(), torch.randn(1, 1, 3, 8).bfloat16(), torch.arange(3)).dtype == torch.bfloat16


def test_linear_scaling_stretches_positions():
    x = torch.randn(1, 1, 3, 8)
    stretched = turned(Rotary(scaling=LinearScaling(4.0)), x, torch.tensor([4, 8, 12]))
    assert torch.allclose(stretched, turned(Rotary(), x, torch.tensor([1, 2, 3])), atol=1e-5)


def test_llama3_scaling_by_wave_length():
    factor, low, high, length = 8.0, 1.0, 4.0, 64
    frequency = torch.tensor([500_000 ** (-i / 16) for i in range(16)])
    expected = []
    for f in frequency.tolist():
        wave = 2 * math.pi / f
        if wave < length / high:
            expected.append(f)
        elif wave > length / low:
            expected.append(f / factor)
        else:
            smooth = (length / wave - low) / (high - low)
            expected.append((1 - smooth) * f / factor + smooth * f)
    result = Llama3Scaling(factor, low, high, length)(frequency)
    assert torch.allclose(result, torch.tensor(expected), rtol=1e-5)
    kinds = {round(a / b, 3) for a, b in zip(frequency.tolist(), result.tolist())}
    assert {1.0, 8.0} < kinds  # all three branches were met


# ALiBi


def test_alibi_slopes():
    assert torch.allclose(alibi_slopes(8), torch.tensor([2.0**-i for i in range(1, 9)]))
    sixteen = [2 ** (-i / 2) for i in range(1, 17)]
    assert torch.allclose(alibi_slopes(12), torch.tensor([2.0**-i for i in range(1, 9)] + sixteen[0:8:2]))
    assert torch.allclose(alibi_slopes(16), torch.tensor(sixteen))
    assert alibi_slopes(1).tolist() == [2.0**-8]


def test_alibi_bias():
    position, q = ALiBi(), torch.zeros(2, 4, 3, 8)
    bias = position.bias(q, torch.zeros(2, 4, 5, 8), None, context(position, torch.arange(2, 5), torch.arange(5)))
    slopes = alibi_slopes(4)
    for h, t, s in [(0, 0, 0), (1, 2, 1), (3, 0, 4)]:
        assert math.isclose(bias[h, t, s], -slopes[h] * abs(2 + t - s))
    each = position.bias(q, q, None, context(position, torch.tensor([[0, 1, 2], [0, 0, 1]])))
    assert each.shape == (2, 4, 3, 3) and math.isclose(each[1, 0, 2, 0], -slopes[0])


# T5's buckets


def naive_bucket(distance: int, causal: bool, buckets: int, furthest: int) -> int:
    """Key minus query -> bucket, after the paper's code."""
    result = 0
    if not causal:
        buckets //= 2
        if distance > 0:
            result += buckets
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = buckets // 2
    if distance < exact:
        return result + distance
    wide = exact + int(math.log(distance / exact) / math.log(furthest / exact) * (buckets - exact) + 1e-6)
    return result + min(wide, buckets - 1)


@pytest.mark.parametrize(("buckets", "furthest"), [(32, 128), (8, 20)])
@pytest.mark.parametrize("causal", [True, False])
def test_buckets(causal, buckets, furthest):
    position = Buckets(8, heads=2, buckets=buckets, furthest=furthest, causal=causal)
    with torch.no_grad():
        position.weight.copy_(torch.stack((torch.arange(buckets), -torch.arange(buckets)), 1))
    keys = torch.arange(300)
    bias = position.bias(None, keys[None, None, :, None], None, context(position, torch.tensor([150]), keys))
    expected = torch.tensor([naive_bucket(s - 150, causal, buckets, furthest) for s in range(300)]).float()
    assert torch.equal(bias[0, 0], expected) and torch.equal(bias[1, 0], -expected)
    assert set(expected.tolist()) == set(range(buckets)) if causal else len(set(expected.tolist())) >= buckets - 1


def test_buckets_are_gathered_once_for_all_layers():
    position, k = Buckets(8, heads=2), torch.zeros(1, 2, 5, 4)
    ctx = context(position, torch.arange(5))
    assert position.bias(k, k, None, ctx) is position.bias(k, k, None, ctx)


# Tables


def test_learned():
    position, x = Learned(4, 6, offset=2), torch.randn(2, 3, 4)
    torch.nn.init.normal_(position.weight)
    assert position.weight.shape == (8, 4)
    assert torch.equal(position.embed(x, torch.arange(3)), x + position.weight[2:5])
    pos = torch.tensor([[0, 0, 1], [3, 4, 5]])
    assert torch.equal(position.embed(x, pos)[1], x[1] + position.weight[5:8])
    with pytest.raises(ValueError, match="7 tokens, the position table 6 rows"):
        position.check(7, whole=True)


def test_learned_2d():
    position, x = Learned2d(4, 2, 3, prefix=1), torch.randn(2, 7, 4)
    torch.nn.init.normal_(position.weight)
    assert torch.equal(position.embed(x, torch.arange(7)), x + position.weight)
    with pytest.raises(ValueError, match="6 tokens, the position table 7 rows .2 x 3 grid and 1 class tokens"):
        position.check(6, whole=True)


def test_resize_grid():
    weight = torch.randn(1 + 12, 8)
    assert torch.allclose(resize_grid(weight, (3, 4), (3, 4), 1), weight, atol=1e-6)
    for new in [(6, 8), (2, 2), (5, 3)]:
        expected = resample_abs_pos_embed(weight[None], new, (3, 4), num_prefix_tokens=1)[0]
        assert torch.allclose(resize_grid(weight, (3, 4), new, 1), expected, atol=1e-6)
    ramp = torch.arange(4.0).repeat(3)[:, None]  # the column's number: rows and columns are not mixed up
    wide = resize_grid(ramp, (3, 4), (6, 4)).view(6, 4)
    assert torch.allclose(wide, torch.arange(4.0).expand(6, 4), atol=1e-5)
