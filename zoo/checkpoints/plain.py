"""What a checkpoint may hold: values that are read back without running code."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

HYPER_PARAMETERS = ("hyper_parameters", "datamodule_hyper_parameters")
JSON = (type(None), bool, int, float, str)
READABLE = (*JSON, complex, bytes, bytearray, torch.Size, torch.dtype, torch.device)
GROUPS = (dict, list, tuple)
READABLE_GROUPS = (*GROUPS, OrderedDict, Counter, set)
NAMES = (str, int, float, bool, type(None), tuple)  # keys of dictionaries


def require_plain(checkpoint: Mapping[str, Any]) -> None:
    """Raise ValueError, naming the key and the type, for what could not be read back: in hyper-parameters all but the
    types of JSON and tensors, elsewhere what ``torch.load(weights_only=True)`` refuses."""
    for key, value in checkpoint.items():
        strict = key in HYPER_PARAMETERS
        for name, item in leaves(value, key):
            kind = type(item)
            if isinstance(item, Tensor) or kind in (JSON if strict else READABLE):
                continue
            if kind in (GROUPS if strict else READABLE_GROUPS) or (not strict and known(kind)):
                continue
            rest = "hyper-parameters are numbers, texts, lists, dictionaries and tensors"
            raise ValueError(
                f"{name} is a {kind.__module__}.{kind.__qualname__}, which could not be read back without running code"
                + (f"; {rest}" if strict else "")
            )


def known(kind: type) -> bool:
    """Did the user tell torch that objects of this class are safe?"""
    safe = torch.serialization.get_safe_globals()
    return any(kind is (item[0] if isinstance(item, tuple) else item) for item in safe)


def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every value within a value, itself included, with the names that lead there; each once, however often it is
    referred to, and without recursion: a file may nest as deep as it likes."""
    waiting, seen = [(name, value)], set()
    while waiting:
        name, value = waiting.pop()
        yield name, value
        if isinstance(value, (Mapping, list, tuple, set)) and id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, Mapping):
                waiting += [(f"{name}.{str(key)[:60]}", item) for key, item in value.items()]
            else:
                waiting += [(f"{name}[{place}]", item) for place, item in enumerate(value)]
