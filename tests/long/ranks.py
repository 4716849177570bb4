"""``python -m tests.long.ranks``: one of two processes fails, in every way and on either rank; the other ends too."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import zip_longest
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.long.faults import KINDS
from tests.long.life import Life, timeless, unequal
from tests.long.process import end, start
from tests.long.report import Report, bar
from zoo.checkpoints import read_checkpoint

CONFIG = Path(__file__).with_name("failing.yaml")
ROOT = Path(__file__).resolve().parent.parent.parent
STEPS, LIMIT = 30, 10.0  # two epochs and a bit; the limit of CONFIG's watchdog
CODES = {"SIGKILL": 137, "segfault": 139}  # else 1
MARK = "ZOO_TEST_RANKS"  # in the environment of all processes of a run
HANGS = ("hang", "SIGSTOP")


@dataclass
class Failure:
    """What came of a failure."""

    life: Life
    code: int | None
    seconds: float  # from the failure until all processes were gone
    lines: list[str]  # on stderr and stdout, after the failure

    @property
    def cause(self) -> str:
        return next((line for line in self.lines if line.startswith("zoo: error: ")), "")


def life(place: Path, name: str) -> Life:
    made = Life(CONFIG, place / name, place / f"{name}-temporary", STEPS)
    shutil.copy(Path(__file__).with_name("faults.py"), made.folder)
    return made


def launch(made: Life, words: list[str]) -> BaseProcess:
    environment = {
        "TMPDIR": str(made.temporary),
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        MARK: str(made.folder),
    }
    return start(["fit", *words, "--allow", "faults"], made.folder, made.log, environment)


def train(made: Life, words: list[str]) -> tuple[int | None, float]:
    """The exit code of ``fit``, and the time when the last of its processes was gone."""
    process = launch(made, words)
    process.join(120)
    code = process.exitcode
    if code is None:
        end(process)  # the others follow by themselves
    until = time.time() + 15
    while living(made.folder) and time.time() < until:
        time.sleep(0.05)
    return code, time.time()


def begin(made: Life) -> tuple[int | None, float]:
    return train(made, [f"--config={CONFIG}", f"--trainer.max_steps={STEPS}"])


def go_on(made: Life) -> int | None:
    assert made.run is not None
    return train(made, [str(made.run.relative_to(made.folder))])[0]


def living(folder: Path) -> list[int]:
    """The processes of the run that works in a directory: also those that nobody knows any more."""
    found, mark = [], f"{MARK}={folder}".encode()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
        except OSError:
            continue
    return found


def fail(place: Path, kind: str, rank: int) -> Failure:
    made = life(place, f"{kind.strip('()0')}-{rank}")
    (made.folder / "fault").write_text(f"{kind} {rank}")
    code, gone = begin(made)
    happened = (made.folder / "failed").stat().st_mtime if (made.folder / "failed").exists() else float("nan")
    said = made.log.read_text(errors="replace").splitlines()
    first = next((number for number, line in enumerate(said) if line.startswith("zoo: error: ")), len(said))
    sample = next((number for number, line in enumerate(said) if "FLOP a sample" in line), -1)
    return Failure(made, code, gone - happened, said[min(first, sample + 1) :])


def promises(failure: Failure, kind: str, rank: int) -> list[str]:
    """Those that are broken; empty where all is as it should be."""
    most = 2 * LIMIT if kind in HANGS else 15.0
    checks = {
        f"exit code {failure.code}": failure.code == CODES.get(kind, 1),
        f"after {failure.seconds:.1f} s": failure.seconds < most,
        f"{len(failure.lines)} lines": len(failure.lines) <= 10,
        f"said {failure.cause!r}": f"rank {rank}" in failure.cause,
        f"still there: {living(failure.life.folder)}": not living(failure.life.folder),
        f"temporary files: {[*failure.life.temporary.glob('zoo*')]}": not [*failure.life.temporary.glob("zoo*")],
    }
    return [what for what, kept in checks.items() if not kept]


def goes_on(failure: Failure, alone: Life) -> list[str]:
    """What differs, once it was gone on with, from the run that did not fail."""
    made = failure.life
    read_checkpoint(made.run / "checkpoints" / "last.ckpt" if made.run else made.folder)
    code = go_on(made)
    if code:
        return [f"going on ended with {code}: {made.said()}"]
    rows = [timeless(row) for row in made.rows()], [timeless(row) for row in alone.rows()]
    differ = len(unequal(made.tensors(), alone.tensors())) + sum(one != other for one, other in zip_longest(*rows))
    return [f"{differ} tensors and rows of metrics.csv differ"] if differ else []


def main(kinds: list[str], ranks: list[int]) -> int:
    place = Path(tempfile.mkdtemp(prefix="long-ranks-"))
    report = Report("one of two processes fails")
    alone = life(place, "alone")
    assert begin(alone)[0] == 0, alone.said()
    slowest = {True: 0.0, False: 0.0}
    for kind, rank in bar([(kind, rank) for kind in kinds for rank in ranks], "failures"):
        failure = fail(place, kind, rank)
        slowest[kind in HANGS] = max(slowest[kind in HANGS], failure.seconds)
        broken = promises(failure, kind, rank) or goes_on(failure, alone)
        report.row(
            f"{kind} on rank {rank}: {failure.cause}", "; ".join(broken) or "all ended, goes on bitwise", "", not broken
        )
    report.row("seconds until all were gone, at most", f"{slowest[False]:.1f}", "15.0", slowest[False] < 15)
    report.row(f"those that hung, limit {LIMIT:.0f}", f"{slowest[True]:.1f}", 2 * LIMIT, slowest[True] < 2 * LIMIT)
    code = report.close()
    if code == 0:
        shutil.rmtree(place)
    return code


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--ranks", nargs="+", type=int, choices=(0, 1), default=[0, 1])
    given = parser.parse_args()
    sys.exit(main(given.kinds, given.ranks))
