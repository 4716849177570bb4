"""Published sizes by name, with new weights."""

from __future__ import annotations

import difflib
from typing import Any

from torch import nn

from zoo.hub.load import AnyBackbone
from zoo.hub.source import Source
from zoo.models import PUBLISHED, Published, Size
from zoo.settings import merge
from zoo.tokenizers import Tokenizer


def new(size: str, changes: dict[str, Any] | None = None, tokenizer: Tokenizer | None = None) -> nn.Module:
    """A published size with new weights, such as "gpt2-xl": the whole task.  A model of text reads token ids, unless a
    ``tokenizer`` is given.

    ``changes`` are to the backbone's arguments.  A family's name stands for its first size.  Raises ValueError for a
    name that is not known.
    """
    source = _source(size)
    own = source.published.processor.read(source.config, None) if tokenizer else None
    return source.task(changes, own and {**own, "tokenizer": tokenizer})


def new_backbone(size: str, changes: dict[str, Any] | None = None, name: str = "backbone") -> AnyBackbone:
    """Its backbone alone, for a task or a LightningModule of your own; ``name`` is "target_backbone" for the second of
    two towers.  Raises ValueError for an unknown name."""
    return _source(size).backbones(changes)[name]


def known() -> dict[str, tuple[Published, Size]]:
    """Every name that ``new`` knows."""
    sized = [published for published in reversed(PUBLISHED) if published.sizes]  # the first form of a name wins
    first = [(p.model_type, p.name.lower(), p, next(iter(p.sizes.values()))) for p in sized]
    families = {name: (p, size) for kind, own, p, size in first for name in (kind, own)}
    return families | {name: (published, size) for published in sized for name, size in published.sizes.items()}


def _source(size: str) -> Source:
    """A source without weights, of a published size."""
    sizes = known()
    if size not in sizes:
        near = difflib.get_close_matches(size, sizes, n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}?" if near else "'python -m zoo list families' shows them"
        raise ValueError(f"no family or size {size!r} is known; {hint}")
    published, found = sizes[size]
    arguments = {name: half.defaults() for name, half in published.halves.items()}
    arguments["backbone"] |= {key: value for key, value in found.arguments.items() if key not in arguments}
    for name in published.also:
        arguments[name] |= found.arguments.get(name, {})
    config = merge(published.config(arguments), found.config)
    return Source(size, published, published.complete(config))
