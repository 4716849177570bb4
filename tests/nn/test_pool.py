"""Pools against their definitions, padded on either side."""

import torch

from zoo.nn import ClassToken, First, Last, Mean

X = torch.randn(3, 4, 8)
PADDING = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [0, 1, 1, 0]]).bool()


def test_mean():
    assert torch.allclose(Mean(8)(X, None), X.mean(1))
    expected = torch.stack([X[b][PADDING[b]].mean(0) for b in range(3)])
    assert torch.allclose(Mean(8)(X, PADDING), expected, atol=1e-6)
    assert Mean(8)(X, torch.zeros(3, 4, dtype=torch.bool)).isfinite().all()


def test_first():
    assert torch.equal(First()(X, PADDING), X[:, 0])


def test_last():
    assert torch.equal(Last()(X, None), X[:, 3])
    assert torch.equal(Last()(X, PADDING), torch.stack((X[0, 3], X[1, 1], X[2, 2])))


def test_class_token():
    pool = ClassToken(8, count=2)
    torch.nn.init.normal_(pool.weight)
    x, padding = pool.extend(X, PADDING)
    assert x.shape == (3, 6, 8) and torch.equal(x[1, :2], pool.weight) and torch.equal(x[:, 2:], X)
    assert padding[:, :2].all() and torch.equal(padding[:, 2:], PADDING)
    assert torch.allclose(pool(x, padding)[2], pool.weight.mean(0))
    assert ClassToken(8).extend(X, None)[1] is None


def test_others_leave_the_sequence_alone():
    assert Mean(8).extend(X, PADDING) == (X, PADDING)
