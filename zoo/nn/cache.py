"""What a backbone remembers between the calls of step-by-step decoding."""

# Shapes: B batch, T new tokens, S tokens so far, K key/value heads, d head width.

from __future__ import annotations

import torch
from torch import Tensor


class Cache:
    """Position, padding and segment of every token so far, and a dictionary a layer that its parts fill as they like.

    Start with an empty one and hand it to each call of the backbone: the outputs equal one full forward's.  Pad prompts
    on the left: a window keeps its last keys, real or not.
    """

    def __init__(self):
        self.layers: dict[int, dict] = {}
        self.positions: Tensor | None = None  # (S,) or (B, S)
        self.padding: Tensor | None = None  # (B, S)
        self.segments: Tensor | None = None  # (B, S)

    @property
    def length(self) -> int:
        return 0 if self.positions is None else self.positions.size(-1)

    def layer(self, index: int) -> dict:
        return self.layers.setdefault(index, {})

    def extend(self, positions: Tensor, padding: Tensor | None, segments: Tensor | None) -> None:
        """Note the T tokens of a new call."""
        if self.padding is not None and padding is None:  # whoever stops padding goes on with real tokens
            padding = self.padding.new_ones(self.padding.size(0), positions.size(-1))
        if padding is not None and self.padding is None and self.length:
            self.padding = padding.new_ones(padding.size(0), self.length)
        if self.segments is not None and segments is None:  # whoever stops numbering goes on with the last document
            segments = self.segments[:, -1:].expand(-1, positions.size(-1))
        if segments is not None and self.segments is None and self.length:
            raise ValueError("segments were given in a later call but not in the first; give them from the start")
        if self.positions is not None and self.positions.dim() != positions.dim():
            raise ValueError("positions were given a batch in one call and none in another; give them always or never")
        self.positions = join(self.positions, positions)
        self.padding = join(self.padding, padding)
        self.segments = join(self.segments, segments)

    def reorder(self, rows: Tensor) -> None:
        """Keep rows (B',) of the batch, in this order: what a beam search does between steps."""

        def pick(value):
            if isinstance(value, dict):
                return {key: pick(item) for key, item in value.items()}
            return value.index_select(0, rows) if isinstance(value, Tensor) else value

        self.layers, self.padding, self.segments = pick(self.layers), pick(self.padding), pick(self.segments)
        if self.positions is not None and self.positions.dim() == 2:
            self.positions = pick(self.positions)


def join(old: Tensor | None, new: Tensor | None) -> Tensor | None:
    return new if old is None else old if new is None else torch.cat((old, new), -1)


def append(state: dict, k: Tensor, v: Tensor, behind: int | None) -> tuple[Tensor, Tensor]:
    """The (B, K, S, d) keys and values to attend to now; ``state`` keeps those that the next token may still see."""
    if "k" in state:
        k, v = torch.cat((state["k"], k), 2), torch.cat((state["v"], v), 2)
    keep = k.size(2) if behind is None else min(behind, k.size(2))
    state["k"], state["v"] = k[:, :, k.size(2) - keep :], v[:, :, v.size(2) - keep :]
    return k, v
