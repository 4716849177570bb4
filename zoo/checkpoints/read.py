"""Reads a checkpoint that is whole, plain, of Lightning's form and of a known schema, or says in a sentence why not."""

from __future__ import annotations

import os
import re
import struct
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import torch

from zoo.checkpoints.form import require_form
from zoo.checkpoints.schema import KEY, migrate, require_lightning, schema_of
from zoo.checkpoints.seal import sealed
from zoo.checkpoints.sharded import META, fill

FOREIGN = "://"  # what a URL has, and a path has not
CODE = re.compile(r"GLOBAL (\S+)")
DAMAGED = "is no checkpoint, or was cut off"


def read_checkpoint(
    path: str | os.PathLike, map_location: Any = "cpu", shown: str | None = None, empty: bool = False
) -> dict[str, Any]:
    """The dictionary that Lightning saved, checked and migrated to today's schema; ``zoo.file`` in it is ``path``, a
    file or a folder of shards, which is put together, or, where ``empty``, left without values for ``fill_places``.

    The seal is compared (without one, the checksums that a zip has of each part); no code in the file is run.  The path
    is ``shown`` in errors under another name, if one is given.  Raises ValueError, in one sentence that begins with the
    path, for a URL and for a file that is damaged, foreign or newer; OSError where it cannot be read.
    """
    shown = str(path) if shown is None else shown
    if FOREIGN in str(path):
        raise ValueError(f"{shown} is a URL; checkpoints are read from this machine: download it, or allow remote ones")
    try:
        folder = Path(path) if os.path.isfile(os.path.join(path, META)) else None
        with open(folder / META if folder else path, "rb") as file:
            checkpoint = content(file, map_location, folder, empty)
    except ValueError as error:
        raise ValueError(f"{shown} {error}") from error
    checkpoint[KEY]["file"] = shown
    return checkpoint


def newest(paths: Iterable[str | os.PathLike]) -> tuple[Path | None, list[str]]:
    """The good checkpoint that has trained the most steps (of equals, the one written last), and a sentence for each
    that was refused.  None where none is good."""
    found: list[tuple[int, float, Path]] = []
    refused = []
    for path in map(Path, paths):
        try:
            steps = read_checkpoint(path, "meta")["global_step"]
            found.append((steps, path.stat().st_mtime, path))
        except ValueError as error:
            refused.append(str(error))
        except OSError as error:
            refused.append(f"{path} cannot be read: {error.strerror or error}")
    return max(found)[2] if found else None, refused


def glance(path: str | os.PathLike) -> None:
    """Raise ValueError for a file that cannot be a checkpoint; cheap: its content is not read."""
    with open(path, "rb") as file:
        try:
            require_zip(file, os.fstat(file.fileno()).st_size)
        except ValueError as error:
            raise ValueError(f"{path} {error}; give another one with --ckpt_path") from error


def content(file: IO[bytes], map_location: Any, folder: Path | None = None, empty: bool = False) -> dict[str, Any]:
    """What is in an open file, and in the ``folder`` of which it is the ``meta.pt``.  Raises ValueError with a sentence
    that lacks its subject, the file."""
    size = os.fstat(file.fileno()).st_size
    require_zip(file, size)
    whole = sealed(file, size)
    if whole is False:
        raise ValueError("does not match its seal: it was damaged or changed after it was written; use another one")
    if whole is None:
        require_checksums(file)
    file.seek(0)
    checkpoint = unpickled(file, map_location)
    if not isinstance(checkpoint, dict):
        raise ValueError(f"holds no checkpoint of Lightning but a {type(checkpoint).__name__}")
    require_lightning(checkpoint)
    if whole is None and schema_of(checkpoint) > 1:
        raise ValueError("has lost its seal: it was damaged or changed after it was written; use another one")
    checkpoint = migrate(checkpoint)
    if folder:
        size += fill(checkpoint, folder, "meta" if empty else map_location)
    require_form(checkpoint, size, empty=empty or map_location == "meta")
    return checkpoint


def require_zip(file: IO[bytes], size: int) -> None:
    """Raise ValueError for all but a zip of plain parts, which together are no larger than the file."""
    try:
        parts = zipfile.ZipFile(file).infolist()
    except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, struct.error) as error:
        raise ValueError(DAMAGED) from error
    names = [part.filename for part in parts]
    packed = any(part.compress_type != zipfile.ZIP_STORED or part.flag_bits & 1 for part in parts)
    if packed or len({*names}) < len(names) or sum(part.file_size for part in parts) > size:
        raise ValueError("is a zip, but not one that torch writes")
    if not any(name.endswith("/data.pkl") for name in names):
        raise ValueError("is a zip, but no checkpoint")


def require_checksums(file: IO[bytes]) -> None:
    """Raise ValueError where a part of a zip does not have the checksum that stands beside it."""
    try:
        wrong = zipfile.ZipFile(file).testzip()
    except Exception as error:  # headers that contradict each other raise all kinds
        raise ValueError(DAMAGED) from error
    if wrong is not None:
        raise ValueError(f"is damaged: {wrong} does not have its checksum; use another one")


def unpickled(file: IO[bytes], map_location: Any) -> Any:
    """Plain values and tensors: code in a file is never run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(file, map_location=map_location, weights_only=True)
    except Exception as error:  # torch.load has no error of its own
        found = CODE.search(str(error))
        if found:
            raise ValueError(f"holds {found[1]}, which is code and not a plain value; it was not run") from error
        raise ValueError("is damaged, or no checkpoint of plain values and tensors") from error
