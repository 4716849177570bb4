"""``python -m tests.long.disk``: a disk that fails a run in five ways, and the checkpoint that is there afterwards.

Needs the rights of root, and setpriv.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.long.report import Report, bar
from zoo.checkpoints import read_checkpoint

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "tests" / "fixtures" / "classify.yaml"
NOBODY = 65534
BOUND = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")  # permissions bind root too
LIMIT = 120.0  # seconds for a run to begin, or to end after it was troubled
QUIET = ("--trainer.enable_progress_bar=false", "--trainer.callbacks+=Pictures", "--trainer.callbacks.every=1000000")
ENDLESS = (*QUIET, "--trainer.max_epochs=1000000", "--trainer.max_time=00:00:03:00")
FEW = (*QUIET, "--trainer.max_epochs=3")


@dataclass
class Run:
    """``fit`` in a directory, by a user whom permissions bind."""

    process: subprocess.Popen
    folder: Path

    def wait_for(self, name: str, beyond: float = 0.0) -> Path:
        """A checkpoint that is written after that time."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            found = [path for path in self.folder.glob(f"runs/*/checkpoints/{name}") if path.stat().st_mtime > beyond]
            if found:
                return found[0]
            assert self.process.poll() is None, self.folder.with_suffix(".said").read_text()
            time.sleep(0.1)
        raise TimeoutError(f"{self.folder} has no {name} after {LIMIT:.0f} s")

    def end(self) -> tuple[int, list[str]]:
        """The exit code, and what it said on stderr."""
        try:
            code = self.process.wait(LIMIT)
        finally:
            self.process.kill()
        return code, self.folder.with_suffix(".said").read_text().splitlines()


def begin(folder: Path, *given: str, temporary: Path | None = None) -> Run:
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder), "WANDB_MODE": "offline"}
    if temporary is not None:
        environment["TMPDIR"] = str(temporary)
    with folder.with_suffix(".said").open("w") as said:
        words = [*BOUND, sys.executable, "-m", "zoo", "fit", *given]
        process = subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=said)
    return Run(process, folder)


def mounted(folder: Path, size: str) -> Path:
    """A small file system in memory."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=1777", "tmpfs", str(folder)], check=True)
    return folder


def fill(folder: Path) -> None:
    """Take all the room that there is."""
    with (folder / "filling").open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            while True:
                try:
                    file.write(bytes(size))
                except OSError:
                    break


Outcome = tuple[int, list[str], Path]  # exit code, stderr, the checkpoint that must be whole


def directory_full(work: Path) -> Outcome:
    folder = mounted(work / "small", "4m")
    run = begin(folder, "--config", str(CONFIG), *ENDLESS)
    path = run.wait_for("last.ckpt")
    fill(folder)
    return (*run.end(), path)


def temporary_directory_full(work: Path) -> Outcome:
    """Nothing that we write goes there."""
    temporary = mounted(work / "temporary", "64k")
    fill(temporary)
    run = begin(work / "run", "--config", str(CONFIG), *FEW, temporary=temporary)
    path = run.wait_for("last.ckpt")
    return (*run.end(), path)


def file_size_limit(work: Path) -> Outcome:
    run = begin(work / "limited", "--config", str(CONFIG), *ENDLESS)
    path = run.wait_for("last.ckpt")
    resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (20_000, 20_000))
    return (*run.end(), path)


def unwritable(work: Path) -> Outcome:
    run = begin(work / "unwritable", "--config", str(CONFIG), *FEW)
    path = run.wait_for("last.ckpt")
    run.end()
    os.chown(path.parent, NOBODY, NOBODY)
    again = begin(work / "unwritable", str(path.parents[1]), "--trainer.max_epochs=6")
    return (*again.end(), path)


def turned_read_only(work: Path) -> Outcome:
    run = begin(work / "turned", "--config", str(CONFIG), *ENDLESS)
    path = run.wait_for("last.ckpt")
    os.chmod(path.parent, 0o555)
    return (*run.end(), path)


CASES: dict[str, Callable[[Path], Outcome]] = {
    "directory full": directory_full,
    "temporary directory full": temporary_directory_full,
    "file size limit": file_size_limit,
    "directory of another user": unwritable,
    "turned read-only in training": turned_read_only,
}


def attempt(case: Callable[[Path], Outcome]) -> str | None:
    """What is wrong; None where the run ended as it should."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        try:
            code, said, path = case(Path(place))
            read_checkpoint(path)
        except (ValueError, OSError, AssertionError) as error:
            return str(error)
        finally:
            for folder in filter(Path.is_dir, Path(place).iterdir()):
                if folder.is_mount():
                    subprocess.run(["umount", "-l", str(folder)], check=True)
        if case is temporary_directory_full:
            return None if code == 0 else f"exit code {code}, {said}"
        told = len(said) == 1 and said[0].startswith("zoo: error: cannot write ") and "/" in said[0]
        return None if code == 1 and told else f"exit code {code}, {said}"


def main() -> int:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        print("this test needs the rights of root, and setpriv", file=sys.stderr)
        return 2
    report = Report("A disk that fails a run: exit code 1 and one line, and the checkpoint before it is whole")
    for name, case in bar(CASES.items(), "cases"):
        promised = "trained to its end" if case is temporary_directory_full else "told"
        wrong = attempt(case)
        report.row(name, wrong or promised, promised)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
