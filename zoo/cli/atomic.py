"""Files that are replaced at once: a reader meets the old content or the new, whenever the writer is stopped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def replaced(path: Path) -> Iterator[TextIO]:
    """A file to write to, which takes the place of ``path`` when the ``with`` ends without an error."""
    fresh = path.with_name(path.name + ".tmp")
    with open(fresh, "w", newline="", encoding="utf-8") as file:
        yield file
    os.replace(fresh, path)
