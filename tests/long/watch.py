"""A process that is watched: how long it takes, and how much memory."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from tests.long.process import end, start


class Watched:
    """``python -m zoo WORDS``, with ``seconds``, ``peak`` (bytes) and, once it has ended by itself, ``code``: that of
    its exit, or minus the number of a signal."""

    def __init__(
        self, words: list[str], folder: Path, log: Path, errors: Path, environment: Mapping[str, str] | None = None
    ):
        self.process = start(words, folder, log, environment, errors)
        self.began = time.monotonic()
        self.seconds, self.peak = 0.0, 0
        self.code: int | None = None
        self.stopped = ""  # why it was ended from here

    def look(self, limit: float, memory: float) -> bool:
        """Does it go on?  It is ended beyond ``limit`` seconds or ``memory`` bytes."""
        self.peak = max(self.peak, self._peak())
        self.code = self.process.exitcode
        if self.code is not None:
            return False
        self.seconds = time.monotonic() - self.began
        if self.seconds > limit or self.peak > memory:
            self.stopped = f"more than {limit:g} s" if self.seconds > limit else f"more than {memory / 1e9:g} GB"
            end(self.process)
            self.process.join()
            return False
        return True

    def _peak(self) -> int:
        """The most memory that it has had so far; 0 where it has ended."""
        try:
            lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            return 0
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)
