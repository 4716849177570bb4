"""What every layer may read besides its input: built once per forward by the backbone, read-only below it."""

# Shapes: B batch, T tokens of this call (queries), S tokens so far (keys), D model width, M memory length.

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import TYPE_CHECKING, Literal, TypeVar

from torch import Tensor, nn

if TYPE_CHECKING:
    from zoo.nn.cache import State
    from zoo.nn.mask import Mask
    from zoo.nn.packing import Packing
    from zoo.nn.position import Position

V = TypeVar("V")
Cut = Literal["column", "row", "heads"]  # its outputs, its inputs; or whole, while each device uses it for its heads


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
    memory_segments: Tensor | None = None  # (B, M) the queries' document that may read it, in a packed row
    cond: Tensor | None = None  # (B, D) conditioning vector for adaptive norms
    plain: bool = False  # positions are 0..T-1, nothing is cached, padded or packed: kernels may use their fast path
    packing: Packing | None = None  # how the samples that the backbone was given were moved into packed rows
    span: int | None = None  # no two positions are further apart, where that is known without looking at them
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

    def readable(self) -> Tensor | None:
        """(B, 1, 1, M) or (B, 1, T, M): True where a token may read of the memory; None where it may everywhere.

        One that is padding may read everything, as in ``allowed``.
        """
        if self.memory_segments is not None:
            return self.once("readable", self._readable)
        return None if self.memory_padding is None else self.memory_padding[:, None, None]

    def samples(self, x: Tensor) -> int:
        """How many samples there are in x (B, T, D), or in its packed rows."""
        return len(x) if self.packing is None else self.packing.samples

    def spread(self, value: Tensor) -> Tensor:
        """(B, 1, ...), one value a sample, as it broadcasts with (B, T, ...), or with the packed rows."""
        return value if self.packing is None else self.packing.spread(value)

    def _readable(self) -> Tensor:
        assert self.memory_segments is not None and self.q_segments is not None and self.q_padding is not None
        own = self.q_segments[:, :, None] == self.memory_segments[:, None]
        return (own | ~self.q_padding[:, :, None])[:, None]

    def _allowed(self, mask: Mask) -> Tensor:
        seen = mask(self.q_pos.unsqueeze(-1), self.k_pos.unsqueeze(-2))
        if self.segments is not None and self.q_segments is not None:
            seen = seen & (self.q_segments[:, :, None] == self.segments[:, None])
        if self.padding is not None:
            seen = seen & self.padding[:, None]
        if self.q_padding is not None:
            seen = seen | ~self.q_padding[:, :, None]
        return seen if seen.dim() == 2 else seen[:, None]


class Slot(nn.Module):
    """Base of all that reads a ``Context``.

    ``packs`` says that a class works in packed rows: it knows a token's neighbours by the positions and segments in
    ``ctx`` and not by their places in the input, and what belongs to a sample by ``ctx.spread``.  A backbone packs only
    where all its parts do.  ``ahead`` says that what becomes of a token may depend on later ones.  A subclass that
    overrides a method has to say ``packs`` again.
    """

    packs = False
    ahead = True

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own, before = vars(cls), [vars(base) for base in cls.__mro__[1:] if issubclass(base, Slot)]
        methods = {name for name, value in own.items() if isinstance(value, FunctionType) and not name.startswith("__")}
        if "packs" not in own and any(name in base for base in before for name in methods):
            cls.packs = False


def slots(root: nn.Module) -> list[Slot]:
    """All of a module, itself and whatever is within a part.  A backbone asks at each forward pass, since parts may be
    exchanged at any time; ``modules()``, which makes names on its way, would take five times as long."""
    found: list[nn.Module | None] = [root]
    for part in found:  # what is appended is met too
        if part is not None and part._modules:
            found += part._modules.values()
    return [part for part in found if isinstance(part, Slot)]


class Part(Slot):
    """The body of a residual branch: (B, T, D) -> (B, T, D), reading ``ctx`` and its own ``state`` between calls."""

    active = 1.0  # the share of its weights that one token meets: less where it is sent to some of many experts
    siblings: tuple[str, ...] = ()  # its linear layers that read one and the same input
    tensor_parallel: Mapping[str, Cut] = {}  # how they are cut over devices; those that are not named stay whole

    def forward(self, x: Tensor, ctx: Context, state: State | None = None) -> Tensor:
        raise NotImplementedError


class Mixer(Part):
    """What a ``mixer`` or ``cross`` slot takes: moves information along the sequence."""


class FeedForward(Part):
    """What an ``ffn`` slot takes: works on each token by itself."""
