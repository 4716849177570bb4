"""Finds out which of several processes failed first, and says why in a few lines."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import NamedTuple

from zoo.heartbeat import Frame, Told, place

TAIL = 6  # lines of a traceback
CONSEQUENCE = re.compile(  # what processes say that another one left alone
    r"[Cc]onnection (closed|reset|refused)|Broken pipe|[Tt]imed? ?out|NCCL|Dist(Backend|Network|Store)Error|[Gg]loo"
    r"|recvValue|[Ss]ocket|ProcessGroup"
)
LONGER = "a step that may take longer needs --trainer.callbacks+=Watchdog --trainer.callbacks.limit=SECONDS"


class Cause(NamedTuple):
    """Why all have to end."""

    code: int  # the exit code
    lines: list[str]  # for the user
    record: str  # what is too long for that; empty where the lines say it all


class End(NamedTuple):
    """How a process ended, or is about to."""

    rank: int
    code: int | None  # its exit code, minus the number of a signal; None while it runs
    told: Told | None  # its last words
    calls: list[Frame]  # where it crashed, innermost first
    log: str  # what it wrote to stderr, where that is not the terminal

    @property
    def failed(self) -> bool:
        return self.told.kind != "done" if self.told else self.code is not None

    @property
    def consequence(self) -> bool:
        """Did it fail since another did?"""
        if self.told is None:
            return self.code == -signal.SIGABRT  # so torch ends those that wait
        return self.told.kind == "error" and bool(CONSEQUENCE.search(self.told.text))


def root(ends: list[End]) -> End | None:
    """The one that failed for a reason of its own: without a word, or else first; None where none failed."""

    def order(end: End) -> tuple[bool, float]:
        return end.consequence, end.told.time if end.told else 0.0

    return min((end for end in ends if end.failed), key=order, default=None)


def explain(end: End, ends: list[End]) -> Cause:
    """Why ``end``, one of all the ``ends``, is the cause."""
    told = end.told
    if told is None:
        code = end.code or 0
        tail, record = end.log, "\n".join([end.log, *map(str, end.calls)])
        return Cause(
            128 - code if code < 0 else code or 1, [silent(end.rank, code, end.calls), *last(tail)], record.strip()
        )
    if told.kind == "exit":
        where = re.findall(r'File "(.*)", line (\d+), in (\w+)', told.trace)
        by = f" in {Frame(*where[-1])}" if where else ""
        text = f"zoo: error: rank {end.rank} ended{by} with exit code {told.code} before its work was done"
        return Cause(told.code or 1, [text], "")
    same = all(other.told is not None and other.told.text == told.text for other in ends)
    text = f"zoo: error: {'' if same and told.expected else f'rank {end.rank}: '}{told.text}"
    if told.expected:
        return Cause(told.code or 1, [text], "")
    return Cause(told.code or 1, [text[:300], *last(told.trace)], f"{end.log}\n{told.trace}".strip())


def silent(rank: int, code: int, calls: list[Frame]) -> str:
    """The sentence for one that ended without a word."""
    if code >= 0:
        return f"zoo: error: rank {rank} ended with exit code {code} before its work was done"
    number = signal.Signals(-code)
    if number == signal.SIGKILL:
        return f"zoo: error: rank {rank} was killed (SIGKILL), as the system does when memory runs out"
    return f"zoo: error: rank {rank} was ended by {number.name}" + (f" in {place(calls)}" if calls else "")


def hang(rank: int, seconds: float, calls: Mapping[int, list[Frame]]) -> Cause:
    """One that makes no progress, and where all are."""
    where = f"it is in {place(calls[rank])}" if calls[rank] else "it does not answer, as if stopped (SIGSTOP)"
    record = [f"rank {rank} is in" + "".join(f"\n  {call}" for call in stack) for rank, stack in calls.items()]
    text = f"zoo: error: rank {rank} made no progress for {seconds:.0f} s; {where}"
    return Cause(1, [text, LONGER], "\n\n".join(record))


def last(text: str) -> list[str]:
    """The last lines."""
    return [f"  {line.strip()[:150]}" for line in text.splitlines() if line.strip()][-TAIL:]
