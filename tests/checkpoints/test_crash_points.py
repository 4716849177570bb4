"""The short form of ``python -m tests.long.crash_points``: a few of the system calls of each save."""

import pytest

from tests.long.crash_points import FAULTS, SAVES, available, every

CALLS = 4


@pytest.mark.skipif(not available(), reason="needs strace, and that it may trace")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("save", SAVES, ids=lambda save: save.name.replace(" ", "-"))
def test_a_save_that_is_stopped_or_fails(save, fault, tmp_path, monkeypatch):
    monkeypatch.setattr("zoo.files.SHARD", "5GB")  # put back afterwards
    wrong = {call: why for call, why in every(save, tmp_path, fault, CALLS) if why}
    assert not wrong
