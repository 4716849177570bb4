"""How a branch joins the residual stream: one class a formula."""

# Shapes: B batch, T tokens, D model width.

from collections.abc import Callable

import torch
from torch import Tensor, nn

from zoo.nn.cache import State
from zoo.nn.context import Context, Part, Slot
from zoo.nn.norm import LayerNorm, Norm


class Residual(Slot):
    """What a ``residual`` slot takes: built as ``residual(dim, fn)`` around a branch's body ``fn``.

    ``dropout`` acts on the branch's output; ``drop_path`` leaves the whole branch out for that share of the samples in
    training (stochastic depth, Huang et al. 2016).
    """

    ahead = False

    def __init__(
        self,
        dim: int,
        fn: Part,
        norm: Callable[[int], Norm] = LayerNorm,
        dropout: float = 0.0,
        drop_path: float = 0.0,
    ):
        super().__init__()
        self.norm, self.fn = norm(dim), fn
        self.drop, self.drop_path = nn.Dropout(dropout), drop_path
        self.furnish(dim, norm)

    def furnish(self, dim: int, norm: Callable[[int], Norm]) -> None:
        """Whatever a formula needs besides its norm and body."""

    def forward(self, x: Tensor, ctx: Context, state: State | None = None) -> Tensor:
        raise NotImplementedError

    def thin(self, branch: Tensor, ctx: Context) -> Tensor:
        """Dropout and stochastic depth on a branch's output (B, T, D)."""
        if not self.training:
            return branch
        branch = self.drop(branch)
        if self.drop_path:
            keep = branch.new_empty(ctx.samples(branch), 1, 1).bernoulli_(1 - self.drop_path)
            branch = branch * ctx.spread(keep) / (1 - self.drop_path)
        return branch


class PreNorm(Residual):
    """x + f(norm(x)): GPT-2, LLaMA, ViT, T5."""

    packs = True

    def forward(self, x: Tensor, ctx: Context, state: State | None = None) -> Tensor:
        return x + self.thin(self.fn(self.norm(x), ctx, state), ctx)


class PostNorm(Residual):
    """norm(x + f(x)): the original Transformer, BERT, BART."""

    packs = True

    def forward(self, x: Tensor, ctx: Context, state: State | None = None) -> Tensor:
        return self.norm(x + self.thin(self.fn(x, ctx, state), ctx))


class Sandwich(Residual):
    """x + norm_out(f(norm(x))): CogView (Ding et al. 2021), Gemma 2."""

    packs = True

    def furnish(self, dim: int, norm: Callable[[int], Norm]) -> None:
        self.norm_out = norm(dim)

    def forward(self, x: Tensor, ctx: Context, state: State | None = None) -> Tensor:
        return x + self.thin(self.norm_out(self.fn(self.norm(x), ctx, state)), ctx)


class Gated(Residual):
    """x + tanh(gate) * f(norm(x)), the gate zero at first: Flamingo (Alayrac et al. 2022)."""

    packs = True

    def furnish(self, dim: int, norm: Callable[[int], Norm]) -> None:
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor, ctx: Context, state: State | None = None) -> Tensor:
        return x + self.gate.tanh() * self.thin(self.fn(self.norm(x), ctx, state), ctx)


class AdaNorm(Residual):
    """x + gate(c) * f(norm(x) * (1 + scale(c)) + shift(c)), starting as the identity: DiT's adaLN-Zero
    (Peebles & Xie 2022).  Reads the conditioning vector ``ctx.cond`` (B, D); the norm has no weights of its own."""

    packs = True

    def __init__(self, dim: int, fn: Part, eps: float = 1e-6, dropout: float = 0.0, drop_path: float = 0.0):
        super().__init__(dim, fn, lambda d: LayerNorm(d, eps=eps, affine=False), dropout, drop_path)
        self.act, self.modulate = nn.SiLU(), nn.Linear(dim, 3 * dim)

    def forward(self, x: Tensor, ctx: Context, state: State | None = None) -> Tensor:
        assert ctx.cond is not None, "AdaNorm needs a conditioning vector"
        modulation = self.modulate(self.act(ctx.cond))[:, None]  # (B, 1, 3 D)
        shift, scale, gate = ctx.spread(modulation).chunk(3, -1)  # (B, 1, D) each, or (B, T, D) in packed rows
        return x + gate * self.thin(self.fn(self.norm(x) * (1 + scale) + shift, ctx, state), ctx)
