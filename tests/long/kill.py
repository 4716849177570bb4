"""``python -m tests.long.kill``: a run is killed again and again and gone on with, beside one that is left alone."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.long.life import Life, Row, timeless, unequal, until_it_trains
from tests.long.process import end
from tests.long.readable import unreadable
from tests.long.report import Report, bar

CONFIGS = Path(__file__).parent / "killed"
MEMORY = Path("/dev/shm")  # where it is there: another file system than that of the runs
STEPS = 8  # of training for each kill, at least 40
EARLY = 0.2  # the share of kills that come before training has begun
LIMIT = 600.0  # seconds that nobody is waited for


@dataclass
class Alone:
    """A run that nobody disturbed, with the seconds that it took to begin and to train."""

    life: Life
    rows: list[Row]
    begins: float
    trains: float


@dataclass
class Found:
    """What the kills did."""

    kills: int = 0
    saving: int = 0  # kills that hit a file while it was written
    unreadable: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    written: int = 0  # rows of metrics.csv in all lives
    replayed: int = 0  # those of them that an earlier life had written too
    unequal: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    sockets: int = 0

    def compare(self, before: list[Row], after: list[Row], expected: list[Row]) -> None:
        """The rows that one life wrote, with those of the run that was left alone."""
        kept = 0
        while kept < min(len(before), len(after)) and before[kept] == after[kept]:  # with their clocks
            kept += 1
        self.written += len(after) - kept
        self.replayed += max(0, min(len(before), len(after)) - kept)
        for number, row in enumerate(map(timeless, after[kept:]), kept):
            wanted = expected[number] if number < len(expected) else {}
            if row != wanted:
                self.unequal.append(f"row {number}: {row} in place of {wanted}")
                return


def alone(life: Life) -> Alone:
    began = time.time()
    process = life.start()
    trains = until_it_trains(life, process, began)
    process.join(LIMIT)
    if process.exitcode != 0:
        end(process)
        raise RuntimeError(f"the run that was left alone ended with {process.exitcode}: {life.said()}")
    return Alone(life, [timeless(row) for row in life.rows()], trains - began, time.time() - trains)


def kills(life: Life, count: int, model: Alone, found: Found, chance: random.Random) -> Iterator[None]:
    """Kill the processes that train, one after another, until there were ``count`` kills or one has come to its end;
    then it may end.  Yields after each kill."""
    while not found.failed:
        before, process, began = life.rows(), life.start(), time.time()
        last = found.kills == count
        if last:
            process.join(LIMIT)
        elif chance.random() < EARLY:
            process.join(chance.uniform(0, model.begins))
        else:
            until_it_trains(life, process, began)
            ahead = model.trains * (1 - len(life.rows()) / len(model.rows))
            process.join(chance.uniform(0, min(2 * ahead / (count - found.kills), 0.9 * ahead)))
        killed = process.is_alive()
        end(process)
        process.join()
        found.compare(before, life.rows(), model.rows)
        if killed and not last:
            found.kills += 1
            found.saving += any(life.folder.rglob("*.partial"))
            found.unreadable += unreadable(life.run) if life.run else []
            yield
            continue
        if process.exitcode != 0:
            found.failed.append(f"exit code {process.exitcode}: {life.said()}")
        return


def examine(name: str, count: int, seed: int, place: Path) -> int:
    """Runs of a config, until ``count`` kills have hit a living process; prints what was found; the exit code."""
    with tempfile.TemporaryDirectory(prefix="zoo-kill-", dir=MEMORY if MEMORY.is_dir() else None) as memory:
        return kill_all(name, count, seed, place, Path(memory))


def kill_all(name: str, count: int, seed: int, place: Path, memory: Path) -> int:
    config, steps, chance, began = CONFIGS / f"{name}.yaml", max(40, STEPS * count), random.Random(seed), time.time()
    shared, found, differ = segments(), Found(), 0
    model = alone(Life(config, place / f"{name}-alone", memory / f"{name}-alone", steps))
    expected, progress, runs = model.life.tensors(), bar(range(count), f"kills of {name}", count), 0
    while found.kills < count and not found.failed:
        life = Life(config, place / f"{name}-{runs}", memory / f"{name}-{runs}", steps)
        for _ in kills(life, count, model, found, chance):
            next(progress)
        runs += 1
        if not found.failed:
            differ += len(unequal(life.tensors(), expected)) + abs(len(life.rows()) - len(model.rows))
            found.left += sorted(life.files().keys() - model.life.files().keys())
            found.sockets += life.sockets()
    next(progress, None)  # closes it
    report = Report(f"{name}: {steps} steps, seed {seed}, {time.time() - began:.0f} s")
    report.row("kills that hit a living process", found.kills, count)
    report.row("of them while a file was written", found.saving, "by chance", kept=True)
    report.row("files that could not be read after a kill", len(found.unreadable), 0)
    report.row("failed resumes", len(found.failed), 0)
    report.row(
        f"lives whose losses differ ({found.written} rows, {found.replayed} a second time)", len(found.unequal), 0
    )
    report.row(f"of {len(expected)} tensors and the rows in the end: how many differ", differ, 0)
    report.row("files left behind", len(found.left), 0)
    report.row("sockets of killed workers, of no bytes, left behind", found.sockets, "Python's own", kept=True)
    own = segments() - shared
    report.row("pieces of shared memory that killed workers left", len(own), "torch's own", kept=True)
    code = report.close()
    for line in (found.failed + found.unreadable + found.unequal + found.left)[:20]:
        print(line)
    return code


def segments() -> set[str]:
    """Shared memory whose makers are dead.  torch gives up the name of each piece at once, but not in the same moment:
    a kill in between leaves a piece of a hundred bytes or so, and nothing from within could prevent it."""
    found = (path.name for path in MEMORY.glob("torch_*"))
    return {name for name in found if not Path("/proc", name.split("_")[1]).exists()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.long.kill", description=__doc__)
    parser.add_argument("--count", type=int, default=50, help="kills for each config")
    parser.add_argument("--config", choices=["image", "text", "audio", "all"], default="image")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args()
    names = ["image", "text", "audio"] if options.config == "all" else [options.config]
    place = Path(tempfile.mkdtemp(prefix="zoo-kill-"))
    code = max([examine(name, options.count, options.seed, place) for name in names])
    if code:
        print(f"the runs are kept in {place}")
    else:
        shutil.rmtree(place)
    return code


if __name__ == "__main__":
    sys.exit(main())
