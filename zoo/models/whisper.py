"""Whisper (Radford et al. 2022): encoder and decoder for speech, pre-LayerNorm, sinusoidal and learned positions."""

from functools import partial

from zoo.nn import (
    MLP,
    Attention,
    Backbone,
    Block,
    Causal,
    EncoderDecoder,
    LayerNorm,
    Learned,
    PreNorm,
    Sinusoidal,
)


class Whisper(EncoderDecoder):
    """Whisper-base by default; tiny, small, medium, large: ``dim`` 384, 768, 1024, 1280, ``depth`` 4, 12, 24, 32,
    ``heads`` 6, 12, 16, 20.

    The convolutions over frames belong to the tokenizer's embedding.  Any length of source will do; ``length`` is the
    longest target.  ``dropout`` acts on both inputs and on every branch's output (published: none).  Raises ValueError
    where ``heads`` does not divide ``dim``.
    """

    def __init__(
        self,
        dim: int = 512,
        depth: int = 6,
        heads: int = 8,
        hidden: int | None = None,
        length: int = 448,
        dropout: float = 0.0,
    ):
        attention = partial(Attention, heads=heads, bias="qvo")  # a key's bias adds the same to all scores of a query
        encoder = partial(
            Block, mixer=attention, ffn=partial(MLP, hidden=hidden), residual=partial(PreNorm, dropout=dropout)
        )
        decoder = partial(encoder, mixer=partial(attention, mask=Causal()), cross=partial(attention, cross=True))
        half = partial(Backbone, last_norm=LayerNorm, dropout=dropout)
        super().__init__(
            half(dim, depth, encoder, position=partial(Sinusoidal, layout="sin_cos", spacing="last")),
            half(dim, depth, decoder, position=partial(Learned, length=length)),
        )
