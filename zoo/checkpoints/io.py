"""The plugin with which Lightning writes checkpoints whole or not at all, and reads them only when they are whole."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.utilities.cloud_io import get_filesystem
from lightning.pytorch.plugins.io import CheckpointIO

from zoo.atomic import PARTIAL, replaced, sweep, synchronise, told
from zoo.checkpoints.plain import require_plain
from zoo.checkpoints.read import FOREIGN, read_checkpoint
from zoo.checkpoints.schema import stamped
from zoo.checkpoints.seal import Sealing


class AtomicCheckpointIO(CheckpointIO):
    """``Trainer(plugins=[AtomicCheckpointIO()])``: a kill, a full disk or the loss of power during a save leaves the
    old checkpoint or the new one, and a changed bit is refused on reading.

    A checkpoint is streamed into a hidden file beside its place, brought to the disk and renamed.  It remains a file of
    ``torch.save``: Lightning, ``torch.load`` and ``zipfile`` read it.  Nothing is ever unpickled that could run code.
    """

    def __init__(self, allow_remote: bool = False):
        """``allow_remote``: may a checkpoint be read from a URL?  It is copied to this machine, then checked as any."""
        self.allow_remote = allow_remote

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike, storage_options: Any | None = None
    ) -> None:
        """Raises ValueError, naming the key, for what could not be read back, and OSError where the disk fails."""
        if storage_options is not None:
            raise ValueError(f"{path}: storage_options={storage_options!r} are for remote stores, and files have none")
        if FOREIGN in str(path):
            raise ValueError(f"{path} is a URL; checkpoints are saved in a directory, to be copied from there")
        write(checkpoint, Path(path))

    def load_checkpoint(
        self,
        path: str | os.PathLike,
        map_location: Any | None = "cpu",
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        """A checkpoint that is whole and of today's schema.  ``weights_only`` is always true.

        Raises ValueError for one that is damaged, foreign or newer, FileNotFoundError where there is none.
        """
        if FOREIGN in str(path) and self.allow_remote:
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder) / "remote.ckpt"
                fetch(str(path), copy)
                return read_checkpoint(copy, map_location, shown=str(path))
        return read_checkpoint(path, map_location)

    def remove_checkpoint(self, path: str | os.PathLike) -> None:
        """Raises OSError, except where there is none any more."""
        path = Path(path)
        try:
            if path.is_dir():
                set_aside(path)
            path.unlink(missing_ok=True)
            if path.parent.is_dir():
                synchronise(path.parent)
        except OSError as error:
            raise told(error, f"cannot remove {path}") from error


def write(checkpoint: dict[str, Any], path: Path) -> None:
    """One checkpoint, whole or not at all.  Raises as ``AtomicCheckpointIO.save_checkpoint``."""
    try:
        require_plain(checkpoint)
    except ValueError as error:
        raise ValueError(f"cannot write {path}: {error}") from None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise told(error, f"cannot write {path}") from error
    sweep(path.parent, path.name)
    if path.is_dir():  # what another strategy wrote there
        fresh = path.with_name(f"{path.name}.new")
        with replaced(fresh, "wb") as file:
            stream(stamped(checkpoint), Sealing(file))
        set_aside(path)
        os.replace(fresh, path)
        synchronise(path.parent)
        return
    with replaced(path, "wb") as file:
        stream(stamped(checkpoint), Sealing(file))


def set_aside(folder: Path) -> None:
    """Remove a folder of shards: its name at once, then what is in it.  Raises OSError."""
    old = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}{PARTIAL}")
    os.replace(folder, old)
    shutil.rmtree(old, ignore_errors=True)


def stream(checkpoint: dict[str, Any], file: Sealing) -> None:
    """``torch.save``, and the seal."""
    torch.save(checkpoint, file)
    file.seal()


def fetch(url: str, path: Path) -> None:
    """A copy of what is at a URL.  Raises OSError where it does not come."""
    try:
        get_filesystem(url).get_file(url, str(path))
    except Exception as error:  # each protocol has a client of its own
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise OSError(f"{url} could not be read: {reason}") from error
