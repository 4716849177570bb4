"""What every layer may read besides its input: built once per forward by the backbone, read-only below it."""

# Shapes: B batch, T tokens of this call (queries), S tokens so far (keys), D model width, M memory length.

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from torch import Tensor, nn

if TYPE_CHECKING:
    from zoo.nn.cache import State
    from zoo.nn.mask import Mask
    from zoo.nn.position import Position

V = TypeVar("V")


@dataclass(frozen=True)
class Context:
    """One forward pass, as the layers see it.

    Queries are the tokens of this call.  Keys are the same, until a layer is handed those of earlier calls by its
    state, with a context of its own that faces them.
    """

    position: Position
    q_pos: Tensor  # (T,), or (B, T) where samples differ: left padding, packed rows
    k_pos: Tensor  # (S,) or (B, S)
    padding: Tensor | None = None  # (B, S) True where a key is real
    segments: Tensor | None = None  # (B, S) document number in a packed row: attention never crosses a document
    q_padding: Tensor | None = None  # (B, T) the same of the queries
    q_segments: Tensor | None = None  # (B, T)
    memory: Tensor | None = None  # (B, M, D) states for cross-attention
    memory_padding: Tensor | None = None  # (B, M) True where real
    cond: Tensor | None = None  # (B, D) conditioning vector for adaptive norms
    plain: bool = False  # positions are 0..T-1, nothing is cached, padded or packed: kernels may use their fast path
    order: Tensor | None = None  # (S,) the keys' places in the order of their tokens, where that is another
    maps: dict[nn.Module, Tensor] | None = None  # (B, H, T, S) float32 weights of each layer, where they are asked for
    _memo: dict = field(default_factory=dict, repr=False)

    def once(self, key: Hashable, make: Callable[[], V]) -> V:
        """Compute ``make()`` at the first call with this key; every later layer is handed the same value."""
        if key not in self._memo:
            self._memo[key] = make()
        return self._memo[key]

    def distance(self) -> Tensor:
        """(T, S) or (B, T, S): key position minus query position."""
        return self.once("distance", lambda: self.k_pos.unsqueeze(-2) - self.q_pos.unsqueeze(-1))

    def allowed(self, mask: Mask) -> Tensor | None:
        """(T, S) or (B, 1, T, S): True where attention is allowed; None where it is everywhere.

        A padded query may see everything: its output is never read, but a row without a key would be NaN.
        """
        newest = self.padding is None and self.segments is None and self.q_pos.shape == (1,)
        if newest and mask.reaches(self.k_pos.size(-1)):
            return None
        return self.once(mask, lambda: self._allowed(mask))

    def _allowed(self, mask: Mask) -> Tensor:
        seen = mask(self.q_pos.unsqueeze(-1), self.k_pos.unsqueeze(-2))
        if self.segments is not None and self.q_segments is not None:
            seen = seen & (self.q_segments[:, :, None] == self.segments[:, None])
        if self.padding is not None:
            seen = seen & self.padding[:, None]
        if self.q_padding is not None:
            seen = seen | ~self.q_padding[:, :, None]
        return seen if seen.dim() == 2 else seen[:, None]


class Part(nn.Module):
    """The body of a residual branch: (B, T, D) -> (B, T, D), reading ``ctx`` and its own ``state`` between calls."""

    siblings: tuple[str, ...] = ()  # its linear layers that read one and the same input

    def forward(self, x: Tensor, ctx: Context, state: State | None = None) -> Tensor:
        raise NotImplementedError


class Mixer(Part):
    """What a ``mixer`` or ``cross`` slot takes: moves information along the sequence."""


class FeedForward(Part):
    """What an ``ffn`` slot takes: works on each token by itself."""
