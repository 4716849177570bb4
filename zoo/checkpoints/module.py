"""A LightningModule from a checkpoint: what Lightning makes of it, once it is known to be whole."""

from __future__ import annotations

import os
from typing import Any, TypeVar

import lightning.pytorch as pl
import torch
from lightning.pytorch.core.saving import _default_map_location, _load_state
from torch import Tensor

from zoo.checkpoints.errors import misfit
from zoo.checkpoints.read import read_checkpoint
from zoo.checkpoints.schema import KEY

Module = TypeVar("Module", bound=pl.LightningModule)


def load_module(
    kind: type[Module], path: str | os.PathLike, map_location: Any, strict: bool | None, changes: dict[str, Any]
) -> Module:
    """The module that a file holds, ``changes`` in place of hyper-parameters; on the device that it was saved from,
    where that is here and ``map_location`` is None.  Raises ValueError as ``read_checkpoint``, and where the weights
    do not fit."""
    return restored(kind, read_checkpoint(path, map_location or _default_map_location), strict, changes)


def restored(
    kind: type[Module], checkpoint: dict[str, Any], strict: bool | None = None, changes: dict[str, Any] | None = None
) -> Module:
    """The same of what ``read_checkpoint`` answered."""
    changes = changes or {}
    kept = checkpoint.setdefault(kind.CHECKPOINT_HYPER_PARAMS_KEY, {})
    kept.update(changes)
    try:
        module = _load_state(kind, checkpoint, strict=strict, **changes)
    except Exception as error:  # of a constructor, of torch and of Lightning; none names the file
        raise ValueError(misfit(checkpoint[KEY]["file"], error)) from error
    assert isinstance(module, kind)
    weights = [weight for weight in checkpoint["state_dict"].values() if isinstance(weight, Tensor)]
    return module.to(weights[0].device if weights else torch.device("cpu"))
