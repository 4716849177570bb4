"""What every layer may read besides its input: built once per forward by the backbone, read-only below it."""

# Shapes: B batch, T tokens of this call (queries), S tokens so far (keys), D model width, M memory length.

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from torch import Tensor, nn

if TYPE_CHECKING:
    from zoo.nn.mask import Mask
    from zoo.nn.position import Position

V = TypeVar("V")


@dataclass(frozen=True)
class Context:
    """One forward pass, as the layers see it.

    A layer with a rolling cache holds fewer than S keys; those are always the last ones, so it asks for
    ``key_positions(n)`` and ``allowed(mask, n)`` by their number.
    """

    position: Position
    q_pos: Tensor  # (T,), or (B, T) where samples differ: left padding, packed rows
    k_pos: Tensor  # (S,) or (B, S): the tokens of earlier calls, then those of this one
    padding: Tensor | None = None  # (B, S) True where a token is real
    segments: Tensor | None = None  # (B, S) document number in a packed row: attention never crosses a document
    memory: Tensor | None = None  # (B, M, D) states for cross-attention
    memory_padding: Tensor | None = None  # (B, M) True where real
    cond: Tensor | None = None  # (B, D) conditioning vector for adaptive norms
    plain: bool = False  # positions are 0..T-1, nothing is cached, padded or packed: kernels may use their fast path
    maps: dict[nn.Module, Tensor] | None = None  # (B, H, T, S) float32 weights of each layer, where they are asked for
    _memo: dict = field(default_factory=dict, repr=False)

    def once(self, key: Hashable, make: Callable[[], V]) -> V:
        """Compute ``make()`` at the first call with this key; every later layer is handed the same value."""
        if key not in self._memo:
            self._memo[key] = make()
        return self._memo[key]

    def key_positions(self, count: int) -> Tensor:
        """(count,) or (B, count): positions of the last ``count`` keys."""
        return self.k_pos[..., self.k_pos.size(-1) - count :]

    def distance(self, count: int) -> Tensor:
        """(T, count) or (B, T, count): key position minus query position, for the last ``count`` keys."""
        return self.once(
            ("distance", count), lambda: self.key_positions(count).unsqueeze(-2) - self.q_pos.unsqueeze(-1)
        )

    def allowed(self, mask: Mask, count: int) -> Tensor:
        """(T, count) or (B, 1, T, count): True where attention to the last ``count`` keys is allowed.

        A padded query may see everything: its output is never read, but a row without a key would be NaN.
        """

        def make() -> Tensor:
            seen = mask(self.q_pos.unsqueeze(-1), self.key_positions(count).unsqueeze(-2))
            total, new = self.k_pos.size(-1), self.q_pos.size(-1)
            if self.segments is not None:
                seen = seen & (self.segments[:, total - new :, None] == self.segments[:, None, total - count :])
            if self.padding is not None:
                seen = (seen & self.padding[:, None, total - count :]) | ~self.padding[:, total - new :, None]
            return seen if seen.dim() == 2 else seen[:, None]

        return self.once((mask, count), make)


class Part(nn.Module):
    """The body of a residual branch: (B, T, D) -> (B, T, D), reading ``ctx`` and its own ``state`` between calls."""

    def forward(self, x: Tensor, ctx: Context, state: dict | None = None) -> Tensor:
        raise NotImplementedError


class Mixer(Part):
    """What a ``mixer`` or ``cross`` slot takes: moves information along the sequence."""


class FeedForward(Part):
    """What an ``ffn`` slot takes: works on each token by itself."""
