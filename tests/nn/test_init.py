"""How weights begin: statistics of every kind of weight."""

import math
from functools import partial

import pytest
import torch
from torch import nn

from zoo.nn import GLU, MLP, AdaNorm, Attention, Backbone, Block, Buckets, Init, LayerNorm, Learned, Learned2d, RMSNorm

D, DEPTH = 256, 8


def model(**arguments) -> Backbone:
    block = partial(Block, mixer=partial(Attention, heads=4), ffn=arguments.pop("ffn", MLP))
    return Backbone(D, DEPTH, block, last_norm=LayerNorm, **arguments)


def close(weight: torch.Tensor, std: float) -> bool:
    return abs(weight.std().item() / std - 1) < 0.05 and abs(weight.mean().item()) < std / 10


@pytest.mark.parametrize("std", [0.02, 0.05, None])
def test_linear_maps(std):
    block = model(init=Init(std)).blocks[3]
    shrunk = 1 / math.sqrt(2 * DEPTH)
    if std is None:  # truncated at 2, which cuts nothing here
        assert close(block.mixer.fn.q.weight, D**-0.5) and close(block.ffn.fn.down.weight, (4 * D) ** -0.5 * shrunk)
    else:
        assert all(close(part.weight, std) for part in (block.mixer.fn.q, block.mixer.fn.v, block.ffn.fn.up))
        assert close(block.mixer.fn.o.weight, std * shrunk) and close(block.ffn.fn.down.weight, std * shrunk)


def test_blocks_that_begin_as_the_identity():
    backbone = model(init=Init(None, last=0))
    x = torch.randn(2, 5, D)
    assert torch.equal(backbone(x), backbone.last_norm(x))
    assert close(backbone.blocks[3].mixer.fn.q.weight, D**-0.5)
    assert close(model(init=Init(last=0.5)).blocks[3].ffn.fn.down.weight, 0.01)


def test_gated_ffn():
    ffn = model(ffn=GLU).blocks[0].ffn.fn
    assert close(ffn.gate.weight, 0.02) and close(ffn.down.weight, 0.02 / math.sqrt(2 * DEPTH))


def test_biases_and_norms():
    for name, weight in model().named_parameters():
        if name.endswith("bias"):
            assert not weight.any(), name
        elif "norm" in name:
            assert (weight == 1).all(), name


@pytest.mark.parametrize(
    "position", [partial(Learned, length=200), partial(Learned2d, height=10, width=20), partial(Buckets, heads=200)]
)
def test_position_tables(position):
    assert close(model(position=position).position.weight, 0.02)


def test_embeddings_and_a_module_that_is_no_backbone():
    module = nn.Sequential(nn.Embedding(100, D), MLP(D), RMSNorm(D))
    Init(0.1)(module)
    assert close(module[0].weight, 0.1) and close(module[1].down.weight, 0.1)


def test_adaptive_gates_begin_at_zero():
    backbone = Backbone(16, 2, partial(Block, ffn=MLP, residual=AdaNorm))
    assert not any(block.ffn.modulate.weight.any() for block in backbone.blocks)
    assert backbone.blocks[0].ffn.fn.up.weight.any()


def test_the_stream_does_not_grow_with_depth():
    spread = []
    for depth in (2, 32):
        torch.manual_seed(0)
        backbone = Backbone(64, depth, partial(Block, mixer=partial(Attention, heads=4), ffn=MLP), init=Init(None))
        x = torch.randn(4, 16, 64)
        spread.append((backbone(x) - x).std().item())
    assert 0.5 < spread[1] / spread[0] < 2


def test_seeded():
    def weights() -> torch.Tensor:
        torch.manual_seed(3)
        return model().blocks[7].mixer.fn.k.weight

    assert torch.equal(weights(), weights())


def test_meta():
    with torch.device("meta"):
        assert all(p.is_meta for p in model(position=partial(Learned, length=9)).parameters())
