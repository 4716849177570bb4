"""ViT (Dosovitskiy et al. 2020): a pre-LayerNorm encoder over image patches and a class token."""

from functools import partial

from zoo.convert import Fused, Leading, PatchConv, Table
from zoo.nn import MLP, Attention, Backbone, Block, LayerNorm, Learned2d, PreNorm


class ViT(Backbone):
    """ViT-B/16 at 224 x 224 pixels by default; Ti, S, L and H: ``dim`` 192, 384, 1024, 1280, ``heads`` 3, 6, 16, 16,
    ``depth`` 12, 12, 24, 32.

    ``grid`` is the number of patches down and across, ``prefix`` that of the class tokens before them (0 with a mean
    pool); together they must be the length of the input, else the forward raises ValueError.  ``dropout`` acts on the
    input, on both branches' outputs and inside the MLP (the paper: 0.1); ``drop_path`` grows linearly to the last
    block (DeiT: 0.1).  Raises ValueError where ``heads`` does not divide ``dim``.

    SimpleViT (Beyer et al. 2022) is other parts, not a flag: ``Backbone`` with ``position=Sinusoidal2d``.
    """

    def __init__(
        self,
        dim: int = 768,
        depth: int = 12,
        heads: int = 12,
        hidden: int | None = None,
        grid: list[int] | int = 14,
        prefix: int = 1,
        eps: float = 1e-6,
        dropout: float = 0.0,
        drop_path: float = 0.0,
    ):
        height, width = (grid, grid) if isinstance(grid, int) else grid
        norm = partial(LayerNorm, eps=eps)
        block = partial(Block, mixer=partial(Attention, heads=heads), ffn=partial(MLP, hidden=hidden, dropout=dropout))
        residual = partial(PreNorm, norm=norm, dropout=dropout)
        rates = [drop_path * i / max(depth - 1, 1) for i in range(depth)]
        super().__init__(
            dim,
            depth,
            block=[partial(block, residual=partial(residual, drop_path=rate)) for rate in rates],
            position=partial(Learned2d, height=height, width=width, prefix=prefix),
            last_norm=norm,
            dropout=dropout,
        )


# timm's VisionTransformer, as its files on the hub are named.
TIMM = Table(
    PatchConv("patch_embed.proj", "embed.projection"),
    Leading("cls_token", "pool.weight"),
    Leading("pos_embed", "backbone.position.weight"),
    ("blocks.{}.norm1", "backbone.blocks.{}.mixer.norm"),
    Fused("blocks.{}.attn.qkv", tuple("backbone.blocks.{}.mixer.fn." + x for x in "qkv")),
    ("blocks.{}.attn.proj", "backbone.blocks.{}.mixer.fn.o"),
    ("blocks.{}.norm2", "backbone.blocks.{}.ffn.norm"),
    ("blocks.{}.mlp.fc1", "backbone.blocks.{}.ffn.fn.up"),
    ("blocks.{}.mlp.fc2", "backbone.blocks.{}.ffn.fn.down"),
    ("norm", "backbone.last_norm"),
    ("head", "head"),
)
