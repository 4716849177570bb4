"""What is said about installed packages of the wrong version, and that our bounds close the holes that are known."""

from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from zoo.cli import versions

HOLES = {  # package -> versions that must never be accepted
    "lightning": ("2.6.2", "2.6.3", "2.6.5", "2.7.0"),
    "torch": ("2.9.1",),
    "pillow": ("12.1.1",),
    "jsonargparse": ("4.51.0",),
}


def test_what_is_installed_here_fits():
    assert versions.complaint() is None


def test_a_wrong_version_is_told_with_what_mends_it():
    found = metadata.version("torch")
    told = versions.mismatch(["torch>=99", "numpy>=1", "nonesuch", "other; extra == 'data'"])
    assert told == (
        f"torch>=99 is needed and {found} is installed, nonesuch is needed and is not installed: "
        "pip install 'torch>=99' 'nonesuch'"
    )


def test_it_is_one_line_before_torch_is_imported(command, monkeypatch):
    monkeypatch.setattr(versions, "requirements", lambda: ["torch>=99"])
    answer = command("fit", "--config", "digits")
    assert answer.code == 1 and answer.err.startswith("zoo: error: torch>=99 is needed") and answer.err.count("\n") == 1
    assert command("list", "configs").code == 0


@pytest.mark.skipif(not versions.CHECKOUT.is_file(), reason="not a checkout")
def test_the_bounds_keep_out_versions_with_known_holes():
    wanted = {one.name: one for one in map(Requirement, versions.requirements())}
    for name, holes in HOLES.items():
        assert not [version for version in holes if wanted[name].specifier.contains(version)], name
    text = Path(versions.CHECKOUT).read_text(encoding="utf8")
    assert (
        "5.2"
        not in next(Requirement(line.split('"')[1]) for line in text.splitlines() if "transformers>=" in line).specifier
    )
