"""Are the installed packages the ones that we ask for?  Said before torch is imported, in one line."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

PACKAGE = "lightning-zoo"
CHECKOUT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def complaint() -> str | None:
    """What is wrong with the installed versions, None where nothing is or where nobody can tell."""
    return mismatch(requirements()) if importlib.util.find_spec("packaging") else None


def requirements() -> Iterable[str]:
    """What the package itself asks for: the one list there is, in the metadata or, in a checkout, pyproject.toml."""
    if CHECKOUT.is_file():
        try:
            import tomllib
        except ModuleNotFoundError:  # Python 3.10
            return []
        project = tomllib.loads(CHECKOUT.read_text(encoding="utf-8")).get("project", {})
        if project.get("name") == PACKAGE:
            return project["dependencies"]
    try:
        return metadata.requires(PACKAGE) or []
    except metadata.PackageNotFoundError:
        return []


def mismatch(wanted: Iterable[str]) -> str | None:
    """The packages among ``wanted`` ("torch>=2.10") that are missing or of another version, with what mends it."""
    from packaging.requirements import Requirement

    wrong = []
    for one in map(Requirement, wanted):
        if one.marker is not None and not one.marker.evaluate({"extra": ""}):
            continue
        try:
            found = metadata.version(one.name)
        except metadata.PackageNotFoundError:
            wrong.append((one, "is not installed"))
            continue
        if not one.specifier.contains(found, prereleases=True):
            wrong.append((one, f"{found} is installed"))
    if not wrong:
        return None
    told = ", ".join(f"{one.name}{one.specifier} is needed and {what}" for one, what in wrong)
    return f"{told}: pip install " + " ".join(f"'{one.name}{one.specifier}'" for one, _ in wrong)
