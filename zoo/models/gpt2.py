"""GPT-2 (Radford et al. 2019): a causal pre-LayerNorm decoder with learned positions."""

from functools import partial

from zoo.nn import MLP, Attention, Backbone, Block, Causal, LayerNorm, Learned, PreNorm


class GPT2(Backbone):
    """GPT-2 small by default; medium, large, XL: ``dim`` 1024, 1280, 1600, ``depth`` 24, 36, 48, ``heads`` 16, 20, 25.

    ``length`` is the longest sequence.  ``dropout`` acts on the input, on both branches' outputs and on the attention
    weights (published: 0.1).  Raises ValueError where ``heads`` does not divide ``dim``.
    """

    def __init__(
        self,
        dim: int = 768,
        depth: int = 12,
        heads: int = 12,
        hidden: int | None = None,
        length: int = 1024,
        eps: float = 1e-5,
        dropout: float = 0.0,
    ):
        norm = partial(LayerNorm, eps=eps)
        block = partial(
            Block,
            mixer=partial(Attention, heads=heads, mask=Causal(), dropout=dropout),
            ffn=partial(MLP, hidden=hidden, act="gelu_tanh"),
            residual=partial(PreNorm, norm=norm, dropout=dropout),
        )
        position = partial(Learned, length=length)
        super().__init__(dim, depth, block, position=position, last_norm=norm, dropout=dropout)
