"""A block with a convolution beside it (He et al. 2020, DeBERTa v2)."""

# Shapes: B batch, T tokens, D model width.

from collections.abc import Callable

from torch import Tensor, nn

from zoo.nn.block import Block
from zoo.nn.cache import State
from zoo.nn.context import Context, Slot
from zoo.nn.ffn import Activation, activation
from zoo.nn.norm import LayerNorm, Norm


class Convolved(Slot):
    """norm(block(x) + act(conv(x))): DeBERTa v2's first layer, which sees ``kernel`` neighbouring tokens at once.

    Takes a place in a backbone's ``block``.  Padding is zero to the convolution; it looks ahead, and across the
    documents of packed rows that the backbone was given; those that it packs itself are apart.
    """

    packs = True

    def __init__(
        self,
        dim: int,
        block: Callable[[int], Block],
        kernel: int = 3,
        act: Activation = "tanh",
        norm: Callable[[int], Norm] = LayerNorm,
        dropout: float = 0.0,
    ):
        super().__init__()
        if kernel % 2 == 0:
            raise ValueError(f"kernel={kernel} must be odd, so that every token has as many neighbours on both sides")
        self.block, self.norm, self.act = block(dim), norm(dim), activation(act)
        self.conv, self.drop = nn.Conv1d(dim, dim, kernel, padding=kernel // 2), nn.Dropout(dropout)

    def forward(self, x: Tensor, ctx: Context, state: State | None = None) -> Tensor:
        if ctx.packing is not None:
            real = ctx.packing.unpack(x)  # (R, L, D) -> (B, T, D)
        else:
            real = x if ctx.q_padding is None else x * ctx.q_padding[..., None]
        near = self.conv(real.mT).mT  # (B, T, D) -> (B, D, T) and back
        near = near if ctx.packing is None else ctx.packing.pack(near)
        return self.norm(self.block(x, ctx, state) + self.act(self.drop(near)))
