"""Feed-forward networks against their formulas."""

import pytest
import torch
import torch.nn.functional as F

from zoo.nn import GLU, MLP

FORMULAS = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "quick_gelu": lambda x: x / (1 + torch.exp(-1.702 * x)),
    "relu": lambda x: x.clamp(min=0),
    "relu2": lambda x: x.clamp(min=0) ** 2,
    "silu": lambda x: x / (1 + torch.exp(-x)),
    "tanh": torch.tanh,
    "sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
}


@pytest.mark.parametrize("act", FORMULAS)
def test_formulas(act):
    x = torch.randn(2, 3, 8)
    mlp, glu = MLP(8, 12, act), GLU(8, 12, act, bias=True)
    expected = F.linear(FORMULAS[act](F.linear(x, mlp.up.weight, mlp.up.bias)), mlp.down.weight, mlp.down.bias)
    assert torch.allclose(mlp(x), expected, atol=1e-5)
    assert torch.allclose(glu(x), glu.down(FORMULAS[act](glu.gate(x)) * glu.up(x)), atol=1e-5)


def test_default_sizes_are_alike():
    mlp, glu = (sum(p.numel() for p in part.parameters()) for part in (MLP(768, bias=False), GLU(768)))
    assert GLU(768).up.out_features == 2048
    assert mlp == glu
    assert GLU(100).up.out_features == 272  # 266.67, up to a multiple of 8


def test_dropout_and_bias():
    mlp, x = MLP(8, dropout=0.5, bias=False), torch.randn(4, 8)
    assert mlp.up.bias is None and mlp.down.bias is None
    assert not torch.equal(mlp(x), mlp(x))


def test_unknown_activation():
    with pytest.raises(ValueError, match="act='gulu' is none of gelu, "):
        MLP(8, act="gulu")
