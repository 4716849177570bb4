"""Sinusoid tables against naive loops."""

import math

import pytest
import torch

from zoo.nn import Sinusoidal, Sinusoidal2d, sinusoid, sinusoid_2d

D = 12


def naive(t: int, i: int, layout: str, spacing: str, base: float = 10_000.0, dim: int = D) -> float:
    """Channel i at position t."""
    half = dim // 2
    pair = i // 2 if layout == "interleaved" else i % half
    second = i % 2 == 1 if layout == "interleaved" else i >= half
    angle = t / base ** (pair / (half if spacing == "half" else half - 1))
    return math.cos(angle) if second != (layout == "cos_sin") else math.sin(angle)


@pytest.mark.parametrize("spacing", ["half", "last"])
@pytest.mark.parametrize("layout", ["interleaved", "sin_cos", "cos_sin"])
def test_layouts(layout, spacing):
    table = sinusoid(torch.arange(9), D, layout, spacing)
    expected = torch.tensor([[naive(t, i, layout, spacing) for i in range(D)] for t in range(9)])
    assert torch.allclose(table, expected, atol=1e-5)


def test_the_paper_s_formula():
    table = sinusoid(torch.arange(9), D)
    for t, i in [(1, 0), (4, 2), (8, 5)]:
        assert math.isclose(table[t, 2 * i], math.sin(t / 10_000 ** (2 * i / D)), abs_tol=1e-5)
        assert math.isclose(table[t, 2 * i + 1], math.cos(t / 10_000 ** (2 * i / D)), abs_tol=1e-5)


def test_two_dimensions():
    table = sinusoid_2d(D * 2, 3, 4)
    for row, column in [(0, 0), (1, 2), (2, 3)]:
        cell = table[row * 4 + column]
        for half, place in ((cell[:D], column), (cell[D:], row)):
            expected = torch.tensor([naive(place, i, "sin_cos", "half") for i in range(D)])
            assert torch.allclose(half, expected, atol=1e-5)


def test_added_to_the_input():
    x, pos = torch.randn(2, 5, D), torch.tensor([[0, 0, 1, 2, 3], [4, 5, 6, 7, 8]])
    position = Sinusoidal(D, "sin_cos", "last", base=100.0)
    assert torch.allclose(position.embed(x, pos), x + sinusoid(pos, D, "sin_cos", "last", 100.0))
    assert torch.allclose(Sinusoidal(D, multiply=3.0).embed(x, pos), 3 * x + sinusoid(pos, D))
    assert not list(position.parameters()) and not position.state_dict()


def test_two_dimensions_after_a_class_token():
    x = torch.zeros(2, 7, 8)
    y = Sinusoidal2d(8, 2, 3, prefix=1).embed(x, torch.arange(7))
    assert torch.equal(y[0, 0], torch.zeros(8))
    assert torch.equal(y[1, 1:], sinusoid_2d(8, 2, 3))
    with pytest.raises(ValueError, match="8 tokens, the position table 7 rows"):
        Sinusoidal2d(8, 2, 3, prefix=1).check(8, whole=True)


def test_an_offset_counts_from_another_number():
    x, pos = torch.randn(2, 5, D), torch.arange(5)
    assert torch.equal(Sinusoidal(D, offset=2).embed(x, pos), Sinusoidal(D).embed(x, pos + 2))
