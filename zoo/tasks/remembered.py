"""What a checkpoint remembers of the task that it was saved from, beside what the user asks for now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

SHOWN = 3  # conflicts that are told
TRAINING = ("optimizer", "schedule")  # what never decides whether weights fit


def refuse_conflicts(asked: Mapping[str, Any], remembered: Mapping[str, Any], here: Mapping, there: Mapping) -> None:
    """Raise ValueError, naming both values, where weights of a checkpoint ``there`` have no place ``here`` because the
    task that is ``asked`` for is another than the ``remembered`` one.  What does not concern weights may differ: what
    is asked for holds."""
    misfits = [name for name in here.keys() & there.keys() if shape(here[name]) != shape(there[name])]
    if not misfits and here.keys() == there.keys():
        return
    both = flat(asked), flat({key: value for key, value in remembered.items() if not key.startswith("_")})
    differing = [
        f"model.{name}={value}, and it was saved with {both[1][name]}"
        for name, value in both[0].items()
        if value is not None and both[1].get(name, value) != value and not name.startswith(TRAINING)
    ]
    if differing:
        raise ValueError(
            f"the checkpoint's weights do not fit {'; '.join(differing[:SHOWN])}: leave that as it was, or begin anew"
        )


def shape(weight: Any) -> tuple[int, ...]:
    return tuple(weight.shape) if isinstance(weight, Tensor) else ()


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """Nested ``class_path`` and ``init_args`` -> dotted names as on the command line; a class stands under the name of
    its slot."""
    if isinstance(value, Mapping) and "class_path" in value:
        own = {name: str(value["class_path"]).split(".")[-1]} if name else {}
        return own | flat(value.get("init_args") or {}, name)
    if isinstance(value, Mapping):
        found: dict[str, Any] = {}
        for key, item in value.items():
            found |= flat(item, f"{name}.{key}" if name else str(key))
        return found
    return {name: value}


class Settings:
    """The settings of an optimizer's groups as they were asked for: a checkpoint brings its own back."""

    def __init__(self, optimizer: Optimizer):
        self.groups = [
            {key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups
        ]

    def restore(self, optimizer: Optimizer, factor: float) -> list[float]:
        """Put them back, each learning rate times ``factor``; the answer is the rates themselves."""
        for group, asked in zip(optimizer.param_groups, self.groups):
            group.update(asked)
            group["initial_lr"], group["lr"] = asked["lr"], asked["lr"] * factor
        return [asked["lr"] for asked in self.groups]
