"""T5 (Raffel et al. 2019): encoder and decoder, pre-RMSNorm, a bucketed relative bias, no score scaling, no biases."""

from collections.abc import Callable
from functools import partial

from zoo.nn import GLU, MLP, Attention, Backbone, Block, Buckets, Causal, EncoderDecoder, FeedForward, PreNorm, RMSNorm


class T5(EncoderDecoder):
    """T5-small of the paper, with a ReLU feed-forward, by default; base and large: ``dim`` 768, 1024, ``depth`` 12, 24,
    ``heads`` 12, 16, ``hidden`` 3072, 4096.

    Any length of source and target will do: the bias knows distances only.  ``head_dim`` need not be dim / heads.
    ``dropout`` acts on both inputs, on every branch's output, inside the feed-forward and on the attention weights
    (the paper: 0.1).
    """

    def __init__(
        self,
        dim: int = 512,
        depth: int = 6,
        heads: int = 8,
        head_dim: int = 64,
        hidden: int = 2048,
        buckets: int = 32,
        furthest: int = 128,
        dropout: float = 0.0,
    ):
        ffn = partial(MLP, hidden=hidden, act="relu", bias=False, dropout=dropout)
        super().__init__(*_halves(dim, depth, heads, head_dim, ffn, buckets, furthest, dropout))


class T5Gated(EncoderDecoder):
    """T5 1.1 small by default, T5 with a gated GELU (Shazeer 2020; FLAN-T5 and mT5 have this shape); base and large:
    ``dim`` 768, 1024, ``depth`` 12, 24, ``heads`` 12, 16, ``hidden`` 2048, 2816.

    A good first choice for any source, text, image or audio.  The arguments are those of ``T5``.
    """

    def __init__(
        self,
        dim: int = 512,
        depth: int = 8,
        heads: int = 6,
        head_dim: int = 64,
        hidden: int = 1024,
        buckets: int = 32,
        furthest: int = 128,
        dropout: float = 0.0,
    ):
        ffn = partial(GLU, hidden=hidden, act="gelu_tanh", dropout=dropout)
        super().__init__(*_halves(dim, depth, heads, head_dim, ffn, buckets, furthest, dropout))


def _halves(
    dim: int,
    depth: int,
    heads: int,
    head_dim: int,
    ffn: Callable[[int], FeedForward],
    buckets: int,
    furthest: int,
    dropout: float,
) -> tuple[Backbone, Backbone]:
    attention = partial(Attention, heads=heads, head_dim=head_dim, bias=False, scale=1.0, dropout=dropout)
    encoder = partial(Block, mixer=attention, ffn=ffn, residual=partial(PreNorm, norm=RMSNorm, dropout=dropout))
    decoder = partial(encoder, mixer=partial(attention, mask=Causal()), cross=partial(attention, cross=True))
    position = partial(Buckets, heads=heads, buckets=buckets, furthest=furthest)
    half = partial(Backbone, last_norm=RMSNorm, dropout=dropout)
    return (
        half(dim, depth, encoder, position=position),
        half(dim, depth, decoder, position=partial(position, causal=True)),
    )
