"""A config that one ``python -m zoo fit`` after another trains in a directory, and what is there then."""

from __future__ import annotations

import csv
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from tests.long.process import start

CLOCKS = {"seconds", "samples_per_s", "tokens_per_s", "mfu"}  # columns that no two runs have alike

Row = dict[str, str]  # of metrics.csv: what was logged at once


@dataclass
class Life:
    """``folder`` is the working directory, ``temporary`` the one for temporary files; both are made here.  The first
    process begins a run of ``steps`` steps, those after it go on with it."""

    config: Path
    folder: Path
    temporary: Path
    steps: int

    def __post_init__(self) -> None:
        self.log = self.folder.with_suffix(".log")
        self.folder.mkdir(parents=True)
        self.temporary.mkdir(parents=True)

    @property
    def run(self) -> Path | None:
        """The run, once its config is written."""
        found = sorted(self.folder.glob("runs/*/config.yaml"))
        return found[-1].parent if found else None

    def start(self) -> BaseProcess:
        if self.run:
            words = ["fit", str(self.run.relative_to(self.folder))]
        else:
            words = ["fit", f"--config={self.config}", f"--trainer.max_steps={self.steps}"]
        return start(words, self.folder, self.log, {"TMPDIR": str(self.temporary)})

    def trains(self, since: float) -> bool:
        """Has a row been written to metrics.csv since then?"""
        try:
            return self.run is not None and (self.run / "metrics.csv").stat().st_mtime > since
        except FileNotFoundError:
            return False

    def rows(self) -> list[Row]:
        path = self.run and self.run / "metrics.csv"
        if not path or not path.is_file():
            return []
        with open(path, newline="", encoding="utf-8") as file:
            return [{name: value for name, value in row.items() if value} for row in csv.DictReader(file)]

    def files(self) -> dict[str, int]:
        """The bytes of every file in both directories, by names that are the same in each run."""
        run = self.run.name if self.run else "none"
        return {
            name + str(path.relative_to(root)).replace(run, "RUN"): path.stat().st_size
            for name, root in {"": self.folder, "TMPDIR/": self.temporary}.items()
            for path in root.rglob("*")
            if path.is_file()
        }

    def sockets(self) -> int:
        """How many a killed worker has left: Python's own, in which workers hand over memory; they hold no bytes."""
        return sum(path.is_socket() for path in self.temporary.rglob("*"))

    def tensors(self) -> dict[str, torch.Tensor]:
        """Every tensor of the run's last and best checkpoint: weights and the optimizer's state."""
        found: dict[str, torch.Tensor] = {}
        for name in ("last", "best"):
            path = (self.run or self.folder) / "checkpoints" / f"{name}.ckpt"
            kept = torch.load(path, map_location="cpu", weights_only=True)
            found |= {f"{name}: {key}": value for key, value in kept["state_dict"].items()}
            for parameter, values in kept["optimizer_states"][0]["state"].items():
                found |= {f"{name}: {key} of {parameter}": torch.as_tensor(value) for key, value in values.items()}
        return found

    def said(self) -> str:
        """The end of what the processes printed."""
        return self.log.read_text(errors="replace").strip()[-600:]


def timeless(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in CLOCKS}


def until_it_trains(life: Life, process: BaseProcess, since: float) -> float:
    """The time when it began to train, or ended."""
    while process.is_alive() and not life.trains(since):
        time.sleep(0.005)
    return time.time()


def unequal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> list[str]:
    """The names of the tensors that differ in any bit, or are in one only."""
    return sorted(
        name
        for name in one.keys() | other.keys()
        if name not in one or name not in other or not same_bits(one[name], other[name])
    )


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    alike = one.shape == other.shape and one.dtype == other.dtype
    return alike and one.contiguous().numpy().tobytes() == other.contiguous().numpy().tobytes()
