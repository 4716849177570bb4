"""Errors of what a checkpoint is put into: they are about a file, and name it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from lightning.pytorch import Trainer
from lightning.pytorch.trainer.connectors import checkpoint_connector

SHOWN = 240  # letters of an error that lists every weight


@contextmanager
def naming(trainer: Trainer) -> Iterator[None]:
    """Within it, what goes wrong while a Trainer restores a checkpoint is a ValueError in one sentence that begins with
    the checkpoint's path: Lightning and torch do not say which file does not fit."""
    try:
        yield
    except Exception as error:
        path = trainer.ckpt_path
        if not path or isinstance(error, OSError) or str(path) in str(error) or not restoring(error.__traceback__):
            raise
        raise ValueError(misfit(path, error)) from error


def restoring(place: TracebackType | None) -> bool:
    """Was an error raised while Lightning put a checkpoint into its places?"""
    while place is not None:
        if place.tb_frame.f_code.co_filename == checkpoint_connector.__file__:
            return True
        place = place.tb_next
    return False


def misfit(path: str | os.PathLike, error: Exception) -> str:
    """One sentence about a file whose content does not fit."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    if isinstance(error, (KeyError, AttributeError, IndexError, TypeError)):
        lines[0] = f"{type(error).__name__}: {lines[0]}"
    text = " ".join(lines)
    return f"{path} does not fit: {text if len(text) <= SHOWN else text[:SHOWN] + ' ...'}"
