"""What takes its time is said on a terminal, for as long as it does."""

from __future__ import annotations

from rich.console import Console
from rich.status import Status


def waiting(what: str) -> Status:
    """A ``with`` that shows ``what`` on the standard error."""
    return Console(stderr=True).status(what)
