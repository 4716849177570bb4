"""Attention by content and by distance, each with vectors of its own: DeBERTa (He et al. 2020)."""

# Shapes: B batch, T queries, S keys, D model width, H heads, d head width, R rows of the table of distances.

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from zoo.nn.context import Context
from zoo.nn.norm import NoNorm, Norm
from zoo.nn.position import Position

TERMS = ("c2p", "p2c")


class Disentangled(Position):
    """One trained vector r a distance, shared by all layers, which adds two terms to the score of query i and key j:

    s (q_i · K r_ij + Q r_ij · k_j), where r_ij belongs to the distance i - j and s is the layer's scale.

    K and Q are the layer's projections of keys and queries (DeBERTa v2 and v3), unless it has a ``PositionProjections``
    (v1).  Distances beyond ``furthest`` are not told apart.  With ``buckets`` only those below half of it have a vector
    each; the others share the second half, log-spaced up to ``furthest``.  ``norm`` and ``dropout`` act on the vectors.
    Raises ValueError where there are too many buckets for ``furthest``.
    """

    tensor_parallel = {}

    packs = True

    def __init__(
        self,
        dim: int,
        furthest: int = 512,
        buckets: int = 0,
        norm: Callable[[int], Norm] = NoNorm,
        dropout: float = 0.0,
    ):
        super().__init__(dim)
        if buckets and not 0 < buckets // 2 < furthest - 1:
            raise ValueError(f"buckets={buckets} must lie between 2 and twice furthest={furthest}; 0 is none")
        self.furthest, self.buckets = furthest, buckets
        self.table = nn.Embedding(2 * (buckets or furthest), dim)
        self.norm, self.drop = norm(dim), nn.Dropout(dropout)

    def bias(self, q: Tensor, k: Tensor, attention: nn.Module, ctx: Context) -> Tensor:
        return self.scores(q, k, attention, attention.q, attention.k, ctx)

    def scores(
        self,
        q: Tensor,
        k: Tensor,
        attention: nn.Module,
        query: nn.Module | None,
        key: nn.Module | None,
        ctx: Context,
    ) -> Tensor:
        """(B, H, T, d) queries, (B, H, S, d) keys -> (B, H, T, S): the terms of the projections that are given."""
        scale = attention.scale or q.size(-1) ** -0.5
        vectors, index = ctx.once(self, lambda: self._read(ctx))
        vectors = self.drop(vectors)
        total = q.new_zeros(())
        if key is not None:
            rows = key(vectors).unflatten(-1, (q.size(1), -1)).movedim(0, 1)  # (R, H d) -> (H, R, d)
            total = total + picked(q * scale @ rows.mT, index)
        if query is not None:
            rows = query(vectors).unflatten(-1, (q.size(1), -1)).movedim(0, 1)
            total = total + picked(k @ (rows * scale).mT, index.mT).mT
        return total

    def _read(self, ctx: Context) -> tuple[Tensor, Tensor]:
        """(R, D) vectors, of the distances that there can be, and (T, S) or (B, T, S) their rows."""
        apart, half = -ctx.distance(), len(self.table.weight) // 2
        reach = half
        span = ctx.k_pos.size(-1) if apart.dim() == 2 else ctx.span  # without a batch, positions count on
        if self.buckets:
            apart = log_buckets(apart, self.buckets, self.furthest)
        elif span is not None:
            reach = min(half, span)
        vectors = self.norm(self.table(torch.arange(half - reach, half + reach, device=apart.device)))
        return vectors, (apart + reach).clamp(0, 2 * reach - 1)


class PositionProjections(Position):
    """A layer's own projections of the backbone's ``Disentangled`` vectors (DeBERTa v1), given to its ``Attention``.

    ``terms`` are "c2p", a query's score with the distance, which takes K without a bias, and "p2c", a key's, with Q.
    Raises ValueError where there is none of them, or another.
    """

    tensor_parallel = {"q": "column", "k": "column"}

    packs = True

    def __init__(self, dim: int, terms: Sequence[str] = TERMS):
        super().__init__(dim)
        if not terms or set(terms) - set(TERMS):
            raise ValueError(f"terms={list(terms)} should be one or both of {', '.join(TERMS)}")
        self.q = nn.Linear(dim, dim) if "p2c" in terms else None
        self.k = nn.Linear(dim, dim, bias=False) if "c2p" in terms else None

    def bias(self, q: Tensor, k: Tensor, attention: nn.Module, ctx: Context) -> Tensor:
        assert isinstance(ctx.position, Disentangled), "PositionProjections read the vectors of a Disentangled backbone"
        return ctx.position.scores(q, k, attention, self.q, self.k, ctx)


def picked(scores: Tensor, index: Tensor) -> Tensor:
    """(B, H, T, R) scores with all rows, (T, S) or (B, T, S) rows -> (B, H, T, S)."""
    index = index if index.dim() == 2 else index[:, None]
    return scores.gather(-1, index.expand(*scores.shape[:2], *index.shape[-2:]))


def log_buckets(apart: Tensor, buckets: int, furthest: int) -> Tensor:
    """Distances r up to m = buckets / 2 as they are, then m + ceil((m - 1) log(r / m) / log((furthest - 1) / m)), with
    the sign of r."""
    near = buckets // 2
    base = torch.tensor((furthest - 1) / near, device=apart.device).log()
    far = ((apart.abs().clamp(min=near) / near).log() / base * (near - 1)).ceil().long() + near
    return torch.where(apart.abs() <= near, apart, far * apart.sign())
