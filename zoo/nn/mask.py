"""Which keys may a query see?  Masks are values: compare them, hash them, combine them with ``&`` and ``|``.

Being hashable, a mask built once per forward serves every layer that names an equal one.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


class Mask:
    """A predicate over positions: ``mask(q, k)`` is True where the query at position ``q`` may see the key at ``k``.

    ``q`` and ``k`` are integer tensors that broadcast, (T, 1) and (1, S) or (B, T, 1) and (B, 1, S).
    """

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        raise NotImplementedError

    @property
    def ahead(self) -> bool:
        """May a query see keys that come after it?"""
        return True

    @property
    def behind(self) -> int | None:
        """How many positions back a query may look, or None for all: what a rolling cache has to keep."""
        return None

    def reaches(self, count: int) -> bool:
        """Does the last of ``count`` tokens in a row see all of them?"""
        return False

    def __and__(self, other: Mask) -> Mask:
        return And(self, other)

    def __or__(self, other: Mask) -> Mask:
        return Or(self, other)


@dataclass(frozen=True)
class And(Mask):
    """Where both allow it."""

    a: Mask
    b: Mask

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        return self.a(q, k) & self.b(q, k)

    @property
    def ahead(self) -> bool:
        return self.a.ahead and self.b.ahead

    @property
    def behind(self) -> int | None:
        return min((m.behind for m in (self.a, self.b) if m.behind is not None), default=None)

    def reaches(self, count: int) -> bool:
        return self.a.reaches(count) and self.b.reaches(count)


@dataclass(frozen=True)
class Or(Mask):
    """Where either allows it."""

    a: Mask
    b: Mask

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        return self.a(q, k) | self.b(q, k)

    @property
    def ahead(self) -> bool:
        return self.a.ahead or self.b.ahead

    @property
    def behind(self) -> int | None:
        a, b = self.a.behind, self.b.behind
        return None if a is None or b is None else max(a, b)

    def reaches(self, count: int) -> bool:
        return self.a.reaches(count) or self.b.reaches(count)


@dataclass(frozen=True)
class Full(Mask):
    """Everybody sees everybody: encoders."""

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        return (q >= 0) | (k >= 0)

    def reaches(self, count: int) -> bool:
        return True


@dataclass(frozen=True)
class Causal(Mask):
    """Nobody sees the future: decoders."""

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        return k <= q

    @property
    def ahead(self) -> bool:
        return False

    def reaches(self, count: int) -> bool:
        return True


@dataclass(frozen=True)
class Window(Mask):
    """Keys less than ``size`` positions away on either side (Longformer, Beltagy et al. 2020).

    ``Causal() & Window(4096)`` is Mistral's sliding window (Jiang et al. 2023).
    """

    size: int

    def __post_init__(self):
        if self.size < 1:
            raise ValueError(f"Window(size={self.size}) would let a token see nothing; size must be 1 or more")

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        return (q - k).abs() < self.size

    @property
    def behind(self) -> int | None:
        return self.size - 1

    def reaches(self, count: int) -> bool:
        return count <= self.size


@dataclass(frozen=True)
class Prefix(Mask):
    """The first ``count`` keys are seen by all; ``Causal() | Prefix(n)`` is a prefix LM (T5, Raffel et al. 2019)."""

    count: int

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        return (k < self.count) & (q >= 0)


@dataclass(frozen=True)
class Global(Mask):
    """The first ``count`` tokens see, and are seen by, everyone (Longformer, BigBird)."""

    count: int = 1

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        return (k < self.count) | (q < self.count)
