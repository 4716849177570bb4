"""What tables look like on the command line."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table


def console() -> Console:
    """A pipe or a file is not cut at 80 columns."""
    made = Console(highlight=False)
    made.width = made.width if made.is_terminal else 200
    return made


def titled(title: str, *columns: str) -> Table:
    return Table(*columns, title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
