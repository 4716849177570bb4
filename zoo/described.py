"""Objects that remember what they were made of, as plain data: the same words in Python, YAML and checkpoints."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
from typing import Any

import torch


class Undescribable(TypeError):
    """A value that YAML has no word for, such as a lambda."""


class Described:
    """Base of everything that is passed as an object: its constructor's arguments are noted before it runs.

    ``describe`` reads the note back.  Only plain data is kept, never the arguments themselves.
    """

    _arguments: dict[str, Any] | None

    def __new__(cls, *args: Any, **kwargs: Any):
        self = super().__new__(cls)
        try:
            bound = inspect.signature(cls.__init__).bind(self, *args, **kwargs)
            bound.apply_defaults()
            arguments = {k: describe(v) for k, v in list(bound.arguments.items())[1:] if k not in ("args", "kwargs")}
        except (TypeError, Undescribable):  # a wrong call fails in __init__, with Python's own words
            arguments = None
        object.__setattr__(self, "_arguments", arguments)
        return self


def describe(value: Any) -> Any:
    """The plain form of ``value``: numbers, strings, lists and dictionaries, with ``class_path`` and ``init_args``
    for classes, partials of classes and objects.  Raises Undescribable where there is none."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [describe(item) for item in value]
    if isinstance(value, dict):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, type):
        return {"class_path": path(value)}
    if isinstance(value, functools.partial):
        # partial(Attention, heads=3), or jsonargparse's form of it: partial(instantiate, ..., Attention, heads=3)
        for factory in (value.func, *value.args):
            if isinstance(factory, type):
                return {"class_path": path(factory), "init_args": describe(value.keywords)}
    if isinstance(value, Described) and value._arguments is not None:
        return {"class_path": path(type(value)), "init_args": copy.deepcopy(value._arguments)}
    if dataclasses.is_dataclass(value):
        fields = {field.name: describe(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"class_path": path(type(value)), "init_args": fields}
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value)
    raise Undescribable(f"{value!r} has no plain form; use a class, functools.partial of a class, or plain values")


def path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
