"""Finds out how many processes a config asks for on this machine, and starts them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace
from lightning.pytorch import Trainer
from lightning.pytorch.accelerators import Accelerator
from lightning.pytorch.strategies import Strategy
from lightning.pytorch.strategies.launchers import _SubprocessScriptLauncher
from lightning.pytorch.trainer.connectors.accelerator_connector import _PLUGIN_INPUT
from torch.distributed import TCPStore

from zoo.cli.ranks.cause import End
from zoo.cli.ranks.member import WATCHED
from zoo.heartbeat import SIZE, Frame, Pulse, read_dump, read_pulse, read_told

ASKED: dict[str, Any] = {  # what decides how many processes there are, and who starts them
    "accelerator": str | Accelerator,
    "strategy": str | Strategy,
    "devices": list[int] | str | int,
    "num_nodes": int,
    "plugins": _PLUGIN_INPUT | list[_PLUGIN_INPUT] | None,
}


def processes(trainer: Namespace) -> int:
    """How many processes Lightning would make of this command on this machine; 1 where it would start no others itself
    (one device, torchrun, SLURM, an own way of starting them)."""
    if os.name == "nt" or "LOCAL_RANK" in os.environ:
        return 1
    parser = ArgumentParser(exit_on_error=False)
    for name, kind in ASKED.items():
        parser.add_argument(f"--{name}", type=kind)
    asked = parser.instantiate(parser.parse_object({name: trainer[name] for name in ASKED}, defaults=False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the real one says it again
        strategy = Trainer(**asked.as_dict(), logger=False, enable_checkpointing=False).strategy
    launcher = strategy.launcher
    if not isinstance(launcher, _SubprocessScriptLauncher) or launcher.cluster_environment.creates_processes_externally:
        return 1
    return launcher.num_processes


class Member:
    """One of the processes, as it is seen from outside: the leader of a session of its own."""

    def __init__(self, words: list[str], local: int, rank: int, folder: Path, environment: dict[str, str]):
        self.local, self.rank, self.folder = local, rank, folder
        self.log = folder / f"{local}.log"  # what it says, unless it is the first, which has the terminal
        self._pulse = folder / f"{local}.pulse"
        self._pulse.write_bytes(bytes(SIZE))
        self._where, self._heard = folder / f"{local}.where", 0
        environment = {**environment, "LOCAL_RANK": str(local)}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "zoo", *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stderr=log if local else None,
                start_new_session=True,
            )

    @property
    def code(self) -> int | None:
        """Its exit code, minus the number of a signal that ended it; None while it runs."""
        return self.process.poll()

    def end(self) -> End:
        """How it ended, as far as it has."""
        code = self.code  # first, for it speaks and ends then
        told = read_told(self.folder, self.local)
        log = self.log.read_text(encoding="utf-8", errors="replace") if code or told else ""
        return End(self.rank, code, told, self.calls() if code and code < 0 else [], log)

    def pulse(self) -> Pulse:
        return read_pulse(self._pulse.read_bytes())

    def signal(self, number: int) -> None:
        """Pass a signal on.  While it is being started, it knows none, and is ended."""
        if self.code is None:
            self.process.send_signal(number if self.pulse().beats else signal.SIGKILL)

    def ask(self) -> None:
        """Ask it where it is; ``calls`` is the answer, after a moment."""
        self._heard = self._where.stat().st_size
        self.process.send_signal(signal.SIGUSR2)

    def calls(self) -> list[Frame]:
        """Where it says that it is, or was when it crashed."""
        if not self._where.is_file():
            return []
        with open(self._where, encoding="utf-8") as file:
            main = int(file.readline() or 0)
            file.seek(max(self._heard, file.tell()))
            return read_dump(file.read(), main)

    def kill(self) -> None:
        """End it and all that it started."""
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # while the system does something for it
            self.process.wait(timeout=5)


def start(words: list[str], count: int, nodes: int, folder: Path, started: list[Member]) -> TCPStore | None:
    """Start ``count`` processes of ``python -m zoo WORDS``, appending them to ``started``.

    Where they meet: at the address of the environment, if there is one; else at a store of this process, so that no
    port can be taken by somebody else in the meantime.  The store is returned, and must live as long as they.
    """
    first = int(os.environ.get("NODE_RANK", os.environ.get("GROUP_RANK", 0))) * count
    environment = {
        "TORCH_CPP_LOG_LEVEL": "FATAL",  # a hundred lines of what the others think of the one that failed
        **os.environ,
        "NODE_RANK": str(first // count),
        "WORLD_SIZE": str(count * nodes),
        WATCHED: f"{os.getpid()}:{folder}",
    }
    store = None
    if "MASTER_PORT" not in os.environ:
        store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
        environment |= {"TORCHELASTIC_USE_AGENT_STORE": "True"}  # torch: none of them opens the store
    for local in range(count):
        started.append(Member(words, local, first + local, folder, environment))
    return store
