"""Heads: the formulas, and weights that are shared."""

import torch
import torch.nn.functional as F

from zoo.nn import LayerNorm, Project, Shifted, TransformHead


def test_project_is_a_linear_map_of_the_normed_state():
    head = Project(6, 4, None, norm=LayerNorm, scale=0.5)
    torch.nn.init.normal_(head.norm.weight)
    x = torch.randn(3, 6)
    normed = F.layer_norm(x, (6,)) * head.norm.weight
    assert torch.allclose(head(x), 0.5 * (normed @ head.out.weight.mT + head.out.bias), atol=1e-6)


def test_transform_has_a_layer_of_its_own():
    head = TransformHead(6, 4, None, act="relu")
    x = torch.randn(3, 6)
    inner = F.layer_norm(F.relu(x @ head.dense.weight.mT + head.dense.bias), (6,))
    assert torch.allclose(head(x), inner @ head.out.weight.mT + head.out.bias, atol=1e-6)


def test_shifted_keeps_its_bias_from_training():
    head = Shifted(6, 4, None)
    torch.nn.init.normal_(head.bias)
    x = torch.randn(3, 6)
    assert torch.allclose(head(x), x @ head.out.weight.mT + head.bias, atol=1e-6)
    assert [name for name, _ in head.named_parameters()] == ["out.weight"] and "bias" in head.state_dict()


def test_all_share_a_table():
    table = torch.nn.Parameter(torch.randn(4, 6))
    for kind in (Project, Shifted, TransformHead):
        head = kind(6, 4, table)
        assert head.out.weight is table
        assert sum(weight is table for weight in head.parameters()) == 1
