"""Softmax attention, over the sequence itself or over a memory."""

# Shapes: B batch, T queries, S keys, D model width, H query heads, K key/value heads, d head width, M memory length.

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from zoo.nn.attend import attend, attention_weights
from zoo.nn.cache import State
from zoo.nn.context import Context, Mixer
from zoo.nn.mask import Causal, Full, Mask
from zoo.nn.norm import NoNorm, Norm
from zoo.nn.position import Position


class Attention(Mixer):
    """Multi-head attention (Vaswani et al. 2017); grouped-query (Ainslie et al. 2023) where ``kv_heads < heads``,
    multi-query (Shazeer 2019) where it is 1.

    ``mask`` says who sees whom.  ``cross`` reads keys and values from ``ctx.memory`` instead of the input.
    ``position`` serves this layer alone, in place of the backbone's.  ``bias`` is True, False, or the letters of the
    projections that have one: "qvo" leaves the keys without (Whisper).  ``scale`` multiplies the scores, d^-1/2 if
    not given.  Raises ValueError where the head counts do not divide.
    """

    tensor_parallel = {"q": "column", "k": "column", "v": "column", "o": "row", "q_norm": "heads", "k_norm": "heads"}
    packs = True

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        mask: Mask = Full(),
        cross: bool = False,
        position: Callable[[int], Position] | None = None,
        bias: bool | str = True,
        qk_norm: Callable[[int], Norm] = NoNorm,
        scale: float | None = None,
        dropout: float = 0.0,
    ):
        super().__init__()
        kv_heads = kv_heads or heads
        if head_dim is None and dim % heads:
            raise ValueError(f"heads={heads} does not divide dim={dim}; choose a divisor, or give head_dim")
        if heads % kv_heads:
            raise ValueError(f"kv_heads={kv_heads} does not divide heads={heads}")
        head_dim = head_dim or dim // heads
        biased = ("qkvo" if bias else "") if isinstance(bias, bool) else bias
        if set(biased) - set("qkvo"):
            raise ValueError(f"bias={bias!r} names projections other than q, k, v and o")
        self.heads, self.head_dim, self.mask, self.cross = heads, head_dim, mask, cross
        self.scale, self.dropout = scale, dropout
        self.position = position(dim) if position else None
        self.q = nn.Linear(dim, heads * head_dim, bias="q" in biased)
        self.k = nn.Linear(dim, kv_heads * head_dim, bias="k" in biased)
        self.v = nn.Linear(dim, kv_heads * head_dim, bias="v" in biased)
        self.o = nn.Linear(heads * head_dim, dim, bias="o" in biased)
        self.q_norm, self.k_norm = qk_norm(head_dim), qk_norm(head_dim)

    @property
    def siblings(self) -> tuple[str, ...]:
        return ("k", "v") if self.cross else ("q", "k", "v")

    @property
    def ahead(self) -> bool:
        return self.mask.ahead and not self.cross

    def forward(self, x: Tensor, ctx: Context, state: State | None = None) -> Tensor:
        q = self.q_norm(self._split(self.q(x)))
        bias, causal = None, False
        if self.cross:
            k, v = self._remember(ctx, state)
            allowed = ctx.readable()
        else:
            k, v = self.k_norm(self._split(self.k(x))), self._split(self.v(x))
            position = self.position or ctx.position
            q, k = position.rotate(q, k, ctx)
            if state is not None:
                k, v, ctx = state.append(k, v, self.mask.behind, ctx)
            bias = position.bias(q, k, self, ctx)
            free = ctx.plain and self.mask == Full()
            causal = ctx.plain and self.mask == Causal() and bias is None
            allowed = None if free or causal else ctx.allowed(self.mask)
        seen: dict[str, Any] = {"allowed": allowed, "bias": bias, "causal": causal, "scale": self.scale}
        y = attend(q, k, v, **seen, dropout=self.dropout * self.training)
        if ctx.maps is not None:
            weights = attention_weights(q, k, **seen)
            ctx.maps[self] = weights if self.cross or ctx.order is None else weights[..., ctx.order]
        return self.o(y.transpose(1, 2).flatten(2))  # (B, H, T, d) -> (B, T, H d) -> (B, T, D)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (B, T, H d) -> (B, H, T, d)

    def _remember(self, ctx: Context, state: State | None) -> tuple[Tensor, Tensor]:
        """Keys and values of the memory: computed once, then kept."""
        assert ctx.memory is not None, "cross-attention needs a memory"
        if state is not None and state.memory is not None:
            return state.memory
        k, v = self.k_norm(self._split(self.k(ctx.memory))), self._split(self.v(ctx.memory))
        if state is not None:
            state.memory = (k, v)
        return k, v
