"""What becomes of an item that cannot be read: the run stops, or the item is left out and listed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

OnBad = Literal["raise", "skip"]
DAMAGE = (ValueError, FileNotFoundError)  # what reading raises; other errors are the machine's and always stop the run


class BadItems:
    """The items of a data set that cannot be read.

    With ``on_bad="raise"`` the first one stops the run; with "skip" they are left out, and ``found`` has a sentence
    for each, in the order in which they were met, that begins with the name of the file.
    """

    def __init__(self, on_bad: OnBad = "raise"):
        if on_bad not in get_args(OnBad):
            raise ValueError(f"on_bad={on_bad!r} is none of {', '.join(get_args(OnBad))}")
        self.skip = on_bad == "skip"
        self.found: dict[str, None] = {}

    @contextmanager
    def item(self) -> Iterator[None]:
        """Stands around the reading of one item."""
        try:
            yield
        except DAMAGE as error:
            if not self.skip:
                raise
            self.found[sentence(error)] = None


def sentence(error: BaseException) -> str:
    """What an error says, in one line."""
    return " ".join(str(error).split()) or type(error).__name__
