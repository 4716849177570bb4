"""Files that are replaced at once: a reader meets the old content or the new, whenever the writer is stopped."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed anyway
    fcntl = None  # type: ignore[assignment]

PARTIAL, WORK = ".partial", "saving"
LEFT = re.compile(r"\..+\.[0-9a-f]{8}\.partial")  # what a stopped process leaves behind
OPEN_ALREADY = (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))  # links here are not files to be replaced


@contextlib.contextmanager
def replaced(path: str | os.PathLike, mode: str = "w") -> Iterator[IO[Any]]:
    """A file to write to (``mode`` "w", UTF-8 with line ends as they are, or "wb"), which takes the place of ``path``
    when the ``with`` ends without an error.

    What is written is on the disk before the name is, and the name before the ``with`` ends, so that neither a kill nor
    the loss of power leaves half a file.  The file is made in the directory of ``path``: a rename is at once only
    within one file system.  A link is replaced, and not what it points to.  A device or a pipe is written directly.
    Raises OSError, in one sentence with path and cause.
    """
    path = Path(path)
    if path.exists() and (not path.is_file() or path.parent in OPEN_ALREADY):
        with _opened(path, mode) as file:
            yield file
        return
    try:
        partial, descriptor = _created(path)
    except OSError as error:
        raise told(error, f"cannot write {path}") from error
    try:
        with _opened(descriptor, mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is not None:
                os.replace(partial, path)  # while it is locked
        if fcntl is None:
            os.replace(partial, path)
        synchronise(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):  # of the two errors, the first says more
            os.unlink(partial)
        if isinstance(error, OSError) and error.filename in (None, str(partial), str(path.parent)):
            raise told(error, f"cannot write {path}") from error
        raise


def write_text(path: str | os.PathLike, text: str) -> None:
    """A text file, as ``replaced`` does it."""
    with replaced(path) as file:
        file.write(text)


@contextlib.contextmanager
def workshop(folder: str | os.PathLike) -> Iterator[Path]:
    """A directory within ``folder`` for files that will be moved into it; it goes when the ``with`` ends, and by
    ``sweep`` where a process was stopped before."""
    work = Path(folder) / f".{WORK}.{secrets.token_hex(4)}{PARTIAL}"
    work.mkdir()
    descriptor = os.open(work, os.O_RDONLY) if fcntl is not None else -1
    try:
        if fcntl is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if fcntl is not None:
            os.close(descriptor)


def sweep(folder: str | os.PathLike, name: str = "*") -> None:
    """Remove the unfinished files for ``name`` (a pattern; "*" is everything) that stopped processes left in a
    directory; those that are being written are locked, and stay.  Nothing depends on it, so it raises nothing."""
    found: list[Path] = []
    with contextlib.suppress(OSError):
        found += Path(folder).glob("*" if name == "*" else f".{glob.escape(name)}.*")
    for partial in found:
        if LEFT.fullmatch(partial.name):
            with contextlib.suppress(OSError), unlocked(partial):
                shutil.rmtree(partial) if partial.is_dir() else partial.unlink()


@contextlib.contextmanager
def unlocked(path: Path) -> Iterator[None]:
    """Raises OSError where somebody works on a file or directory."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def told(error: OSError, what: str, advice: str = "") -> OSError:
    """The same error in one sentence: what could not be done with which path, the cause, and what to do."""
    cause = error.strerror or str(error)
    fresh = type(error)(f"{what}: {cause[:1].lower()}{cause[1:]}" + (f"; {advice}" if advice else ""))
    fresh.errno = error.errno
    return fresh


def synchronise(path: str | os.PathLike) -> None:
    """Bring a file, or the names in a directory, to the disk.  Raises OSError."""
    if os.name == "nt":  # a directory cannot be opened there
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems without such a thing
            raise
    finally:
        os.close(descriptor)


def _created(path: Path) -> tuple[Path, int]:
    """A new file beside ``path``, open and locked, with the permissions that files get here."""
    while True:
        partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PARTIAL}")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        if fcntl is not None:
            with contextlib.suppress(OSError):  # file systems without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink:  # a sweep may have come between
            return partial, descriptor
        os.close(descriptor)


def _opened(file: Path | int, mode: str) -> IO[Any]:
    return open(file, mode) if "b" in mode else open(file, mode, newline="", encoding="utf-8")
