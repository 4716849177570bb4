"""The last words of a process, kept in a file for the process that watches over it."""

from __future__ import annotations

import json
import os
import time
import traceback
from pathlib import Path
from typing import Literal, NamedTuple


class Told(NamedTuple):
    """How a process says that it ended."""

    kind: Literal["done", "exit", "error"]  # as it should; by SystemExit before the work was done; by another exception
    code: int  # its exit code
    text: str  # in one line
    expected: bool  # is it something that the user can mend?
    trace: str  # the whole traceback
    time: float  # seconds since 1970


def done(code: int) -> Told:
    return Told("done", code, "", True, "", time.time())


def failure(error: BaseException, code: int, line: str | None) -> Told:
    """``line`` is what to tell the user, None where the exception is not of the user's making."""
    kind: Literal["exit", "error"] = "exit" if isinstance(error, SystemExit) else "error"
    words = str(error).strip().splitlines() or [""]
    text = line or f"{type(error).__name__}: {words[0]}".rstrip(": ")
    return Told(kind, code, text, line is not None, "".join(traceback.format_exception(error)), time.time())


def write(folder: Path, rank: int, report: Told) -> None:
    path = folder / f"{rank}.told"
    path.with_suffix(".new").write_text(json.dumps(report._asdict()), encoding="utf-8")
    os.replace(path.with_suffix(".new"), path)


def read_told(folder: Path, rank: int) -> Told | None:
    """What the process has said so far."""
    try:
        return Told(**json.loads((folder / f"{rank}.told").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
