"""The signs of life of a process: a few bytes of memory, which another process may see."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import NamedTuple

from zoo.heartbeat import told

LAYOUT = struct.Struct("<QQd40s")
SIZE = LAYOUT.size  # bytes


class Pulse(NamedTuple):
    """How far a process has come."""

    steps: int  # places in the program that it has passed; the same for processes that have come equally far
    beats: int  # all signs of life, also those that only one of the processes gives
    limit: float  # the seconds after which the next place is overdue; 0 where that cannot be said
    phase: str  # what it does since the last place


def read_pulse(data: bytes | bytearray | mmap.mmap) -> Pulse:
    steps, beats, limit, phase = LAYOUT.unpack_from(data)
    return Pulse(steps, beats, limit, phase.rstrip(b"\0").decode("ascii", "replace"))


class Heart:
    """Gives signs of life; less than a microsecond each."""

    def __init__(self) -> None:
        self.pulse = Pulse(0, 0, 0.0, "")
        self.folder: Path | None = None  # of whoever watches
        self._shared: bytearray | mmap.mmap = bytearray(SIZE)
        self._failed = 0.0

    @property
    def watched(self) -> bool:
        """Does another process watch over this one?"""
        return self.folder is not None

    def show(self, folder: Path, rank: int) -> None:
        """Let the process that made ``folder/RANK.pulse`` see the signs of life."""
        with open(folder / f"{rank}.pulse", "r+b") as file:
            self._shared = mmap.mmap(file.fileno(), SIZE)
        self.folder, self.rank = folder, rank
        self.step("starting", 0.0)

    def step(self, phase: str, limit: float) -> None:
        """Another place is passed, and ``phase`` begins; within ``limit`` seconds it should end (0: nobody knows)."""
        self._set(Pulse(self.pulse.steps + 1, self.pulse.beats + 1, limit, phase))

    def beat(self) -> None:
        """A sign of life within a phase."""
        self._set(self.pulse._replace(beats=self.pulse.beats + 1))

    def _set(self, pulse: Pulse) -> None:
        self.pulse = pulse
        LAYOUT.pack_into(self._shared, 0, pulse.steps, pulse.beats, pulse.limit, pulse.phase.encode()[:40])

    # ---- the end; nothing happens where nobody watches

    def done(self, code: int) -> None:
        """The work ended as it should, with this exit code."""
        if self.folder is not None:
            told.write(self.folder, self.rank, told.done(code))

    def failed(self, error: BaseException, code: int = 1, line: str | None = None) -> None:
        """An exception ends the work; ``line`` says it to a user.  May be said again when more is known."""
        if self.folder is not None:
            report = told.failure(error, code, line)
            self._failed = self._failed or report.time
            told.write(self.folder, self.rank, report._replace(time=self._failed))


heart = Heart()  # of this process


def beat() -> None:
    """A sign of life from within something that may take long, such as writing a large file."""
    heart.beat()
