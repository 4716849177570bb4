"""What the long tests show while they run, and the table that they end with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich import box
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

Item = TypeVar("Item")


def bar(items: Iterable[Item], title: str, count: int | None = None) -> Iterator[Item]:
    """The items, one by one, behind a progress bar."""
    return iter(tqdm(items, title, count, mininterval=1.0))


class Report:
    """Rows of what was tried, what was found and what is promised."""

    def __init__(self, title: str):
        self.table = Table("what", "found", "promised", "", title=title, box=box.SIMPLE)
        self.kept = True

    def row(self, what: str, found: object, promised: object, kept: bool | None = None) -> None:
        """``kept``: is the promise kept?  Unless given: are both the same?"""
        good = found == promised if kept is None else kept
        self.table.add_row(what, str(found), str(promised), "ok" if good else "BROKEN")
        self.kept &= good

    def close(self) -> int:
        """Print the table; the answer is the exit code."""
        Console(width=120).print(self.table)
        return 0 if self.kept else 1
