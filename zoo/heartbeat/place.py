"""Where a process is in its program: the call stack of its main thread, and what can be seen from it."""

from __future__ import annotations

import re
import sys
import sysconfig
import threading
import traceback
from typing import NamedTuple

THREAD = re.compile(r"(?:Current thread|Thread) (0x[0-9a-f]+)")
FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')
WAITS = re.compile(r"/torch/distributed/|/torch/autograd/graph\.py$")  # for the other processes
COMPILES = re.compile(
    r"/torch/_dynamo/convert_frame\.py|/torch/_inductor/(graph|scheduler|\w*compile)\.py|/triton/comp"
)
DEBUGS = re.compile(r"/(bdb|pdb)\.py$|/pydevd\w*/|/debugpy/")
LIBRARY = re.compile(
    re.escape(sysconfig.get_path("stdlib"))
    + r"/|/site-packages/(torch|lightning|jsonargparse)/|^<|/zoo/(cli/|__main__)"
)


class Frame(NamedTuple):
    """A call that has not returned."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}"


def call_chain() -> list[Frame]:
    """The calls of this process's main thread, innermost first; callable from any thread."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    stack = traceback.extract_stack(frame) if frame else []
    return [Frame(call.filename, call.lineno or 0, call.name) for call in reversed(stack)]


def read_dump(text: str, main: int) -> list[Frame]:
    """The same from what ``faulthandler`` wrote: of the thread that it calls current where the process crashed, else of
    the one with the identifier ``main``; of the last dump, if there are several."""
    found: list[Frame] = []
    wanted = False
    for line in text.splitlines():
        thread, frame = THREAD.match(line), FRAME.match(line)
        if line.startswith("Fatal"):
            main = 0
        if thread:
            wanted = line.startswith("Current") if main == 0 else int(thread[1], 16) == main
            found = [] if wanted else found
        elif frame and wanted:
            found.append(Frame(frame[1], int(frame[2]), frame[3]))
    return found


def place(calls: list[Frame]) -> str:
    """Such as "my.py:12 load": the innermost call, and where that is within a library, the call in somebody's own code
    that led there."""
    if not calls:
        return ""
    own = next((call for call in calls if not LIBRARY.search(call.file)), None)
    return f"{calls[0]}" if own in (None, calls[0]) else f"{calls[0]}, called from {own}"


def waits(calls: list[Frame]) -> bool:
    """Does it wait for other processes?"""
    return any(WAITS.search(call.file) for call in calls)


def compiles_or_debugs(calls: list[Frame]) -> bool:
    """Is it busy with something that may take any time?"""
    return any(COMPILES.search(call.file) or DEBUGS.search(call.file) for call in calls)
