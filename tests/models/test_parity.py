"""Every family equals its reference: a file of theirs loads, the outputs agree, and our file loads there again."""

import copy

import pytest
import torch

import zoo
from tests.models.parity import Row, file_of, worst
from tests.models.rows import ROWS


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_parity(row: Row, tmp_path):
    theirs = row.build()
    theirs.save_pretrained(tmp_path / "theirs")
    ours = zoo.load(tmp_path / "theirs")
    with torch.no_grad():
        a, b = row.run(ours, theirs)
    assert worst(a, b) < 1e-4

    zoo.save(ours, tmp_path / "ours")
    written, published = file_of(tmp_path / "ours"), file_of(tmp_path / "theirs")
    assert set(written) == set(published) - set(row.dropped)
    for name, value in written.items():
        if name in row.unused:
            continue
        close = torch.allclose(value, published[name], atol=1e-6) if name in row.constant else None
        assert torch.equal(value, published[name]) if close is None else close, name
    again, told = type(theirs).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not told["missing_keys"] and not told["unexpected_keys"] and not told["mismatched_keys"]
    with torch.no_grad():
        assert torch.equal(row.run(ours, again.eval())[1], b)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_one_step_of_training_agrees(row: Row, tmp_path):
    """The same loss and one step of gradient descent leave equal files, so every gradient is equal."""
    theirs = row.build()
    theirs.save_pretrained(tmp_path / "before")
    ours = zoo.load(tmp_path / "before")
    before = file_of(tmp_path / "before")
    a, b = row.run(ours, theirs)
    pull = torch.randn(b.shape, generator=torch.Generator().manual_seed(1)) / b.detach().abs().max()
    for model, output in ((ours, a), (theirs, b)):
        (output * pull).sum().backward()
        torch.optim.SGD(model.parameters(), lr=1e-2).step()
    zoo.save(ours, tmp_path / "ours")
    theirs.save_pretrained(tmp_path / "theirs")
    mine, yours, moved = file_of(tmp_path / "ours"), file_of(tmp_path / "theirs"), 0
    for name, value in mine.items():
        if name in row.unused:
            continue
        step = (yours[name] - before[name]).abs().max()
        moved += bool(step > 0)
        assert (value - yours[name]).abs().max() <= 1e-3 * step + 1e-6, name
    assert moved > len(mine) / 2


def test_the_test_can_fail(tmp_path):
    row = ROWS[0]
    theirs = row.build()
    theirs.save_pretrained(tmp_path)
    ours = zoo.load(tmp_path)
    with torch.no_grad():
        next(copy.copy(ours).parameters())[5] += 0.1
        assert worst(*row.run(ours, theirs)) > 1e-4
