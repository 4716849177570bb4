"""``python -m tests.long.crash_points``: a kill and every error of the disk at each system call of a save: the old file
or the new one is there, and a save that failed says so.  Needs strace, which makes the errors."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from tests.checkpoints.example import example
from tests.long.report import Report, bar
from zoo import files
from zoo.checkpoints import AtomicCheckpointIO, read_checkpoint
from zoo.cli.errors import guarded
from zoo.tokenizers.reading import read_json

CALLS = "openat,write,writev,pwrite64,copy_file_range,sendfile,fsync,fdatasync,ftruncate,fallocate,lseek,flock,close"
CALLS += ",rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,rmdir,chmod,fchmod"
FAULTS = ("kill", "ENOSPC", "EIO")
OLD, NEW, REFUSED = "old", "new", "refused"


@dataclass
class Save:
    """A way to save, and to find out what stands there."""

    name: str
    save: Callable[[Path, int], None]  # a version of the content
    found: Callable[[Path], str]
    kept: tuple[str, ...]  # what may be found after a stop
    left: set[str]  # the files of a save that ended well


def save_checkpoint(folder: Path, version: int) -> None:
    checkpoint = example(version)
    checkpoint["state_dict"]["large"] = torch.full((100_000,), float(version))
    AtomicCheckpointIO().save_checkpoint(checkpoint, folder / "last.ckpt")


def found_checkpoint(folder: Path) -> str:
    return (OLD, NEW)[read_checkpoint(folder / "last.ckpt")["global_step"] - 1]


def save_export(folder: Path, version: int) -> None:
    state = {name: torch.full((5000,), float(version)) for name in "abcde"}
    files.SHARD = 40_000
    files.write(folder, {"version": version}, {"tokenizer.json": f'{{"version": {version}}}'}, state)


def found_export(folder: Path) -> str:
    """Refused, where any of the files that a loader needs is; never one model's weights with another's config."""
    try:
        versions = {float(value) for tensor in files.read_weights(folder).state.values() for value in tensor.unique()}
        versions |= {read_json(folder / name)["version"] for name in ("config.json", "tokenizer.json")}
    except ValueError:
        return REFUSED
    return {1.0: OLD, 2.0: NEW}[versions.pop()] if len(versions) == 1 else f"a mixture of {sorted(versions)}"


SHARDS = {f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)}
EXPORTED = {*SHARDS, "model.safetensors.index.json", "config.json", "tokenizer.json", files.SUMS}
SAVES = (
    Save("checkpoint", save_checkpoint, found_checkpoint, (OLD, NEW), {"last.ckpt"}),
    Save("export in shards", save_export, found_export, (OLD, NEW, REFUSED), EXPORTED),
)


def available() -> bool:
    """Is there a strace that may watch?"""
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], capture_output=True, check=False).returncode == 0


def points(save: Save, folder: Path) -> list[tuple[str, int]]:
    """The system calls of a save, in order: the name of each, and how many of that name came before it, from 1."""
    _, said = traced(save, folder, [])
    counts: Counter[str] = Counter()
    calls = []
    for line in said.splitlines():
        if call := re.match(r"(?:\d+ +)?(\w+)\(", line):
            counts[call[1]] += 1
            calls.append((call[1], counts[call[1]]))
    return calls


def traced(save: Save, folder: Path, inject: list[str]) -> tuple[int, str]:
    """A process that saves the new version -> its exit code, and what strace said of it."""
    ready, begin = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.dup2(os.open(folder.parent / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115 -- pytest has put another in its place
            os.write(ready[1], b"x")
            os.read(begin[0], 1)
            code = guarded(lambda: save.save(folder, 2))
        finally:
            os._exit(code)
    os.read(ready[0], 1)
    log = folder.parent / "calls"
    words = ["strace", "-f", "-e", f"trace={CALLS}", *inject, "-o", str(log), "-p", str(child)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as strace:
        assert strace.stderr is not None
        line = strace.stderr.readline()
        assert "attached" in line, line
        os.write(begin[1], b"x")
        _, status = os.waitpid(child, 0)
    for end in (*ready, *begin):
        os.close(end)
    return os.waitstatus_to_exitcode(status), log.read_text()


def attempt(save: Save, work: Path, fault: str, call: str, place: int) -> str | None:
    """One fault at one call; None where all is as it should be, else what is wrong."""
    folder = fresh(save, work)
    what = "signal=KILL" if fault == "kill" else f"error={fault}"
    code, _ = traced(save, folder, ["-e", f"inject={call}:{what}:when={place}"])
    found, said = save.found(folder), (work / "said").read_text().splitlines()
    if found not in save.kept:
        return f"{found} is there"
    if fault == "kill":
        save.save(folder, 2)
        left = {path.name for path in folder.iterdir()}
        return None if save.found(folder) == NEW and left == save.left else f"afterwards there are {left}"
    if code == 0:
        return None if found == NEW else f"it said nothing, and {found} is there"
    one = len(said) == 1 and said[0].startswith("zoo: error: cannot write ") and str(folder) in said[0]
    return None if code == 1 and one else f"exit code {code}, and {said}"


def fresh(save: Save, work: Path) -> Path:
    """A directory with the old version in it."""
    folder = work / "place"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    save.save(folder, 1)
    return folder


def every(save: Save, work: Path, fault: str, count: int | None = None) -> Iterator[tuple[str, str | None]]:
    """A fault at each call, or at about ``count`` of them that are spread over the save -> the call, what is wrong."""
    calls = points(save, fresh(save, work))
    step = 1 if count is None else max(1, len(calls) // count)
    for call, place in bar(calls[::step], f"{save.name}, {fault}"):
        yield f"{call} {place}", attempt(save, work, fault, call, place)


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.long.crash_points", description=__doc__)
    parser.add_argument("--count", type=int, help="calls of each save at which it is tried (default: all)")
    options = parser.parse_args()
    if not available():
        print("this test needs strace, and that it may trace processes (ptrace)", file=sys.stderr)
        return 2
    report = Report("A save that is stopped or fails, at every system call")
    for elsewhere in (tempfile.gettempdir(), "/dev/shm"):
        tempfile.tempdir = elsewhere
        with tempfile.TemporaryDirectory(dir="/var/tmp") as work:
            for save in SAVES:
                for fault in FAULTS:
                    tried = list(every(save, Path(work), fault, options.count))
                    for call, wrong in tried:
                        if wrong:
                            print(f"{save.name}, {fault} at {call}: {wrong}", file=sys.stderr)
                    good = sum(wrong is None for _, wrong in tried)
                    report.row(
                        f"{save.name}, {fault}, TMPDIR in {elsewhere}",
                        f"{good} of {len(tried)}",
                        "all",
                        good == len(tried),
                    )
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
