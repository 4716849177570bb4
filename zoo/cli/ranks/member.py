"""The part of each process: it ends when whoever watches over it ends, and can be asked where it is."""

from __future__ import annotations

import faulthandler
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zoo.callbacks.signals import Stopped
from zoo.cli.errors import INTERRUPTED
from zoo.heartbeat import heart

WATCHED = "ZOO_WATCHED"  # environment: the process that watches, and the folder in which it looks for what is told


def join() -> None:
    """To be called early; does nothing in a process that nobody watches."""
    told = os.environ.pop(WATCHED, None)  # what this process starts is its own affair
    if told is None:
        return
    parent, _, folder = told.partition(":")
    rank = int(os.environ["LOCAL_RANK"])
    heart.show(Path(folder), rank)
    where = open(Path(folder) / f"{rank}.where", "w", encoding="utf-8")  # noqa: SIM115
    print(threading.main_thread().ident, file=where, flush=True)
    faulthandler.enable(where)
    faulthandler.register(signal.SIGUSR2, where, all_threads=True)
    threading.Thread(target=_follow, args=(int(parent), Path(folder)), daemon=True, name="follow").start()


@contextmanager
def told() -> Iterator[None]:
    """Tells how the work within ended; but for exceptions, since whoever catches them can say more."""
    try:
        yield
        heart.done(0)
    except KeyboardInterrupt:
        heart.done(INTERRUPTED)
        raise
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        if isinstance(stop, Stopped):
            heart.done(code)
        elif isinstance(stop.__context__, KeyboardInterrupt):
            heart.done(INTERRUPTED)
        else:
            heart.failed(stop, code)
        raise


def _follow(parent: int, folder: Path, seconds: float = 1.0) -> None:
    """Waits until the parent is gone, and ends this process with all that it started."""
    while os.getppid() == parent:
        time.sleep(seconds)
    shutil.rmtree(folder, ignore_errors=True)
    os.killpg(os.getpgid(0), signal.SIGKILL)
