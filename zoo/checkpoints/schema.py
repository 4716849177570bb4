"""The versions of what is in a checkpoint: a stamp that says which, and how an older one becomes today's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import lightning
from packaging.version import InvalidVersion, Version

import zoo

KEY = "zoo"  # of the stamp, in the checkpoint's dictionary
LIGHTNING = "pytorch-lightning_version"
SCHEMA = 2  # what is written today

Checkpoint = dict[str, Any]


def stamped(checkpoint: Mapping[str, Any]) -> Checkpoint:
    """The same with the stamp of today; its values are shared."""
    return {**checkpoint, KEY: {"schema": SCHEMA, "version": zoo.__version__}}


def schema_of(checkpoint: Mapping[str, Any]) -> int:
    """Which schema a checkpoint has: 1 without a stamp, for the stamp is what 2 added.

    Raises ValueError for a newer one, saying both versions, and for a stamp that is none.
    """
    stamp = checkpoint.get(KEY, {"schema": 1, "version": "0.1.0"})
    schema = stamp.get("schema") if isinstance(stamp, dict) else None
    if type(schema) is not int or schema < 1:
        raise ValueError(f"has {str(stamp)[:80]!r} where its schema should stand; it is damaged")
    if schema > SCHEMA:
        raise ValueError(
            f"has schema {schema}, written by zoo {str(stamp.get('version'))[:20]}, and zoo {zoo.__version__} reads "
            f"schemas up to {SCHEMA}; update zoo"
        )
    return schema


def require_lightning(checkpoint: Mapping[str, Any]) -> None:
    """Raise ValueError where Lightning's own version is missing, none, or newer than the one that is installed."""
    written = checkpoint.get(LIGHTNING)
    try:
        version = Version(written) if isinstance(written, str) else None
    except InvalidVersion:
        version = None
    if version is None:
        raise ValueError(f"is no checkpoint of Lightning: its {LIGHTNING!r} is {str(written)[:40]!r}")
    here = Version(lightning.__version__)
    if version.release[:2] > here.release[:2]:
        raise ValueError(f"was written by Lightning {version}, and {here} is installed; update Lightning")


def migrate(checkpoint: Checkpoint) -> Checkpoint:
    """An older checkpoint as today's, step by step, in place.  Raises ValueError as ``schema_of``."""
    for schema in range(schema_of(checkpoint), SCHEMA):
        MIGRATIONS[schema](checkpoint)
        checkpoint[KEY] = {**checkpoint.get(KEY, {}), "schema": schema + 1}
    return checkpoint


def to_2(checkpoint: Checkpoint) -> None:
    """Schema 2 says by which version it was written; before, there was one alone."""
    checkpoint[KEY] = {"version": "0.1.0"}


MIGRATIONS: dict[int, Callable[[Checkpoint], None]] = {1: to_2}  # from each schema to the next
