"""What a checkpoint of Lightning has to have, of which types and with which counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from zoo.checkpoints.plain import HYPER_PARAMETERS, leaves

TRAINING = {"callbacks": dict, "optimizer_states": list, "lr_schedulers": list}  # all of them or none: weights alone
WHOLE = {"epoch": int, "global_step": int, "state_dict": dict, "loops": dict}
MOST = 2**53  # batches: nobody has counted so far
COUNTERS = ("ready", "started", "processed", "completed")
AUTOMATIC = ("epoch_loop.automatic_optimization.optim_progress", "optimizer", "step", "total", "completed")
MANUAL = ("epoch_loop.manual_optimization.optim_step_progress", "total", "completed")


def require_form(checkpoint: Mapping[str, Any], size: int, empty: bool = False) -> None:
    """Raise ValueError for what could not be trained on from, or is larger than the file of ``size`` bytes.  Tensors
    have values, unless those were left in the file and all are ``empty``."""
    for name in HYPER_PARAMETERS:
        require(isinstance(checkpoint.get(name, {}), dict), mistyped(name))
    for name, kind in WHOLE.items():
        require(name in checkpoint, f"has no {name!r}")
        require(isinstance(checkpoint[name], kind), mistyped(name))
    missing = [name for name in TRAINING if name not in checkpoint]
    require(len(missing) in (0, len(TRAINING)), f"has no {', '.join(map(repr, missing))}")
    for name, kind in TRAINING.items():
        require(name in missing or isinstance(checkpoint[name], kind), mistyped(name))
    for name in ("optimizer_states", "lr_schedulers"):
        require(all(isinstance(item, dict) for item in checkpoint.get(name, ())), mistyped(name))
    for state in checkpoint.get("optimizer_states", ()):
        require({"state", "param_groups"} <= set(state), "has an optimizer without 'state' or 'param_groups'")
    require_weights(checkpoint["state_dict"])
    require_counts(checkpoint)
    for name, value in leaves(checkpoint, ""):
        if isinstance(value, Tensor):
            require(empty or not value.is_meta, f"has no values for {name[1:]!r}")
            within = value.layout != torch.strided or value.nbytes <= size
            require(within, f"has {name[1:]!r}, which is larger than the file")


def require(good: bool, otherwise: str) -> None:
    if not good:
        raise ValueError(f"{otherwise}; it is damaged, or no checkpoint of Lightning")


def mistyped(name: str) -> str:
    return f"has a {name!r} of another type than Lightning's"


def require_weights(weights: Mapping[str, Any]) -> None:
    for name, value in weights.items():
        require(isinstance(name, str), f"has a weight that is called {str(name)[:60]!r}")
        extra = name.endswith("_extra_state")  # of a module's own, of whatever type
        require(extra or isinstance(value, Tensor), f"has {name!r} among its weights, which is no tensor")


def require_counts(checkpoint: Mapping[str, Any]) -> None:
    """Counts are numbers that can be, and the steps at the top are those that the loop counted."""
    fit = checkpoint["loops"].get("fit_loop")
    require(isinstance(fit, dict), "has no 'fit_loop' among its loops")
    counts = [("epoch", checkpoint["epoch"]), ("global_step", checkpoint["global_step"])]
    for loop, state in checkpoint["loops"].items():
        require(isinstance(state, dict), mistyped(str(loop)))
        progress = {name: value for name, value in state.items() if not str(name).endswith("state_dict")}
        counts += [item for item in leaves(progress, loop) if item[0].rpartition(".")[2] in COUNTERS]
    for name, value in counts:
        require(type(value) is int and 0 <= value <= MOST, f"says {str(value)[:40]!r} for {name!r}")
    counted = [inside(fit, place) for place in (AUTOMATIC, MANUAL)]
    step = checkpoint["global_step"]
    require(step in counted, f"says {step} for 'global_step', though its loop counted {counted[0]}")


def inside(value: Any, place: tuple[str, ...]) -> Any:
    for key in place:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
