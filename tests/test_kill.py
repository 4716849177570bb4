"""The short form of ``python -m tests.long.kill``, and that its ways to look at a run would find what is wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from tests.long.kill import Found, examine
from tests.long.life import same_bits, unequal
from tests.long.readable import unreadable

ROWS = [{"step": str(step), "train/loss": str(1 / step)} for step in range(1, 6)]


@pytest.mark.skipif(sys.platform != "linux", reason="process groups and /proc")
def test_a_run_that_is_killed_three_times_ends_as_one_that_was_left_alone(tmp_path):
    assert examine("image", 3, seed=1, place=tmp_path) == 0


def test_rows_that_a_life_wrote_again_are_counted_and_compared():
    found = Found()
    again = [{**row, "seconds": "9"} for row in ROWS[2:]]
    found.compare(ROWS[:4], [*ROWS[:2], *again], ROWS)
    assert (found.written, found.replayed, found.unequal) == (3, 2, [])
    found.compare(ROWS[:2], [*ROWS[:2], {**ROWS[2], "train/loss": "0.33333333333333337"}], ROWS)
    assert len(found.unequal) == 1 and found.unequal[0].startswith("row 2: ")
    found.compare(ROWS, [*ROWS, ROWS[4]], ROWS)
    assert len(found.unequal) == 2  # a row too many


def test_one_bit_makes_tensors_unequal():
    one = {"a": torch.tensor([0.0, 1.0]), "b": torch.ones(2)}
    assert unequal(one, {name: value.clone() for name, value in one.items()}) == []
    assert unequal(one, {**one, "a": torch.tensor([-0.0, 1.0])}) == ["a"]
    assert unequal(one, {"a": one["a"]}) == ["b"]
    nothing = torch.tensor(float("nan"))
    assert same_bits(nothing, nothing.clone()) and not same_bits(torch.ones(2), torch.ones(2, 1))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("last.ckpt", b"PK\x03\x04"),
        ("metrics.csv", b"epoch,step\n0,1\n0"),
        ("summary.json", b'{"state": '),
        ("config.yaml", b"model: ["),
        ("curves.png", b"\x89PNG\r\n"),
    ],
)
def test_a_torn_file_is_found(name: str, content: bytes, tmp_path: Path):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / name).write_bytes(content)
    (tmp_path / ".last.ckpt.abc.partial").write_bytes(b"")
    (found,) = unreadable(tmp_path)
    assert name in found
