"""The short form of ``python -m tests.long.bits``: bits of an exported model; test_read.py flips a checkpoint's."""

from functools import partial

from tests.long.bits import accepted, export
from zoo.files import read_weights


def test_every_flipped_bit_of_an_export_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("zoo.files.SHARD", "5GB")  # put back afterwards
    assert not accepted(export(tmp_path), partial(read_weights, tmp_path), count=60)
