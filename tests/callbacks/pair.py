"""Two processes that train together, forked from one that has imported all."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.long.process import _context


def together(function: Callable[..., None], *arguments: Any, limit: float = 60) -> list[int | None]:
    """Call ``function(*arguments)`` in processes of rank 0 and 1; their exit codes, None for one that did not end."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = str(probe.getsockname()[1])
    processes = [_context.Process(target=_inside, args=(rank, port, function, arguments)) for rank in (0, 1)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(limit)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    return codes


def _inside(rank: int, port: str, function: Callable[..., None], arguments: tuple) -> None:
    settings = {"LOCAL_RANK": rank, "NODE_RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "localhost", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in settings.items()})
    log = next((part for part in arguments if isinstance(part, Path)), Path.cwd()) / f"log-{rank}"
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(out, number)
    function(*arguments)
