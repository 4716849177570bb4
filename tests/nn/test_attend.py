"""The kernels of attention against each other, and where each is used."""

import pytest
import torch
from torch import Tensor

from zoo.nn import attend
from zoo.nn.attend import LONGEST, write_out, written_out

B, H, T, S, d = 2, 4, 7, 9, 16


def inputs(kv_heads: int = H, queries: int = T, dtype=torch.float32) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(B, queries, H, d), (B, S, kv_heads, d), (B, S, kv_heads, d)]
    made = [torch.randn(shape, generator=generator).to(dtype).transpose(1, 2) for shape in shapes]
    return [x.requires_grad_() for x in made]


def some(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(1)) < 0.5


CASES = {
    "full": {},
    "masked": {"allowed": some(T, S)},
    "a mask a sample": {"allowed": some(B, 1, T, S)},
    "padded keys": {"allowed": some(B, 1, 1, S)},
    "a query without a key": {"allowed": some(T, S) & (torch.arange(T) != 2)[:, None]},
    "scaled": {"scale": 0.3},
    "biased": {"bias": torch.randn(H, T, S, generator=torch.Generator().manual_seed(2))},
    "biased and masked": {"bias": torch.randn(B, H, T, S), "allowed": some(B, 1, T, S), "scale": 1.0},
}


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("name", CASES)
def test_both_give_the_same(name, kv_heads):
    """Outputs and gradients, also of the bias, and zero for a query that sees no key."""
    asked = {"allowed": None, "bias": None, "causal": False, "scale": None, "dropout": 0.0} | CASES[name]
    given = inputs(kv_heads)
    if asked["bias"] is not None:
        given.append(asked["bias"].clone().requires_grad_())
        asked["bias"] = given[-1]
    weight, found = torch.randn(B, H, T, d, generator=torch.Generator().manual_seed(3)), []
    for kernel in (attend, written_out):
        y = kernel(*given[:3], **asked)
        found.append([y, *torch.autograd.grad((y * weight).sum(), given)])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    if asked["allowed"] is not None:
        blind = ~asked["allowed"].any(-1, keepdim=True).expand(B, H, T, 1)
        assert not found[1][0].masked_select(blind).any()


def test_the_triangle():
    q, k, v = inputs()
    k, v = k[:, :, :T], v[:, :, :T]
    expected = attend(q, k, v, allowed=torch.ones(T, T, dtype=torch.bool).tril())
    assert torch.allclose(written_out(q, k, v, None, None, True, None, 0.0), expected, atol=1e-6)


def test_dropout_leaves_the_mean():
    q, k, v = inputs()
    torch.manual_seed(0)
    mean = torch.stack([written_out(q, k, v, None, None, False, None, 0.5) for _ in range(2000)]).mean(0)
    assert torch.allclose(mean, attend(q, k, v), atol=0.15)


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("name", CASES)
def test_bf16_is_as_near_to_float32(name, kv_heads):
    """On a CPU this is what is written out, also where autocast is what makes it bf16."""
    exact = attend(*inputs(kv_heads), **CASES[name])
    rounded = attend(*inputs(kv_heads, dtype=torch.bfloat16), **CASES[name])
    with torch.autocast("cpu", torch.bfloat16):
        cast = attend(*inputs(kv_heads), **CASES[name])
    for y in (rounded, cast):
        assert y.dtype == torch.bfloat16 and (y.float() - exact).norm() < 0.02 * exact.norm()


@pytest.mark.parametrize(
    ("queries", "keys", "dtype", "expected"),
    [
        (T, LONGEST, torch.bfloat16, True),
        (T, LONGEST + 1, torch.bfloat16, False),
        (1, 4 * LONGEST, torch.bfloat16, True),
        (T, 64, torch.float32, False),
        (T, 64, torch.float16, False),
    ],
)
def test_which_is_used(queries, keys, dtype, expected):
    q, k = torch.empty(1, 1, queries, 1, dtype=dtype), torch.empty(1, 1, keys, 1, dtype=dtype)
    assert write_out(q, k) is expected
    assert not write_out(q.to("meta"), k.to("meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert write_out(q.float(), k.float()) is (keys <= LONGEST or queries == 1)
