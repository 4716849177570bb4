"""Norms against torch's."""

import pytest
import torch
from torch import nn

from zoo.nn import LayerNorm, NoNorm, RMSNorm


def randomised(module):
    for weight in module.parameters():
        nn.init.normal_(weight)
    return module


@pytest.mark.parametrize("eps", [1e-5, 1e-1])
def test_layer_norm(eps):
    x, ours = torch.randn(2, 3, 8), randomised(LayerNorm(8, eps=eps))
    theirs = nn.LayerNorm(8, eps=eps)
    theirs.load_state_dict(ours.state_dict())
    assert torch.equal(ours(x), theirs(x))


def test_layer_norm_without_weights():
    x = torch.randn(2, 3, 8)
    assert not list(LayerNorm(8, affine=False).parameters())
    assert torch.equal(LayerNorm(8, affine=False)(x), nn.LayerNorm(8, elementwise_affine=False)(x))
    assert [name for name, _ in LayerNorm(8, bias=False).named_parameters()] == ["weight"]


@pytest.mark.parametrize("eps", [1e-6, 1e-1])
def test_rms_norm(eps):
    x, ours = torch.randn(2, 3, 8), randomised(RMSNorm(8, eps=eps))
    theirs = nn.RMSNorm(8, eps=eps)
    theirs.load_state_dict(ours.state_dict())
    assert torch.allclose(ours(x), theirs(x), atol=1e-6)


def test_rms_norm_computes_in_float32():
    x = torch.full((1, 8), 300.0, dtype=torch.float16)  # 300^2 is infinite in float16
    assert torch.allclose(RMSNorm(8)(x).float(), torch.ones(1, 8), atol=1e-3)


def test_no_norm():
    x = torch.randn(2, 8)
    assert NoNorm(8)(x) is x
