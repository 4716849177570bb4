"""Disentangled attention and the convolution beside a block, against their definitions written as loops."""

import math

import pytest
import torch

from zoo.nn import Attention, Backbone, Block, Context, Convolved, Disentangled, LayerNorm, PositionProjections
from zoo.nn.disentangled import log_buckets

DIM, HEADS = 12, 3


def random(module: torch.nn.Module) -> torch.nn.Module:
    torch.manual_seed(0)
    for weight in module.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return module


def attention(**settings) -> Attention:
    return random(Attention(DIM, HEADS, scale=(3 * DIM / HEADS) ** -0.5, **settings))


def expected(
    layer: Attention, q: torch.Tensor, k: torch.Tensor, query, key, vectors: torch.Tensor, row
) -> torch.Tensor:
    """One score at a time; ``row(i - j)`` is the row of a distance."""
    head_dim = DIM // HEADS
    scores = torch.zeros(*q.shape[:3], k.size(2))
    for b, h, i, j in torch.cartesian_prod(*map(torch.arange, scores.shape)).tolist():
        vector, part = vectors[row(i - j)], slice(h * head_dim, (h + 1) * head_dim)
        if key is not None:
            scores[b, h, i, j] += q[b, h, i] @ key(vector)[part]
        if query is not None:
            scores[b, h, i, j] += query(vector)[part] @ k[b, h, j]
    return scores * layer.scale


def inputs(length: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(2, HEADS, length, DIM // HEADS), torch.randn(2, HEADS, length, DIM // HEADS)


def context(position: Disentangled, length: int = 7) -> Context:
    return Context(position, torch.arange(length), torch.arange(length))


def test_a_layer_projects_distances_as_it_does_content():
    position, layer = random(Disentangled(DIM, furthest=4, norm=LayerNorm)), attention()
    q, k = inputs()
    vectors = position.norm(position.table.weight)
    wanted = expected(layer, q, k, layer.q, layer.k, vectors, lambda r: min(max(r + 4, 0), 7))
    assert torch.allclose(position.bias(q, k, layer, context(position)), wanted, atol=1e-5)


@pytest.mark.parametrize("terms", [["c2p", "p2c"], ["c2p"], ["p2c"]])
def test_a_layer_has_projections_of_its_own(terms):
    position, layer = (
        random(Disentangled(DIM, furthest=16)),
        attention(position=lambda d: PositionProjections(d, terms)),
    )
    own = layer.position
    q, k = inputs()
    wanted = expected(layer, q, k, own.q, own.k, position.table.weight, lambda r: r + 16)
    assert torch.allclose(own.bias(q, k, layer, context(position)), wanted, atol=1e-5)


def test_buckets_are_exact_when_near_and_logarithmic_when_far():
    apart = torch.arange(-600, 601)
    found = log_buckets(apart, 256, 512)
    for r, bucket in zip(apart.tolist(), found.tolist()):
        far = math.ceil(math.log(max(abs(r), 128) / 128) / math.log(511 / 128) * 127 - 1e-4) + 128
        assert bucket == (r if abs(r) <= 128 else math.copysign(far, r)), r
    assert found[apart == 511].item() == 255 and found[apart == -511].item() == -255
    assert (found.diff() >= 0).all()


def test_positions_that_differ_in_a_batch():
    position, layer = random(Disentangled(DIM, furthest=9, buckets=6)), attention()
    q, k = inputs()
    both = torch.stack((torch.arange(7), 2 * torch.arange(7)))
    bias = position.bias(q, k, layer, Context(position, both, both))
    for sample, positions in enumerate(both):
        alone = position.bias(q, k, layer, Context(position, positions, positions))
        assert torch.allclose(bias[sample], alone[sample], atol=1e-6)


@pytest.mark.parametrize("buckets", [1, 62, 63, 400])
def test_too_many_buckets(buckets):
    with pytest.raises(ValueError, match=f"buckets={buckets}"):
        Disentangled(8, furthest=32, buckets=buckets)


@pytest.mark.parametrize("terms", [[], ["c2p", "p2p"]])
def test_other_terms(terms):
    with pytest.raises(ValueError, match="terms"):
        PositionProjections(8, terms)


def test_a_convolution_beside_the_first_block():
    block = lambda dim: Block(dim, mixer=lambda d: Attention(d, HEADS))
    backbone = random(Backbone(DIM, 2, [lambda dim: Convolved(dim, block, kernel=5), block])).eval()
    first, x = backbone.blocks[0], torch.randn(2, 6, DIM)
    padding = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    ctx = Context(backbone.position, torch.arange(6), torch.arange(6), padding, q_padding=padding)
    near = torch.zeros(2, 6, DIM)
    for b in range(2):
        for t in range(6):
            near[b, t] = first.conv.bias
            for step in range(-2, 3):
                if 0 <= t + step < 6 and padding[b, t + step]:
                    near[b, t] += first.conv.weight[:, :, step + 2] @ x[b, t + step]
    wanted = first.norm(first.block(x, ctx) + near.tanh())
    assert torch.allclose(first(x, ctx)[padding], wanted[padding], atol=1e-5)
    short = backbone(x[1:, :4])
    assert torch.allclose(backbone(x, padding=padding)[1:, :4], short, atol=1e-5)  # padding changes nothing


def test_an_even_kernel_has_no_middle():
    with pytest.raises(ValueError, match="kernel=4"):
        Convolved(8, lambda dim: Block(dim), kernel=4)
