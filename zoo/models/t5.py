"""T5 (Raffel et al. 2019): encoder and decoder, pre-RMSNorm, a bucketed relative bias, no score scaling, no biases."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from torch import nn

from zoo.convert import pairs
from zoo.models.inputs import TextInputs
from zoo.models.published import TIED, AnyRule, Architecture, Config, Published, Size
from zoo.nn import GLU, MLP, Attention, Backbone, Block, Buckets, Causal, EncoderDecoder, PreNorm, Project, RMSNorm


class T5(EncoderDecoder):
    """T5-small of the paper, with a ReLU feed-forward, by default.

    Any length of source and target will do: the bias knows distances only.  ``head_dim`` need not be dim / heads;
    ``decoder_depth`` is ``depth`` if not given.  ``dropout`` acts on both inputs, on every branch's output, inside the
    feed-forward and on the attention weights (the paper: 0.1).
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
        decoder_depth: int | None = None,
        eps: float = 1e-6,
    ):
        ffn = partial(MLP, hidden=hidden, act="relu", bias=False, dropout=dropout)
        position = partial(Buckets, heads=heads, buckets=buckets, furthest=furthest)
        block = pre_norm(heads, head_dim, ffn, dropout, eps)
        super().__init__(*halves(dim, (depth, decoder_depth or depth), block, position, dropout, eps))


class T5Gated(EncoderDecoder):
    """T5 1.1 small by default, T5 with a gated GELU (Shazeer 2020; FLAN-T5 and mT5 have this shape).

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
        decoder_depth: int | None = None,
        eps: float = 1e-6,
    ):
        ffn = partial(GLU, hidden=hidden, act="gelu_tanh", dropout=dropout)
        X
