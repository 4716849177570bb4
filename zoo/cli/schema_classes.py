"""What may stand in a slot of a config: the classes and functions that fit, the names they go by, their arguments."""

from __future__ import annotations

import importlib
import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

# The parser's own reading of a signature, with what ``**kwargs`` hand on; tests/test_schema.py fails if it moves.
from jsonargparse._parameter_resolvers import get_signature_parameters

import zoo
from zoo.listing import first_sentence

ROOTS = ("zoo", "lightning", "torch")  # of their classes all are known; what others offer is not
MODULES = (*zoo.EXPORTS, "zoo.callbacks", "torch.optim", "lightning.pytorch.cli", "lightning.pytorch.profilers")


@dataclass(frozen=True)
class Argument:
    """One argument of a class or function; ``default`` is ``inspect.Parameter.empty`` where it must be given."""

    name: str
    hint: Any
    default: Any
    description: str


def import_all() -> None:
    """A class can only be found, here and by its short name in a config, once its module was imported."""
    for module in MODULES:
        importlib.import_module(module)


def is_slot(hint: Any) -> bool:
    """Whether all that fits is known: ``torch.nn.Module`` is too wide, and other packages keep to themselves."""
    return inspect.isclass(hint) and hint.__module__.startswith(("zoo.", "lightning.", "torch.optim."))


def fitting(slot: type) -> list[Any]:
    """The public classes of ``slot``, itself among them, and the functions of ours that return one."""
    found: dict[str, Any] = {paths(cls)[0]: cls for cls in descendants(slot) if public(cls)}
    for name in (name for names in zoo.EXPORTS.values() for name in names):
        value = getattr(zoo, name)
        if inspect.isfunction(value):
            returned = typing.get_type_hints(value).get("return")
            if inspect.isclass(returned) and issubclass(returned, slot):
                found[paths(value)[0]] = value
    return [found[path] for path in sorted(found)]


def descendants(cls: type) -> Iterator[type]:
    yield cls
    for child in type.__subclasses__(cls):
        yield from descendants(child)


def public(cls: type) -> bool:
    """Whether a config should name it: of ours those with a public name, of others those without an underscore."""
    if cls.__module__.split(".")[0] not in ROOTS or inspect.isabstract(cls) or not paths(cls):
        return False
    if cls.__module__.startswith("zoo."):
        return paths(cls)[0] in (f"zoo.{cls.__name__}", f"zoo.callbacks.{cls.__name__}")
    return not any(part.startswith("_") for part in (*cls.__module__.split("."), cls.__name__))


def paths(maker: Any) -> list[str]:
    """The full names of a class or function, the shortest first: ``zoo.ViT``, ``zoo.models.ViT``, and so on."""
    parts, name = maker.__module__.split("."), maker.__name__
    modules = [".".join(parts[: end + 1]) for end in range(len(parts))]
    return [f"{module}.{name}" for module in modules if getattr(sys.modules.get(module), name, None) is maker]


def names(maker: Any, beside: list[Any]) -> list[str]:
    """All names of one of the makers of a slot: a class has a short one, unless a class ``beside`` it has the same."""
    classes = [other.__name__ for other in beside if inspect.isclass(other)]
    short = [maker.__name__] if inspect.isclass(maker) and classes.count(maker.__name__) == 1 else []
    return short + paths(maker)


def arguments(maker: Callable[..., Any], given: int = 0) -> list[Argument]:
    """What a config may give a class or function of which the code gives the first ``given`` arguments itself."""
    parameters = get_signature_parameters(maker)[given:]
    return [Argument(one.name, one.annotation, one.default, first_sentence(one.doc or "")) for one in parameters]
