"""``python -m zoo`` as a real process of its own that starts at once: it is forked from one that has imported all."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing import process as processes
from multiprocessing.process import BaseProcess
from pathlib import Path

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    ["zoo.cli.train", "zoo.models", "zoo.runs.curves", "sklearn.datasets", "tests.long.process"]
)


def start(
    words: list[str],
    folder: Path,
    log: Path,
    environment: Mapping[str, str] | None = None,
    errors: Path | None = None,
) -> BaseProcess:
    """``python -m zoo WORDS`` in ``folder``, the leader of a process group of its own; all that it says is appended to
    ``log``, or what it says on stderr to ``errors``."""
    process = _context.Process(target=_inside, args=(words, folder, (log, errors or log), dict(environment or {})))
    process.start()
    return process


def end(process: BaseProcess, number: int = signal.SIGKILL) -> None:
    """A signal to the process and to all that it started."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        process.kill()


def run(words: list[str], folder: Path, log: Path, environment: Mapping[str, str] | None = None, limit: float = 600):
    """The exit code of a process (minus the number of a signal that ended it); None where it took too long."""
    process = start(words, folder, log, environment)
    process.join(limit)
    code = process.exitcode
    if code is None:
        end(process)
        process.join()
    return code


def _inside(words: list[str], folder: Path, logs: tuple[Path, Path], environment: dict[str, str]) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what runs behind it ignore Ctrl-C
    os.chdir(folder)
    os.environ.update(environment)
    as_if_begun_by_itself()
    for number, log in enumerate(logs, 1):
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv = ["zoo", *words]
    from zoo.__main__ import main

    sys.exit(main(words))


def as_if_begun_by_itself() -> None:
    """Forget what a process has from the one that it was forked from: how it starts others (the workers of a loader),
    and the directory for temporary files."""
    multiprocessing.set_start_method(None, force=True)
    processes.current_process()._config.pop("tempdir", None)  # type: ignore[attr-defined]
    tempfile.tempdir = None
