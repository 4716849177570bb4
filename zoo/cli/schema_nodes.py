"""The nodes of a JSON schema that hints are translated to, and how they are put together."""

from __future__ import annotations

import contextlib
import inspect
import math
from typing import Any

from zoo.cli import schema_classes as classes
from zoo.listing import first_sentence

Node = dict[str, Any]

KEYS = ("class_path", "init_args", "dict_kwargs")  # the parser's own words for a class with arguments
NUMBER: Node = {"type": ["number", "string"], "pattern": r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"}
SWITCH: Node = {"type": ["boolean", "string"], "pattern": "^([Tt]rue|[Ff]alse|[Yy]es|[Nn]o|[Oo]n|[Oo]ff)$"}
PATH: Node = {"type": "string", "pattern": r"^[A-Za-z_]\w*(\.\w+)+$"}
OWN: Node = {**PATH, "pattern": rf"^(?!({'|'.join(classes.ROOTS)})\.)" + PATH["pattern"][1:]}  # others' than ROOTS


def either(nodes: list[Node]) -> Node:
    """What any of the nodes accepts; words and null in one enumeration, by which editors explain best."""
    flat = [part for node in nodes for part in (node["anyOf"] if set(node) == {"anyOf"} else [node])]
    if {} in flat:
        return {}
    types = sorted({kind for node in flat if set(node) == {"type"} for kind in listed(node["type"])})
    enumerations = [node["enum"] for node in flat if set(node) == {"enum"}]
    words = list({(type(word), word): word for found in enumerations for word in found}.values())  # 1 is not true
    if words and "null" in types:
        types.remove("null")
        words = [*(word for word in words if word is not None), None]
    parts: list[Node] = [{"enum": words}] if words else []
    parts += [{"type": types if len(types) > 1 else types[0]}] if types else []
    for node in flat:
        if node not in parts and set(node) not in ({"type"}, {"enum"}):
            parts.append(node)
    return parts[0] if len(parts) == 1 else {"anyOf": parts}


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def ref(key: str) -> Node:
    return {"$ref": f"#/definitions/{key}"}


def with_keys(class_path: Node) -> Node:
    """An object that may have the parser's three keys; others are for the caller to refuse."""
    arguments = {"type": "object"}
    return {"type": "object", "properties": dict(zip(KEYS, (class_path, arguments, arguments)))}


def one_of(names: list[str]) -> Node:
    """A string that is one of the names; as a pattern, since editors offer all words of an enumeration."""
    return {"pattern": f"^({'|'.join(names)})$".replace(".", r"\.")}


def described(maker: Any) -> Node:
    """Name and first sentence of the docstring."""
    sentence = first_sentence(inspect.cleandoc(maker.__doc__ or ""))
    return {"title": maker.__name__, **({"description": sentence} if sentence else {})}


def annotated(node: Node, argument: classes.Argument) -> Node:
    """With description and default, which in draft 7 may not stand beside a reference."""
    notes: Node = {"description": argument.description} if argument.description else {}
    if argument.default is not inspect.Parameter.empty:
        with contextlib.suppress(ValueError):
            notes["default"] = plain(argument.default)
    return {**({"allOf": [node]} if notes and "$ref" in node else node), **notes}


def plain(value: Any) -> Any:
    """A default as JSON; raises ValueError where there is no word for it."""
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if inspect.isclass(value) and classes.is_slot(value):
        return value.__name__
    raise ValueError(f"{value!r} is not plain")
