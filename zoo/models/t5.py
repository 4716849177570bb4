"""T5 (Raffel et al. 2019): encoder and decoder, pre-RMSNorm, a bucketed relative bias, no score scaling, no biases."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from torch import nn

from zoo.models.inputs import TextInputs
from zoo.models.published import Architecture, Config, Published, Size
from zoo.nn import (
    GLU,
    MLP,
    Attention,
    Backbone,
    Block,
    Buckets,
    Causal,
    EncoderDecoder,
    FeedForward,
    PreNorm,
    Project,
    RMSNorm,
)


class T5(EncoderDecoder):
    """T5-small of the paper, with a ReLU feed-forward, by default; base and large: ``dim`` 768, 1024, ``depth`` 12, 24,
    ``heads`` 12, 16, ``hidden`` 3072, 4096.

    Any length of source and target will do: the bias knows distances only.  ``head_dim`` need not be dim / heads.
    ``decoder_depth`` is ``depth`` if not given.
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
        decoder_depth: int | None = None,
        eps: float = 1e-6,
    ):
        ffn = partial(MLP, hidden=hidden, act="relu", bias=False, dropout=dropout)
        super().__init__(
            *_halves(dim, (depth, decoder_depth or depth), heads, head_dim, ffn, buckets, furthest, dropout, eps)
        )


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
        decoder_depth: int | None = None,
        eps: float = 1e-6,
    ):
        ffn = partial(GLU, hidden=hidden, act="gelu_tanh", dropout=dropout)
        super().__init__(
            *_halves(dim, (depth, decoder_depth or depth), heads, head_dim, ffn, buckets, furthest, dropout, eps)
        )


def _halves(
    dim: int,
    depths: tuple[int, int],
    heads: int,
    head_dim: int,
    ffn: Callable[[int], FeedForward],
    buckets: int,
    furthest: int,
    dropout: float,
    eps: float,
) -> tuple[Backbone, Backbone]:
    norm = partial(RMSNorm, eps=eps)
    attention = partial(Attention, heads=heads, head_dim=head_dim, bias=False, scale=1.0, dropout=dropout)
    encoder = partial(Block, mixer=attention, ffn=ffn, residual=partial(PreNorm, norm=norm, dropout=dropout))
    decoder = partial(encoder, mixer=partial(attention, mask=Causal()), cross=partial(attention, cross=True))
    position = partial(Buckets, heads=heads, buckets=buckets, furthest=furthest)
    half = partial(Backbone, last_norm=norm, dropout=dropout)
    return (
        half(dim, depths[0], encoder, position=position),
        half(dim, depths[1], decoder, position=partial(position, causal=True)),
    )


# The files of transformers' T5; a block's branches are numbered there: 0 and, in the decoder, 1 attend, the last maps.

BRANCHES = (
    ("encoder", "0.SelfAttention", "mixer"),
    ("decoder", "0.SelfAttention", "mixer"),
    ("decoder", "1.EncDecAttention", "cross"),
)
TRUNK = (
    ("shared", "embed.table"),
    *(
        (f"{half}.block.{{}}.layer.{theirs}.{part}", f"backbone.{half}.blocks.{{}}.{ours}.fn.{part}")
        for half, theirs, ours in BRANCHES
        for part in "qkvo"
    ),
    *(
        (f"{half}.block.{{}}.layer.{theirs[0]}.layer_norm", f"backbone.{half}.blocks.{{}}.{ours}.norm")
        for half, theirs, ours in (*BRANCHES, ("encoder", "1", "ffn"), ("decoder", "2", "ffn"))
    ),
    *(
        (f"{half}.block.0.layer.0.SelfAttention.relative_attention_bias", f"backbone.{half}.position")
        for half in ("encoder", "decoder")
    ),
    ("encoder.final_layer_norm", "backbone.encoder.last_norm"),
    ("decoder.final_layer_norm", "backbone.decoder.last_norm"),
)
KEYS = {
    "dim": "d_model",
    "depth": "num_layers",
    "heads": "num_heads",
    "head_dim": "d_kv",
    "hidden": "d_ff",
    "buckets": "relative_attention_num_buckets",
    "furthest": "relative_attention_max_distance",
    "dropout": "dropout_rate",
    "decoder_depth": "num_decoder_layers",
    "eps": "layer_norm_epsilon",
}
BASE = {
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "dropout_rate": 0.1,
    "num_decoder_layers": None,
    "layer_norm_epsilon": 1e-6,
    "vocab_size": 32128,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}
DROP = (
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias",  # never read
    "encoder.embed_tokens",  # copies of "shared"
    "decoder.embed_tokens",
)


def feed_forward(**maps: str) -> tuple[tuple[str, str], ...]:
    """The names of its maps, by ours."""
    return tuple(
        (f"{half}.block.{{}}.layer.{last}.DenseReluDense.{theirs}", f"backbone.{half}.blocks.{{}}.ffn.fn.{ours}")
        for half, last in (("encoder", 1), ("decoder", 2))
        for ours, theirs in maps.items()
    )


def tell_scale(config: Config) -> Config:
    """The first T5 scales its output by D^-1/2 and 1.1 does not; older configs say so by tying their tables or not,
    whatever the weights do."""
    return {"scale_decoder_outputs": config.get("tie_word_embeddings") is not False, **config}


def scaled(config: Config) -> dict[str, Any]:
    scale = config["d_model"] ** -0.5 if config["scale_decoder_outputs"] else 1.0
    return {"head": partial(Project, bias=False, scale=scale)}


def scaling(task: nn.Module) -> Config:
    return {"scale_decoder_outputs": isinstance(task.head, Project) and task.head.scale != 1.0}


LANGUAGE = Architecture(
    "Seq2Seq",
    scaled,
    (("lm_head", "head.out"),),
    tied=(("head.out.weight", "embed.table.weight"), ("target_embed.table.weight", "embed.table.weight")),
    write=scaling,
)
INPUTS = TextInputs(begin="decoder_start_token_id")
FIRST = {"feed_forward_proj": "relu", "dense_act_fn": "relu", "is_gated_act": False, "is_encoder_decoder": True}
GATED = {
    "feed_forward_proj": "gated-gelu",
    "dense_act_fn": "gelu_new",
    "is_gated_act": True,
    "is_encoder_decoder": True,
}
UNTIED = {"tie_word_embeddings": False}
SMALL = Size(76_961_152, UNTIED)
BASIC = Size(247_577_856, UNTIED, dim=768, depth=12, heads=12, hidden=2048)
LARGE = Size(783_150_080, UNTIED, dim=1024, depth=24, heads=16, hidden=2816)

PUBLISHED = Published(
    "t5",
    T5,
    KEYS,
    {"T5ForConditionalGeneration": LANGUAGE},
    trunk=(*TRUNK, *feed_forward(up="wi", down="wo")),
    inputs=INPUTS,
    base=BASE,
    fixed=FIRST,
    drop=DROP,
    clean=tell_scale,
    sizes={
        "t5-small": Size(60_506_624),
        "t5-base": Size(222_903_552, dim=768, depth=12, heads=12, hidden=3072),
        "t5-large": Size(737_668_096, dim=1024, depth=24, heads=16, hidden=4096),
        "t5-3b": Size(2_851_598_336, dim=1024, depth=24, heads=32, head_dim=128, hidden=16384),
    },
)
PUBLISHED_GATED = Published(
    "t5",
    T5Gated,
    KEYS,
    {"T5ForConditionalGeneration": LANGUAGE},
    trunk=(*TRUNK, *feed_forward(gate="wi_0", up="wi_1", down="wo")),
    inputs=INPUTS,
    base=BASE,
    fixed=GATED,
    drop=DROP,
    clean=tell_scale,
    sizes={
        **{f"{name}-small": SMALL for name in ("t5-v1.1", "flan-t5")},
        **{f"{name}-base": BASIC for name in ("t5-v1.1", "flan-t5")},
        **{f"{name}-large": LARGE for name in ("t5-v1.1", "flan-t5")},
    },
)
# mT5 (Xue et al. 2020) is 1.1 with more languages; saved again, its files say "t5".
PUBLISHED_MULTILINGUAL = replace(
    PUBLISHED_GATED,
    model_type="mt5",
    architectures={"MT5ForConditionalGeneration": LANGUAGE},
    base={**BASE, "vocab_size": 250112},
    clean=lambda config: {**config, "scale_decoder_outputs": False},
    sizes={"mt5-small": Size(300_176_768, UNTIED)},
)
