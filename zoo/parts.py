"""What a model is made of, part by part, so that two can be compared."""

from __future__ import annotations

import inspect
import re
from typing import Any

from torch import nn

from zoo.described import Described, describe
from zoo.nn import Mask

__all__ = ["anatomy", "differences"]

Anatomy = dict[str, str]  # path of a part -> its class and settings, in words

CHANCE = ("dropout", "drop_path", "init")  # what acts in training only
SIZES = ("in_features", "out_features", "num_embeddings", "embedding_dim")
EXTENTS = ("dim", "heads", "head_dim", "height", "width", "features", "length")  # sizes that are settings
SKIPPED = (
    "training",
    "tokenizer",
    "generation",
    "prepare_data_per_node",
    "allow_zero_length_dataloader_with_multiple_devices",
)


def anatomy(model: nn.Module, shapes: bool = True) -> Anatomy:
    """Path -> "Class(setting=value, ...)" for every part, the same whether its weights are real or on the meta device;
    without ``shapes``, only what it computes and not how large it is.

    Parts that exist once for several paths (tied weights, shared towers) say so.  Dropout is left out.
    """
    found: Anatomy = {}
    first: dict[int, str] = {}
    for path, part in model.named_modules(remove_duplicate=False):
        if path and not isinstance(part, (nn.Dropout, nn.ModuleList, nn.Identity)):
            found[path] = words(part, shapes) if id(part) not in first else f"the same as {first[id(part)]}"
        first.setdefault(id(part), path)
    return found | ties(model)


def ties(model: nn.Module) -> Anatomy:
    first: dict[int, str] = {}
    shared = {}
    for path, weight in model.named_parameters(remove_duplicate=False):
        if first.setdefault(id(weight), path) != path:
            shared[path] = f"the same as {first[id(weight)]}"
    return shared


def words(part: nn.Module, shapes: bool) -> str:
    """One part by itself: ``Attention(heads=4, mask=Causal())``."""
    said = {name: plain(value) for name, value in vars(part).items() if shown(name, value)}
    if shapes:
        said |= {name: "x".join(map(str, weight.shape)) for name, weight in part.named_parameters(recurse=False)}
    else:
        said = {name: value for name, value in said.items() if name not in EXTENTS}
        said |= {name: "absent" for name, weight in part._parameters.items() if weight is None}
    return f"{type(part).__name__}({', '.join(f'{name}={value}' for name, value in said.items())})"


def shown(name: str, value: Any) -> bool:
    if name.startswith("_") or name in (*CHANCE, *SIZES, *SKIPPED):
        return False
    return isinstance(value, (bool, int, float, str, tuple, Mask, Described)) or inspect.isroutine(value)


def plain(value: Any) -> str:
    """A setting in short words; an object by its class and arguments, ``Llama3Scaling(factor=8, ...)``."""
    if isinstance(value, Described):
        value = describe(value) if value._arguments is not None else {"class_path": type(value).__name__}
    if isinstance(value, dict) and "class_path" in value:
        arguments = ", ".join(f"{name}={plain(one)}" for name, one in value.get("init_args", {}).items())
        return f"{value['class_path'].rpartition('.')[2]}({arguments})"
    if isinstance(value, float):
        return f"{value:g}"
    return value.__name__ if inspect.isroutine(value) else repr(value)


def differences(a: nn.Module, b: nn.Module, shapes: bool = True) -> list[tuple[str, str, str]]:
    """(path, what it is in ``a``, what in ``b``) for every part that differs; "" where one has no such part.

    Layers that differ in the same way are one row, "blocks.0-11.mixer".
    """
    ours, theirs = anatomy(a, shapes), anatomy(b, shapes)
    rows = [(p, ours.get(p, ""), theirs.get(p, "")) for p in dict.fromkeys((*ours, *theirs))]
    if not shapes:  # one more layer of the same is a size
        rows = [row for row in rows if not any(deeper(row[0], both) for both in ((ours, theirs), (theirs, ours)))]
    return gathered([row for row in rows if row[1] != row[2]])


def deeper(path: str, both: tuple[Anatomy, Anatomy]) -> bool:
    """Is this a part of a layer that only the first of two models has, and do both have layers there?"""
    found = re.match(r"(.*\bblocks)\.\d+", path)
    return found is not None and found[0] in both[0] and found[0] not in both[1] and f"{found[1]}.0" in both[1]


def gathered(rows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Rows that differ in one index only become one row with the range of that index."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for path, ours, theirs in rows:
        place = re.search(r"(?<=\.)\d+(?=\.|$)", path)
        pattern = path[: place.start()] + "{}" + path[place.end() :] if place else path
        groups.setdefault((pattern, ours, theirs), []).extend([int(place[0])] if place else [])
    return [(path.replace("{}", span(found)), *rest) for (path, *rest), found in groups.items()]


def span(numbers: list[int]) -> str:
    whole = len(numbers) > 1 and numbers == list(range(numbers[0], numbers[-1] + 1))
    return f"{numbers[0]}-{numbers[-1]}" if whole else ",".join(map(str, numbers))
