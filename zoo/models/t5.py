"""T5 (Raffel et al. 2019): encoder and decoder, pre-RMSNorm, a bucketed relative bias, no score scaling, no biases."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from torch import nn

from zoo.convert import pairs
from zoo.models.published import TIED, Architecture, Published, Size
from zoo.nn import GLU, MLP, Attention, Backbone, Block, Buckets, Causal, EncoderDecoder, PreNorm, Project, RMSNorm
from zoo.nn.context import FeedForward
from zoo.processors import TextProcessor
from zoo.settings import Config


class T5(EncoderDecoder):
    """T5-small of the paper, with a ReLU feed-forward, by default.

    Any length of source and target will do: the bias knows distances only.  ``head_dim`` need not be dim / heads;
    ``decoder_depth`` is ``depth`` if not given.  ``dropout`` acts on both inputs, on every branch's output, inside the
    feed-forward and on the attention weights (the paper: 0.1).
    """

    feed_forward: Callable[..., FeedForward] = staticmethod(partial(MLP, act="relu", bias=False))

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
        norm, ffn = partial(RMSNorm, eps=eps), partial(self.feed_forward, hidden=hidden, dropout=dropout)
        attention = partial(Attention, heads=heads, head_dim=head_dim, bias=False, scale=1.0, dropout=dropout)
        encoder = partial(Block, mixer=attention, ffn=ffn, residual=partial(PreNorm, norm=norm, dropout=dropout))
        decoder = partial(encoder, mixer=partial(attention, mask=Causal()), cross=partial(attention, cross=True))
        position = partial(Buckets, heads=heads, buckets=buckets, furthest=furthest)
        half = partial(Backbone, last_norm=norm, dropout=dropout)
        super().__init__(
            half(dim, depth, encoder, position=position),
            half(dim, decoder_depth or depth, decoder, position=partial(position, causal=True)),
        )


class T5Gated(T5):
    """T5 1.1 small by default, T5 with a gated GELU (Shazeer 2020; FLAN-T5 and mT5 have this shape).

    A good first choice for any source, text, image or audio.  The arguments are those of ``T5``.
    """

    feed_forward = staticmethod(partial(GLU, act="gelu_tanh"))

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
        super().__init__(dim, depth, heads, head_dim, hidden, buckets, furthest, dropout, decoder_depth, eps)


# The files of transformers' T5; a block's branches are numbered there: 0 and, in the decoder, 1 attend, the last maps.

SELF = """
    0.SelfAttention.q mixer.fn.q   0.SelfAttention.k mixer.fn.k   0.layer_norm mixer.norm
    0.SelfAttention.v mixer.fn.v   0.SelfAttention.o mixer.fn.o
"""
CROSS = """
    1.EncDecAttention.q cross.fn.q   1.EncDecAttention.k cross.fn.k   1.layer_norm cross.norm
    1.EncDecAttention.v cross.fn.v   1.EncDecAttention.o cross.fn.o
"""
KEYS = {
    **dict(pairs("dim d_model depth num_layers decoder_depth num_decoder_layers heads num_heads head_dim d_kv")),
    **dict(pairs("hidden d_ff dropout dropout_rate eps layer_norm_epsilon buckets relative_attention_num_buckets")),
    "furthest": "relative_attention_max_distance",
}
BASE = {"dropout_rate": 0.1, "vocab_size": 32128, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
UNREAD = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias"
COPIES = ("encoder.embed_tokens", "decoder.embed_tokens")  # of "shared"


def trunk(maps: str) -> tuple[tuple[str, str], ...]:
    """The names of all tensors, those of the feed-forward's maps given."""
    rules = pairs("shared embed.table")
    for half, branches, last in (("encoder", SELF, 1), ("decoder", SELF + CROSS, 2)):
        theirs, ours = f"{half}.block.{{}}.layer.", f"backbone.{half}.blocks.{{}}."
        rules += pairs(branches + f"{last}.layer_norm ffn.norm", theirs, ours)
        rules += pairs(maps, f"{theirs}{last}.DenseReluDense.", f"{ours}ffn.fn.")
        bias = "block.0.layer.0.SelfAttention.relative_attention_bias position"
        rules += pairs(f"{bias} final_layer_norm last_norm", f"{half}.", f"backbone.{half}.")
    return rules


def tell_scale(config: Config) -> Config:
    """The first T5 scales its output by D^-1/2 and 1.1 does not; older configs say so by tying their tables or not,
    whatever the weights do."""
    return {"scale_decoder_outputs": config.get("tie_word_embeddings") is not False, **config}


def scaled(config: Config) -> dict[str, Any]:
    scale = config["d_model"] ** -0.5 if config["scale_decoder_outputs"] else 1.0
    return {"head": partial(Project, bias=False, scale=scale)}


def scaling(task: nn.Module) -> Config:
    return {"scale_decoder_outputs": isinstance(task.head, Project) and task.head.scale != 1.0}


TABLES = (*TIED, ("target_embed.table.weight", "embed.table.weight"))
LANGUAGE = Architecture("Seq2Seq", scaled, pairs("lm_head head.out"), tied=TABLES, write=scaling)
BASIC: Config = {"dim": 768, "depth": 12, "heads": 12}
LARGE: Config = {"dim": 1024, "depth": 24, "heads": 16}
UNTIED = {"tie_word_embeddings": False}
SMALL = Size(76_961_152, UNTIED)
BASE_SIZE = Size(247_577_856, UNTIED, **BASIC, hidden=2048)
LARGE_SIZE = Size(783_150_080, UNTIED, **LARGE, hidden=2816)

PUBLISHED = Published(
    "t5",
    T5,
    KEYS,
    {"T5ForConditionalGeneration": LANGUAGE},
    trunk=trunk("wi up wo down"),
    processor=TextProcessor(begin="decoder_start_token_id"),
    base=BASE,
    fixed={"feed_forward_proj": "relu", "dense_act_fn": "relu", "is_gated_act": False, "is_encoder_decoder": True},
    drop=(UNREAD, *COPIES),
    clean=tell_scale,
    sizes={
        "t5-small": Size(60_506_624),
        "t5-base": Size(222_903_552, **BASIC, hidden=3072),
        "t5-large": Size(737_668_096, **LARGE, hidden=4096),
        "t5-3b": Size(2_851_598_336, dim=1024, depth=24, heads=32, head_dim=128, hidden=16384),
    },
)
PUBLISHED_GATED = replace(
    PUBLISHED,
    family=T5Gated,
    base=BASE | {"num_layers": 6, "num_heads": 8, "d_ff": 2048},
    trunk=trunk("wi_0 gate wi_1 up wo down"),
    fixed=PUBLISHED.fixed | {"feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu_new", "is_gated_act": True},
    sizes={
        "t5-v1.1-small": SMALL,
        "t5-v1.1-base": BASE_SIZE,
        "t5-v1.1-large": LARGE_SIZE,
        "flan-t5-small": SMALL,
        "flan-t5-base": BASE_SIZE,
        "flan-t5-large": LARGE_SIZE,
    },
)
PUBLISHED_MULTILINGUAL = replace(  # mT5 (Xue et al. 2020): 1.1 with more languages; saved again, its files say "t5"
    PUBLISHED_GATED,
    model_type="mt5",
    architectures={"MT5ForConditionalGeneration": LANGUAGE},
    base=BASE | {"vocab_size": 250112},
    clean=lambda config: {**config, "scale_decoder_outputs": False},
    sizes={"mt5-small": Size(300_176_768, UNTIED)},
)
