"""Published sizes by name, with new weights."""

from __future__ import annotations

import difflib
from typing import Any

from torch import nn

from zoo.hub.load import AnyBackbone
from zoo.hub.source import Source
from zoo.models import PUBLISHED, Published, Size
from zoo.models.published import Config, merge


def new(size: str, changes: dict[str, Any] | None = None) -> nn.Module:
    """A published size with new weights, such as "gpt2-xl": the whole task, which reads token ids until it is given a
    tokenizer.  Raises ValueError for a name that is not known."""
    published, config = configured(size)
    return Source(size, published, published.complete(config)).task(changes)


def new_backbone(size: str, changes: dict[str, Any] | None = None) -> AnyBackbone:
    """Its backbone alone, for a task or a LightningModule of your own.  Raises ValueError for an unknown name."""
    published, config = configured(size)
    return Source(size, published, published.complete(config)).backbones(changes)["backbone"]


def configured(size: str) -> tuple[Published, Config]:
    """The family of a published size, and the config.json of that size."""
    sizes: dict[str, tuple[Published, Size]] = {
        name: (published, found) for published in PUBLISHED for name, found in published.sizes.items()
    }
    if size not in sizes:
        near = difflib.get_close_matches(size, sizes, n=3, cutoff=0.4)
        raise ValueError(f"no size {size!r} is known; " + (f"did you mean {', '.join(near)}?" if near else "see: zoo list families"))
    published, found = sizes[size]
    arguments = {name: half.defaults() for name, half in published.halves.items()}
    arguments["backbone"] |= {key: value for key, value in found.arguments.items() if key not in arguments}
    for name in published.also:
        arguments[name] |= found.arguments.get(name, {})
    return published, merge(published.config(arguments), found.config)
