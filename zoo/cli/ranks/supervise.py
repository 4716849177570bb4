"""Starts the processes of a run, passes signals on, and sees to it that all end when one fails or hangs."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

from zoo.atomic import replaced
from zoo.cli import configs, facts
from zoo.cli.ranks.cause import Cause, End, explain, hang, root
from zoo.cli.ranks.hang import Patience, culprit
from zoo.cli.ranks.launch import Member, start

POLL, GRACE, ANSWER = 0.1, 5.0, 1.0  # seconds
PASSED_ON = () if os.name == "nt" else (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


def supervise(words: list[str], count: int, nodes: int, run: Path | None) -> int:
    """Runs ``python -m zoo WORDS`` in ``count`` processes, each with its rank, on each of ``nodes`` machines; the
    answer is their exit code.

    When one fails or hangs, all end, and at most ten lines on stderr say which and why; ``run`` is the directory of the
    run, in which the rest of it is kept.  Raises OSError where they cannot be started.
    """
    folder = Path(tempfile.mkdtemp(prefix="zoo-ranks-"))
    members: list[Member] = []
    signals = Signals(members)
    try:
        store = start(words, count, nodes, folder, members)
        ends, cause = watch(members, signals)
        del store
        if cause is not None or any(end.code is None for end in ends):
            for member in members:
                member.kill()
        if cause is None:
            settle(run, "interrupted" if signals.received else "finished")
            codes = [end.told.code for end in ends if end.told and end.told.kind == "done" and end.told.code]
            return codes[0] if codes else 128 + signals.received[0] if signals.received else 0
        settle(run, "failed")
        say(cause, run)
        return cause.code
    finally:
        for member in members:
            if member.code is None:
                member.kill()
        signals.restore()
        shutil.rmtree(folder, ignore_errors=True)


class Signals:
    """Passes on to all members what this process is sent."""

    def __init__(self, members: list[Member]):
        self.members = members
        self.received: list[int] = []
        handlers = {number: signal.getsignal(number) for number in PASSED_ON}
        self.before = {number: handler for number, handler in handlers.items() if handler is not signal.SIG_IGN}
        for number in self.before:
            signal.signal(number, self.pass_on)

    def pass_on(self, number: int, frame: FrameType | None) -> None:
        self.received.append(number)
        for member in self.members:
            member.signal(number)

    def restore(self) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)


def watch(members: list[Member], signals: Signals) -> tuple[list[End], Cause | None]:
    """Waits until all have ended, or have to; and why, where it is not as it should be."""
    patience, last, until = Patience(), time.monotonic(), float("inf")
    while True:
        time.sleep(POLL)
        now = time.monotonic()
        ends = [member.end() for member in members]
        if now >= until or all(end.code is not None for end in ends):
            failed = root(ends)
            return ends, None if failed is None or asked(failed, signals.received) else explain(failed, ends)
        if any(end.failed for end in ends) or len(signals.received) > 1:
            until = min(until, now + GRACE)  # what else they have to say, and to put in order
            for member, end in zip(members, ends, strict=True):
                if end.failed and end.code is not None:
                    member.kill()  # its workers hold its connections open
            continue
        working = [member for member, end in zip(members, ends, strict=True) if end.told is None]
        slowest = patience.over({member.rank: member.pulse() for member in working}, now - last)
        cause = hanging(working, slowest, patience) if slowest else None
        if cause is not None:
            return ends, cause
        last = now


def asked(end: End, received: list[int]) -> bool:
    """Is this end what a signal asked for?"""
    return (
        bool(received) and (end.told is None or end.consequence) and end.code in (None, *(-n for n in received), -9, 1)
    )


def hanging(members: list[Member], slowest: list[int], patience: Patience) -> Cause | None:
    """Asks those that made no progress where they are; None where they may well be at work."""
    before = {member.rank: member.pulse() for member in members}
    for member in members:
        member.ask()
    time.sleep(ANSWER)
    calls = {member.rank: member.calls() for member in members}
    guilty = culprit(slowest, calls)
    if guilty is None or before != {member.rank: member.pulse() for member in members}:
        patience.again()
        return None
    return hang(guilty, patience.quiet, calls)


def settle(run: Path | None, state: str) -> None:
    """Writes down how a run ended, where none of its processes could."""
    found = facts.read(run) if run else {}
    if run and found.get("state") == "running":
        facts.write(run, {**found, "state": state})


def say(cause: Cause, run: Path | None) -> None:
    """Tells the user, and keeps what is too long to be told."""
    if sys.stdout.isatty():
        print("\x1b[?25h", flush=True)  # a bar that was stopped leaves the cursor hidden
    lines = list(cause.lines)
    if cause.record:
        kept = (run or Path(tempfile.gettempdir())) / f"failure-{os.getpid()}.log"
        with replaced(kept) as file:
            file.write(cause.record + "\n")
        lines.append(f"the whole: {os.path.relpath(kept)}")
    found = configs.checkpoint(run, "last") if run and sys.argv[1] == "fit" else None
    if run and found:
        lines.append(f"last checkpoint: {os.path.relpath(found)}; 'python -m zoo fit {os.path.relpath(run)}' goes on")
    print("\n".join(lines), file=sys.stderr)
