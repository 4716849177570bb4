"""Published sizes by name, with new weights."""

from __future__ import annotations

import difflib
import inspect
from typing import Any

from torch import nn

import zoo
from zoo.hub.load import AnyBackbone
from zoo.hub.source import Source, parameters
from zoo.models import PUBLISHED, Published, Size
from zoo.settings import merge


def create(name: str, **overrides: Any) -> nn.Module:
    """A published size with new weights, such as "gpt2-xl": the whole task.  ``zoo.list`` has the names; a family's own
    stands for its first size.  A model of text reads token ids, unless a ``tokenizer`` is given.

    ``overrides`` are arguments of the backbone (``depth=6``; of both towers where there are two, or of one in a
    dictionary: ``target_backbone={"depth": 6}``), or else of the task (``classes=10``).  Raises ValueError for a name
    that is not known, and for an argument that neither has.
    """
    source = _source(name)
    halves, task = source.published.halves, str(source.architecture.task)
    own = dict.fromkeys(halves, task) | {word: half.name for half in halves.values() for word in parameters(half)}
    whose = dict.fromkeys(inspect.signature(getattr(zoo, task)).parameters, task) | own  # all arguments
    for word in sorted(overrides.keys() - whose):
        close = difflib.get_close_matches(word, whose, n=1)
        hint = f"did you mean {close[0]!r} of {whose[close[0]]}?" if close else f"there are {', '.join(whose)}"
        hint = "zoo.load reads published weights" if word == "pretrained" else hint
        raise ValueError(f"{name} has no argument {word!r}; {hint}")
    changes = {word: overrides[word] for word in overrides if word in own}
    return source.task(changes, {word: overrides[word] for word in overrides if word not in own})


def create_backbone(name: str, half: str = "backbone", **overrides: Any) -> AnyBackbone:
    """Its backbone alone, for a task or a LightningModule of your own; ``half`` is "target_backbone" for the second of
    two towers.  Raises ValueError for an unknown name or argument."""
    return _source(name).backbones(overrides, half)[half]


def known() -> dict[str, tuple[Published, Size]]:
    """Every name that ``create`` knows."""
    sized = [published for published in reversed(PUBLISHED) if published.sizes]  # the first form of a name wins
    first = [(p.model_type, p.name.lower(), p, next(iter(p.sizes.values()))) for p in sized]
    families = {name: (p, size) for kind, own, p, size in first for name in (kind, own)}
    return families | {name: (published, size) for published in sized for name, size in published.sizes.items()}


def _source(size: str) -> Source:
    """A source without weights, of a published size."""
    sizes = known()
    if size not in sizes:
        near = difflib.get_close_matches(size, sizes, n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}?" if near else "zoo.list() has them all"
        raise ValueError(f"no family or size {size!r} is known; {hint}")
    published, found = sizes[size]
    arguments = {name: half.defaults() for name, half in published.halves.items()}
    arguments["backbone"] |= {key: value for key, value in found.arguments.items() if key not in arguments}
    for name in published.also:
        arguments[name] |= found.arguments.get(name, {})
    config = merge(published.config(arguments), found.config)
    return Source(size, published, published.complete(config))
