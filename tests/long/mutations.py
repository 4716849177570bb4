"""``python -m tests.long.mutations``: damaged and hostile files of every kind, read through the command line."""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import zoo
from tests.long.cases import Case
from tests.long.configs import value_cases, yaml_cases
from tests.long.exports import damaged_exports
from tests.long.files import damaged_archives, damaged_audio, damaged_images, damaged_texts, damaged_tokenizers
from tests.long.process import run
from tests.long.report import Report, bar
from tests.long.watch import Watched
from tests.long.weights import CANARY, damaged_checkpoints
from zoo import files

LIMIT = 10.0  # seconds
MEMORY = 1e9  # bytes more than the controls of a kind take
MOST = 8e9  # bytes, for the sake of the machine
AT_ONCE = 2

EXECUTED, TRACEBACK, SIGNAL = "code executed, or a file written outside", "tracebacks", "ends by a signal"
HANG, GREED, CODE = "longer than 10 s", "more than 1 GB above the controls", "wrong exit codes"
LINE, CONTROL = "errors that are not one line that names the file", "controls that were refused"
PROMISES = (EXECUTED, TRACEBACK, SIGNAL, HANG, GREED, CODE, LINE, CONTROL)

SMALL = """\
model:
  class_path: CausalLM
  init_args:
    tokenizer: {class_path: BPE, init_args: {file: docs-2048}}
    backbone: {class_path: LLaMA, init_args: {dim: 16, depth: 1, heads: 2, hidden: 16}}
data:
  class_path: Text
  init_args: {root: TEXT, length: 16, batch_size: 4}
trainer: {max_steps: 2, val_check_interval: 2, limit_val_batches: 2, enable_progress_bar: false}
"""


@dataclass
class Outcome:
    """What a case did."""

    case: Case
    code: int | None  # of its exit, or minus the number of a signal; None where it was ended from here
    seconds: float
    peak: int  # bytes
    said: str  # on stderr
    printed: str
    executed: bool  # has a file of the hostile code's appeared meanwhile?
    broken: list[str] = field(default_factory=list)  # the promises


def sound(folder: Path) -> tuple[Path, Path, Path]:
    """A run, its export in one file, and in shards."""
    (folder / "text.txt").write_text("The old man and the sea, and what they said. " * 60)
    (folder / "small.yaml").write_text(SMALL.replace("TEXT", str(folder / "text.txt")))
    log = folder / "small.log"
    if run(["fit", "--config=small.yaml"], folder, log):
        raise RuntimeError(log.read_text())
    trained = next(folder.glob("runs/small-*"))
    if run(["convert", str(trained), "whole"], folder, log):
        raise RuntimeError(log.read_text())
    size, files.SHARD = files.SHARD, "20KB"
    zoo.save(zoo.load(folder / "whole"), folder / "sharded")
    files.SHARD = size
    return trained, folder / "whole", folder / "sharded"


def outcomes(cases: Iterable[Case], folder: Path) -> Iterator[Outcome]:
    """What each case does in the directory ``folder``, ``AT_ONCE`` of them at a time."""
    waiting, going, seen = enumerate(cases), [], canaries(folder)
    while True:
        while len(going) < AT_ONCE and (following := next(waiting, None)):
            number, case = following
            place = folder / f"said-{number}"
            place.mkdir()
            logs = place / "printed", place / "errors"
            going.append((case, logs, Watched(case.words, folder, *logs, case.environment)))
        if not going:
            return
        for item in [item for item in going if not item[2].look(LIMIT, MOST)]:
            going.remove(item)
            case, logs, process = item
            found = canaries(folder)
            printed, said = map(text, logs)
            yield Outcome(case, process.code, process.seconds, process.peak, said, printed, found > seen)
            seen = found
        time.sleep(0.01)


def canaries(folder: Path) -> set[Path]:
    """What hostile code or archives have written, also beside the folder."""
    walk = os.walk(folder.parent)  # which passes over what another process has just removed
    found = (Path(place, name) for place, folders, files in walk for name in folders + files)
    return {path for path in found if CANARY in path.name or path.parent.name == "outside"}


def text(path: Path) -> str:
    return path.read_text(errors="replace").strip() if path.is_file() else ""


def judge(outcome: Outcome, ordinary: int) -> None:
    """Note which promises were broken; ``ordinary`` is the memory in bytes that controls take."""
    case, code, broken = outcome.case, outcome.code, outcome.broken
    if outcome.executed:
        broken.append(EXECUTED)
    if "Traceback (most recent call last)" in outcome.said + outcome.printed:
        broken.append(TRACEBACK)
    if outcome.peak > ordinary + MEMORY:
        broken.append(GREED)
    if code is None:
        broken += [HANG] * (outcome.seconds > LIMIT)
    elif code < 0:
        broken.append(SIGNAL)
    elif case.control:
        broken += [CONTROL] * (code != 0)
    elif code == 0:
        broken += [CODE] * (not case.may_load)
    elif code not in (1, 2):
        broken.append(CODE)
    elif len(outcome.said.splitlines()) != 1 or Path(case.file).name not in outcome.said:
        broken.append(LINE)


def makers(folder: Path, count: int) -> dict[str, Callable[[Path], Iterator[Case]]]:
    """What makes the cases of each kind in a directory, at least ``count`` where more can be made."""
    trained, whole, sharded = sound(folder)
    return {
        "checkpoint": lambda place: damaged_checkpoints(place, trained, count),
        "export": lambda place: damaged_exports(place, whole, sharded, count),
        "image": lambda place: damaged_images(place, count),
        "audio": lambda place: damaged_audio(place, count),
        "text": lambda place: damaged_texts(place, count),
        "tokenizer": lambda place: damaged_tokenizers(place, count),
        "archive": lambda place: damaged_archives(place, count),
        "config": lambda place: itertools.chain(yaml_cases(place), value_cases(place)),
    }


def attempt(kind: str, cases: list[Case], folder: Path, report: Report) -> list[Outcome]:
    """All cases of a kind, with a row in the report; prints those that broke a promise."""
    found = list(bar(outcomes(cases, folder), kind, len(cases)))
    ordinary = max(outcome.peak for outcome in found if outcome.case.control)
    for outcome in found:
        judge(outcome, ordinary)
    damaged = [outcome for outcome in found if not outcome.case.control]
    read = sum(outcome.code == 0 for outcome in damaged)
    more = max(outcome.peak for outcome in found) - ordinary
    slowest = max(outcome.seconds for outcome in found)
    report.row(
        f"{kind}: {len(damaged)} damaged, {read} of them harmless, {len(found) - len(damaged)} controls",
        f"{sum(bool(outcome.broken) for outcome in found)} bad, {slowest:.1f} s, {more / 1e6:+.0f} MB",
        "0 bad, 10 s, +1000 MB",
        kept=not any(outcome.broken for outcome in found),
    )
    for outcome in found:
        if outcome.broken:
            print(f"{kind}, {outcome.case.name}: {', '.join(outcome.broken)}: {outcome.said[-500:]}", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.long.mutations", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="damaged files of each kind, about")
    parser.add_argument("--kind", action="append", help="only this one; may be given again")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="zoo-mutations-"))
    report, found = Report("damaged files through the command line"), []
    for kind, make in makers(folder, options.count).items():
        if options.kind is None or kind in options.kind:
            place = folder / kind
            place.mkdir()
            found += attempt(kind, list(make(place)), place, report)
    for promise in PROMISES:
        report.row(promise, sum(promise in outcome.broken for outcome in found), 0)
    code = report.close()
    shutil.rmtree(folder)
    return code


if __name__ == "__main__":
    sys.exit(main())
