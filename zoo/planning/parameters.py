"""Where a model's parameters are, by what they are for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from zoo.nn import Attention, Backbone, Block, FeedForward, Mixer, Norm, Part, Pool, Position
from zoo.parallel.tensors import require_divisor, require_heads, share_positions
from zoo.tokenizers import Embed

OWNERS: dict[type[nn.Module], str] = {
    Embed: "embedding",
    Position: "positions",
    Mixer: "attention",
    FeedForward: "feed-forward",
    Norm: "norms",
    Pool: "pool",
}
OTHER = "head"  # what stands above the backbone


def by_part(module: nn.Module) -> dict[str, int]:
    """Parameters by what they are for, in the order of ``OWNERS``; those that are shared count where they are first."""
    counts = dict.fromkeys([*OWNERS.values(), OTHER], 0)
    seen: set[int] = set()

    def visit(part: nn.Module, owner: str) -> None:
        owner = next((name for kind, name in OWNERS.items() if isinstance(part, kind)), owner)
        for weight in part.parameters(recurse=False):
            if id(weight) not in seen:
                seen.add(id(weight))
                counts[owner] += weight.numel()
        for child in part.children():
            visit(child, owner)

    visit(module, OTHER)
    return {name: count for name, count in counts.items() if count}


def active(module: nn.Module) -> int:
    """The parameters that one token meets: all but those of parts that say that it meets a share of theirs."""
    rested = {id(w): 1 - part.active for part in module.modules() if isinstance(part, Part) for w in part.parameters()}
    return round(sum(weight.numel() * (1 - rested.get(id(weight), 0.0)) for weight in module.parameters()))


@contextmanager
def one_share(module: nn.Module, size: int) -> Iterator[dict[int, torch.Size]]:
    """Within it positions take a model for what one of ``size`` devices has of it, which is said by ``cut_sizes``.
    Raises ValueError where it cannot be shared out."""
    positions = [part for part in module.modules() if isinstance(part, Position)]
    try:
        if size > 1:
            for name, part in module.named_modules():
                if isinstance(part, Backbone):
                    share_positions(part, name, (0, size))
        yield cut_sizes(module, size) if size > 1 else {}
    finally:
        for position in positions:
            position.share = (0, 1)


def cut_sizes(module: nn.Module, size: int) -> dict[int, torch.Size]:
    """The sizes of the weights of which one of ``size`` devices has only a part, by their identity: those of linear
    layers that a part cuts (see ``Part.tensor_parallel``).  Raises ValueError where ``size`` does not divide them."""
    found: dict[int, torch.Size] = {}
    for name, part in module.named_modules():
        if not isinstance(part, Part):
            continue
        if isinstance(part, Attention) and part.tensor_parallel:
            require_heads(part, name, size)
        for layer, how in part.tensor_parallel.items():
            inner = getattr(part, layer)
            if how == "heads" or not isinstance(inner, nn.Linear):
                continue
            require_divisor(inner, f"{name}.{layer}", how, size)
            rows, columns = inner.weight.shape
            found[id(inner.weight)] = torch.Size(
                (rows // size, columns) if how == "column" else (rows, columns // size)
            )
            if inner.bias is not None and how == "column":
                found[id(inner.bias)] = torch.Size((rows // size,))
    return found


def block_bytes(module: nn.Module) -> tuple[int, int]:
    """Bytes of the largest block's weights, and of all weights outside blocks."""
    blocks = [part for part in module.modules() if isinstance(part, Block)]
    inside = {id(weight) for block in blocks for weight in block.parameters()}
    outside = sum(weight.nbytes for weight in module.parameters() if id(weight) not in inside)
    return max((sum(weight.nbytes for weight in block.parameters()) for block in blocks), default=0), outside
