"""Vocabulary files older than tokenizer.json, brought into its form."""

from __future__ import annotations

from pathlib import Path


def backend_file(folder: Path, model_type: str) -> str | None:
    """The text of the ``tokenizer.json`` of a checkpoint's folder, or None where it has no vocabulary that can be read.

    Raises ValueError for a damaged one.
    """
    if (folder / "tokenizer.json").is_file():
        return (folder / "tokenizer.json").read_text(encoding="utf8")
    return None
