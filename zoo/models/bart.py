"""BART (Lewis et al. 2019): encoder and decoder, post-LayerNorm, learned positions, GELU."""

from functools import partial

from zoo.nn import MLP, Attention, Backbone, Block, Causal, EncoderDecoder, LayerNorm, Learned, PostNorm


class BART(EncoderDecoder):
    """BART-base by default; large: ``dim=1024, depth=12, heads=16``.

    ``length`` is the longest source and target.  ``dropout`` acts on both inputs and on every branch's output
    (published: 0.1).  Raises ValueError where ``heads`` does not divide ``dim``.
    """

    def __init__(
        self,
        dim: int = 768,
        depth: int = 6,
        heads: int = 12,
        hidden: int | None = None,
        length: int = 1024,
        dropout: float = 0.0,
    ):
        ffn, residual = partial(MLP, hidden=hidden), partial(PostNorm, dropout=dropout)
        encoder = partial(Block, mixer=partial(Attention, heads=heads), ffn=ffn, residual=residual)
        decoder = partial(
            encoder,
            mixer=partial(Attention, heads=heads, mask=Causal()),
            cross=partial(Attention, heads=heads, cross=True),
        )
        half = partial(
            Backbone, position=partial(Learned, length=length, offset=2), first_norm=LayerNorm, dropout=dropout
        )
        super().__init__(half(dim, depth, encoder), half(dim, depth, decoder))
