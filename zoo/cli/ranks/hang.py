"""Decides from signs of life whether processes hang, and which of them the others wait for."""

from __future__ import annotations

from collections.abc import Mapping

from zoo.heartbeat import Frame, Pulse, compiles_or_debugs, waits

TICK = 1.0  # seconds: no longer stretch counts between two looks, since the whole machine may have slept


class Patience:
    """Counts for how long no process has given a sign of life."""

    def __init__(self) -> None:
        self.quiet = 0.0
        self._seen: Mapping[int, Pulse] = {}

    def over(self, pulses: Mapping[int, Pulse], seconds: float) -> list[int]:
        """The processes that have come least far, if none has moved for as long as they may take; else none.
        ``seconds`` have passed since this was last asked."""
        self.quiet = self.quiet + min(seconds, TICK) if pulses == self._seen else 0.0
        self._seen = dict(pulses)
        least = min((pulse.steps for pulse in pulses.values()), default=0)
        slowest = {rank: pulse.limit for rank, pulse in pulses.items() if pulse.steps == least}
        over = bool(slowest) and all(limit and self.quiet >= limit for limit in slowest.values())
        return list(slowest) if over else []

    def again(self) -> None:
        """They may take as long once more."""
        self.quiet = 0.0


def culprit(slowest: list[int], calls: Mapping[int, list[Frame]]) -> int | None:
    """The one that hangs: of those that have come least far, the first that does not itself wait for others.  None
    where a process does something that may take any time."""
    if any(compiles_or_debugs(stack) for stack in calls.values()):
        return None
    return next((rank for rank in slowest if not waits(calls.get(rank, []))), slowest[0])
