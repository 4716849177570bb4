"""Type hints -> nodes of a JSON schema, by the rules of the command line's parser."""

from __future__ import annotations

import collections.abc
import datetime
import enum
import inspect
import os
import types
import typing
from collections.abc import Callable
from typing import Any

import torch

from zoo.cli import schema_classes as classes
from zoo.cli.schema_nodes import (
    KEYS,
    NUMBER,
    OWN,
    PATH,
    SWITCH,
    Node,
    annotated,
    described,
    either,
    one_of,
    ref,
    with_keys,
)

PLAIN: dict[Any, Node] = {
    type(None): {"type": "null"},
    bool: SWITCH,  # yes is a boolean to YAML 1.1 and a string to YAML 1.2
    int: {"type": "integer"},
    float: NUMBER,  # 1e-3 is a string to YAML 1.1 and a number to YAML 1.2
    str: {"type": "string"},
    dict: {"type": "object"},
    list: {"type": "array"},
    datetime.timedelta: {"type": "string"},
    torch.device: {"type": "string"},
}
UNIONS = (typing.Union, types.UnionType)
LISTS = (list, collections.abc.Sequence, collections.abc.Iterable, set, frozenset)
MAPPINGS = (dict, collections.abc.Mapping)
ANYTHING = (Any, object, inspect.Parameter.empty)
UNWRITABLE = (torch.Tensor,)  # what no YAML can say: left out of a union


class Definitions:
    """Translates hints; what stands in several places is written once, in ``found``, and referred to."""

    def __init__(self) -> None:
        self.found: dict[str, Node] = {
            "chosen": {"anyOf": [{"required": [key]} for key in KEYS]},
            "keys": {"properties": dict.fromkeys(KEYS, True), "additionalProperties": False},
            "open": either([PATH, {**with_keys(PATH), "additionalProperties": False}]),
        }

    def node(self, hint: Any) -> Node:
        """The node that accepts what the parser accepts for a type hint; {} accepts everything."""
        origin, inner = typing.get_origin(hint), typing.get_args(hint)
        if hint in PLAIN:
            return PLAIN[hint]
        if origin is typing.Literal:
            return {"enum": list(inner)}
        if origin in UNIONS:
            return either([self.node(one) for one in inner if one not in UNWRITABLE])
        if origin in LISTS:
            return {"type": "array", "items": self.node(inner[0]) if inner else {}}
        if origin is tuple:
            return self.row(inner)
        if origin in MAPPINGS:
            return {"type": "object", "additionalProperties": self.node(inner[1]) if inner else {}}
        if origin is collections.abc.Callable:
            known = bool(inner) and isinstance(inner[0], list) and classes.is_slot(inner[1])
            return self.slot(inner[1], given=len(inner[0])) if known else ref("open")
        return self.kind(hint)

    def row(self, inner: tuple[Any, ...]) -> Node:
        """A list of a fixed length with a kind for each place, or of any length."""
        if inner[1:] == (Ellipsis,):
            return {"type": "array", "items": self.node(inner[0])}
        return {"type": "array", "items": [*map(self.node, inner)], "minItems": len(inner), "maxItems": len(inner)}

    def kind(self, hint: Any) -> Node:
        """The node of a class that has no items."""
        if not inspect.isclass(hint) or hint in ANYTHING:
            return {}
        if issubclass(hint, enum.Enum):
            return {"enum": [one.name for one in hint]}
        if issubclass(hint, os.PathLike):
            return PLAIN[str]
        return self.slot(hint) if classes.is_slot(hint) else ref("open")

    def slot(self, base: type, given: int = 0) -> Node:
        """A place for a class of ``base`` that the code calls with ``given`` arguments: its name, or its name and
        arguments, or arguments alone where the default or an earlier file says the class."""
        key = f"slot.{classes.paths(base)[0]}.{given}"
        if key in self.found:
            return ref(key)
        self.found[key] = {}  # a slot may stand within itself
        makers = classes.fitting(base)
        if not makers:
            self.found[key] = ref("open")
            return ref(key)
        names = [classes.names(maker, makers) for maker in makers]
        own = [self.arguments(maker, given) for maker in makers]
        shortest = {"enum": sorted(some[0] for some in names)}
        others = one_of([name for some in names for name in some[1:]])
        self.found[f"names.{key}"] = {"type": "string", "anyOf": [shortest, others, OWN]}
        self.found[f"any.{key}"] = {"anyOf": own}
        chosen = [
            ({"required": ["class_path"], "properties": {"class_path": one_of(some)}}, node)
            for some, node in zip(names, own)
        ]
        chosen.append(({"not": {"required": ["class_path"]}}, ref(f"any.{key}")))
        spec = {
            **with_keys(ref(f"names.{key}")),
            "allOf": [{"if": which, "then": {"properties": {"init_args": node}}} for which, node in chosen],
            "if": ref("chosen"),
            "then": ref("keys"),
            "else": ref(f"any.{key}"),
        }
        self.found[key] = {**described(base), "anyOf": [ref(f"names.{key}"), spec]}
        return ref(key)

    def arguments(self, maker: Callable[..., Any], given: int = 0) -> Node:
        """The object of all arguments of a class or function but the first ``given``."""
        key = f"arguments.{classes.paths(maker)[0]}.{given}"
        if key not in self.found:
            self.found[key] = {}
            self.found[key] = {**described(maker), **self.members(classes.arguments(maker, given))}
        return ref(key)

    def members(self, arguments: list[classes.Argument]) -> Node:
        """The object with these keys, and with ``key+`` for those whose value may be a list."""
        properties: dict[str, Node] = {}
        for one in arguments:
            properties[one.name] = annotated(self.node(one.hint), one)
            if items := items_of(one.hint):
                several = [{"type": "array", "items": self.node(item)} for item in items]
                added = either([*map(self.node, items), *several])
                properties[f"{one.name}+"] = {**added, "description": f"What is added to {one.name}."}
        return {"type": "object", "properties": properties, "additionalProperties": False}


def items_of(hint: Any) -> tuple[Any, ...]:
    """What may be added to a value of this hint with ``name+``: the items of those of its kinds that are lists."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in UNIONS:
        return tuple(item for one in inner for item in items_of(one))
    return inner[:1] if origin in LISTS else ()
