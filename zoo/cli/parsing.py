"""A parser that parses nothing twice: jsonargparse takes time that grows exponentially with the depth of a config."""

from __future__ import annotations

import contextvars
import copy
from typing import Any

from jsonargparse import Namespace
from lightning.pytorch.cli import LightningArgumentParser


class Unfit(TypeError):
    """A value that cannot be part of a key."""


class Remembering(LightningArgumentParser):
    """At each class within a class, jsonargparse parses the inner one's arguments several times: as they were, as they
    are given, with defaults, for each type of a union, and to validate them.  A parser for the arguments of one class
    therefore keeps what it made of plain data; the answer is a copy.  What else decides, such as whether it is lenient
    at this moment, jsonargparse keeps in context variables, which are all part of the key."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._kept: dict[Any, Namespace] = {}

    def parse_object(
        self,
        obj: Namespace | dict[str, Any],
        namespace: Namespace | None = None,
        env: bool | None = None,
        defaults: bool = True,
        **private: Any,
    ) -> Namespace:
        def parse() -> Namespace:
            return super(Remembering, self).parse_object(obj, namespace, env, defaults, **private)

        try:
            key = frozen([obj, namespace, env, defaults, private]), surroundings()
        except Unfit:
            return parse()
        if key not in self._kept:
            found = parse()
            try:
                frozen(found)
            except Unfit:  # an object, of which a copy would be another one
                return found
            self._kept[key] = found
        return copy.deepcopy(self._kept[key])


def frozen(value: Any) -> Any:
    """Plain data as a key, in which 1, 1.0 and True differ.  Raises Unfit for anything else."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return type(value), repr(value)
    if isinstance(value, Namespace):
        value = vars(value)
        return Namespace, tuple((key, frozen(item)) for key, item in value.items())
    if isinstance(value, dict):
        return dict, tuple((frozen(key), frozen(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(frozen, value))
    raise Unfit(type(value).__name__)


def surroundings() -> frozenset[Any]:
    """The values of all context variables; what is no plain data counts as itself."""
    found = set()
    for variable, value in contextvars.copy_context().items():
        try:
            found.add((variable, frozen(value)))
        except Unfit:
            found.add((variable, Itself(value)))
    return frozenset(found)


class Itself:
    """An object as part of a key, equal to no other one."""

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
