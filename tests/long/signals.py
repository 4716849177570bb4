"""Told to stop at random steps, and gone on with each time: the step is saved, the exit code says why, and the run ends
as one that nobody disturbed.

    python -m tests.long.signals --count 20
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from tests.long import process
from tests.long.report import Report, bar

ROOT = Path(__file__).resolve().parents[2]
CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGUSR1: 138}
PROMISED = 10  # seconds until the step is saved and the process gone
Send = Callable[[int, int], None]  # tells a run to stop: (number of its process, signal)
CLOCKS = {"seconds", "samples_per_s", "tokens_per_s", "mfu"}  # what two runs can't have in common
CONFIG = """
trainer:
  accelerator: cpu
  devices: {devices}
  max_epochs: {epochs}
  log_every_n_steps: 1
  num_sanity_val_steps: 0
model:
  class_path: Classify
  init_args:
    tokenizer: {{class_path: Patches, init_args: {{size: 8, patch: 4, channels: 1}}}}
    backbone: {{class_path: ViT, init_args: {{dim: 16, depth: 1, heads: 2, grid: 2, prefix: 0, dropout: 0.1}}}}
data: {{class_path: Images, init_args: {{batch_size: 64, workers: {workers}}}}}
"""


@dataclass
class Tally:
    """What came of the signals of one kind."""

    sent: int = 0
    right: int = 0  # exit codes
    saved: int = 0  # checkpoints of the very step that is named
    slowest: float = 0.0
    problems: list[str] = field(default_factory=list)


def config(folder: Path, epochs: int, workers: int, devices: int = 1) -> None:
    text = CONFIG.format(epochs=epochs, workers=workers, devices=devices)
    (folder / "tiny.yaml").write_text(text, encoding="utf-8")


def directory(folder: Path) -> Path | None:
    return next(iter(sorted(folder.glob("runs/*"))), None)


def rows(folder: Path) -> list[dict[str, str]]:
    """What metrics.csv holds, but for clocks."""
    run = directory(folder)
    if run is None or not (run / "metrics.csv").is_file():
        return []
    with open(run / "metrics.csv", newline="", encoding="utf-8") as file:
        return [{name: value for name, value in row.items() if name not in CLOCKS} for row in csv.DictReader(file)]


def step(folder: Path) -> int:
    """The last one that metrics.csv knows."""
    return max((int(row["step"]) for row in rows(folder) if (row.get("step") or "").isdigit()), default=0)


def checkpoint(folder: Path) -> dict:
    run = directory(folder)
    assert run is not None
    return torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)


def begin(folder: Path) -> BaseProcess:
    """Start a run or go on with the one that is there."""
    run = directory(folder)
    words = ["--config", "tiny.yaml"] if run is None else [str(run.relative_to(folder))]
    return process.start(["fit", *words], folder, folder / "log", {"PYTHONPATH": str(ROOT)})


def rank(number: int) -> Send:
    """Who is told: one of the processes that the one that was started has started."""

    def send(supervisor: int, sign: int) -> None:
        for path in Path("/proc").glob("[0-9]*"):
            try:
                parent = re.search(r"^PPid:\s+(\d+)", (path / "status").read_text(), re.MULTILINE)
                ours = f"LOCAL_RANK={number}" in (path / "environ").read_text().split("\0")
            except OSError:  # it has ended
                continue
            if ours and parent and int(parent[1]) == supervisor:
                os.kill(int(path.name), sign)

    return send


def interrupt(folder: Path, number: int, at: int, tally: Tally, send: Send) -> bool:
    """One signal once step ``at`` is taken; False where the run ended first."""
    before = len((folder / "log").read_text(encoding="utf-8")) if (folder / "log").is_file() else 0
    running = begin(folder)
    while running.is_alive() and step(folder) < at:
        time.sleep(0.002)
    if not running.is_alive():
        said = (folder / "log").read_text(encoding="utf-8")[before:]
        if running.exitcode:
            tally.problems.append(f"exit code {running.exitcode}: {said[-200:]}")
        return False
    since = time.monotonic()
    send(running.pid, number)
    running.join(60)
    tally.sent += 1
    tally.slowest = max(tally.slowest, time.monotonic() - since)
    if running.exitcode is None:
        process.end(running)
    said = (folder / "log").read_text(encoding="utf-8")[before:]
    found = re.findall(rf"^zoo: {signal.Signals(number).name}: saved step (\d+) in ", said, re.MULTILINE)
    tally.right += running.exitcode == CODES[number]
    good = len(found) == 1 and checkpoint(folder)["global_step"] == int(found[0]) == step(folder)
    tally.saved += good
    if not good or running.exitcode != CODES[number] or "Traceback" in said:
        tally.problems.append(f"{signal.Signals(number).name} at {at}, exit code {running.exitcode}: {said[-600:]}")
    return True


def chain(folder: Path, number: int, sends: Sequence[Send], total: int, seed: int) -> Tally:
    """One run that is told to stop in each of these ways, at random steps of its ``total``, and then ends."""
    tally, generator = Tally(), random.Random(seed)
    places = sorted(generator.sample(range(1, total - 4), len(sends)))
    for at, send in bar(list(zip(places, sends)), signal.Signals(number).name):
        interrupt(folder, number, max(at, step(folder) + 1), tally, send)
    last = begin(folder)
    last.join(600)
    if last.exitcode != 0:
        tally.problems.append(f"the end has exit code {last.exitcode}")
    return tally


def compare(report: Report, what: str, folder: Path, whole: Path, number: int, tally: Tally) -> None:
    """The rows of the table for one chain, beside the run that nobody disturbed."""
    report.row(f"{what}: exit code {CODES[number]}", f"{tally.right} of {tally.sent}", "all", tally.right == tally.sent)
    report.row(f"{what}: that step saved", f"{tally.saved} of {tally.sent}", "all", tally.saved == tally.sent)
    limit = f"<= {PROMISED} s"
    report.row(f"{what}: slowest end", f"{tally.slowest:.2f} s", limit, tally.slowest <= PROMISED)
    ours, theirs = rows(folder), rows(whole)
    equal = sum(a == b for a, b in zip(ours, theirs))
    all_of_them = f"{len(theirs)} of {len(theirs)}"
    report.row(f"{what}: rows of metrics.csv bitwise equal", f"{equal} of {len(ours)}", all_of_them)
    ours, theirs = checkpoint(folder)["state_dict"], checkpoint(whole)["state_dict"]
    report.row(f"{what}: final weights", "equal" if same(ours, theirs) else "differ", "equal")
    for problem in tally.problems:
        print(problem)


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def prepare(folder: Path, epochs: int, workers: int = 0, devices: int = 1, run: bool = True) -> tuple[Path, int]:
    """A folder with a config, and in it a run that nobody disturbs; how many steps that takes."""
    folder.mkdir()
    config(folder, epochs, workers, devices)
    if run:
        begin(folder).join(600)
    return folder, step(folder)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.long.signals")
    parser.add_argument("--count", type=int, default=20, help="signals of each kind")
    told = parser.parse_args(argv)
    report = Report("told to stop")
    epochs = max(4, told.count)
    with tempfile.TemporaryDirectory() as name:
        whole, total = prepare(Path(name) / "whole", epochs)
        for seed, number in enumerate(CODES):
            folder, _ = prepare(Path(name) / number.name, epochs, run=False)
            compare(
                report, number.name, folder, whole, number, chain(folder, number, [os.kill] * told.count, total, seed)
            )
        folder, _ = prepare(Path(name) / "group", epochs, workers=2, run=False)
        tally = chain(folder, signal.SIGINT, [os.killpg] * max(1, told.count // 4), total, 7)
        compare(report, "Ctrl-C, 2 workers", folder, whole, signal.SIGINT, tally)
        pair, total = prepare(Path(name) / "pair", epochs, devices=2)
        folder, _ = prepare(Path(name) / "ranks", epochs, devices=2, run=False)
        tally = chain(folder, signal.SIGTERM, [rank(1), rank(0), os.kill], total, 8)
        compare(report, "either rank, both", folder, pair, signal.SIGTERM, tally)
    return report.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
