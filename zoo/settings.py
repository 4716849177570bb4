"""A config.json as nested dictionaries: values by their paths, and those that cannot be meant told in a sentence."""

from __future__ import annotations

import contextlib
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Union

Config = dict[str, Any]


def look(config: Config, path: str, *default: Any) -> Any:
    """``look(config, "text_config.hidden_size")``"""
    value: Any = config
    for word in path.split("."):
        if not isinstance(value, Mapping) or word not in value:
            if default:
                return default[0]
            raise ValueError(f"{path!r} is missing")
        value = value[word]
    return value


def put(config: Config, path: str, value: Any) -> None:
    *above, last = path.split(".")
    for word in above:
        config = config.setdefault(word, {})
    config[last] = value


def merge(base: Config, over: Config) -> Config:
    """``over`` on top of ``base``, level by level."""
    merged = {k: merge(v, {}) if isinstance(v, dict) else v for k, v in base.items()}
    for name, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = merge(merged[name], value) if both else value
    return merged


@contextlib.contextmanager
def sensible(what: str) -> Iterator[None]:
    """Turns what Python says about a value of a wrong type into a ValueError about ``what``."""
    try:
        yield
    except (TypeError, AttributeError, LookupError, ArithmeticError) as error:
        raise ValueError(f"{what} cannot be read ({reason(error)})") from error


@contextlib.contextmanager
def at(file: str) -> Iterator[None]:
    """Puts a file before what is raised about its content, and a sentence in place of what Python says."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError) as error:
        raise ValueError(f"{file}: no model has these values ({reason(error)})") from error


def reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def fits(value: Any, hint: Any) -> bool:
    """Can a value be an argument of this type?  Sizes are not negative; types of our own are not looked into."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return value in inner
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if origin in (list, tuple):
        return isinstance(value, (list, tuple)) and all(fits(one, inner[0]) for one in value)
    return isinstance(value, hint) if hint in (bool, str, dict, type(None)) else True


def same_kinds(config: Mapping[str, Any], base: Mapping[str, Any], path: str = "") -> None:
    """Raises ValueError for a value of another kind (number, text, object) than the family's usual one."""
    for name, usual in base.items():
        value = config[name]
        if isinstance(usual, dict) and isinstance(value, dict):
            same_kinds(value, usual, f"{path}{name}.")
        elif None not in (usual, value) and not name.endswith("token_id") and kind(value) != kind(usual):
            raise ValueError(f"{path}{name}={value!r} is not of the kind of {usual!r}")


def kind(value: Any) -> str:
    if isinstance(value, (int, float, list, tuple)) and not isinstance(value, bool):
        return "number"  # or several, such as the sides of an image
    return type(value).__name__
