"""The Transformer (Vaswani et al. 2017): encoder and decoder, post-LayerNorm, sinusoidal positions."""

from functools import partial

from zoo.nn import MLP, Attention, Backbone, Block, Causal, EncoderDecoder, PostNorm, Sinusoidal


class Transformer(EncoderDecoder):
    """The paper's base model by default; big: ``dim=1024, heads=16, hidden=4096, dropout=0.3``.

    Both inputs are multiplied by sqrt(dim) before positions are added (section 3.4), so embeddings should begin small.
    ``dropout`` acts on both inputs and on every branch's output (base: 0.1).  Any length of source and target will do.
    Post-norm wants a learning-rate warm-up; ``T5`` is easier to train.  Raises ValueError where ``heads`` does not
    divide ``dim``.
    """

    def __init__(
        self,
        dim: int = 512,
        depth: int = 6,
        heads: int = 8,
        hidden: int | None = None,
        dropout: float = 0.0,
    ):
        ffn, residual = partial(MLP, hidden=hidden, act="relu"), partial(PostNorm, dropout=dropout)
        position = partial(Sinusoidal, multiply=dim**0.5)
        encoder = partial(Block, mixer=partial(Attention, heads=heads), ffn=ffn, residual=residual)
        decoder = partial(
            encoder,
            mixer=partial(Attention, heads=heads, mask=Causal()),
            cross=partial(Attention, heads=heads, cross=True),
        )
        super().__init__(
            Backbone(dim, depth, encoder, position=position, dropout=dropout),
            Backbone(dim, depth, decoder, position=position, dropout=dropout),
        )
