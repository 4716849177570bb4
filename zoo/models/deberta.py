"""DeBERTa (He et al. 2020) and its second form (v2; v3: He et al. 2021): BERT by content and distance, apart."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from zoo.convert import FusedByHead
from zoo.models import bert
from zoo.models.inputs import TextInputs
from zoo.models.published import AnyRule, Architecture, Config, Derived, Key, Published, Size, act, classifier, look
from zoo.nn import (
    MLP,
    Activation,
    Attention,
    Backbone,
    Block,
    Convolved,
    Disentangled,
    LayerNorm,
    Mean,
    Pooler,
    PositionProjections,
    PostNorm,
)


class DeBERTa(Backbone):
    """DeBERTa-base by default; there are no absolute positions, and so no longest sequence.

    Distances beyond ``furthest`` are not told apart; ``terms`` are those of ``PositionProjections``.  ``dropout`` acts
    on the input, on both branches' outputs, on the attention weights and on the vectors of the distances (the paper:
    0.1).  Raises ValueError where ``heads`` does not divide ``dim``, or for other terms.
    """

    def __init__(
        self,
        dim: int = 768,
        depth: int = 12,
        heads: int = 12,
        hidden: int | None = None,
        furthest: int = 512,
        terms: Sequence[str] = ("c2p", "p2c"),
        act: Activation = "gelu",
        eps: float = 1e-7,
        dropout: float = 0.0,
    ):
        norm = partial(LayerNorm, eps=eps)
        scale = ((1 + len(terms)) * dim / heads) ** -0.5
        own = partial(PositionProjections, terms=terms)
        block = partial(
            Block,
            mixer=partial(Attention, heads=heads, position=own, bias="qvo", scale=scale, dropout=dropout),
            ffn=partial(MLP, hidden=hidden, act=act),
            residual=partial(PostNorm, norm=norm, dropout=dropout),
        )
        position = partial(Disentangled, furthest=furthest, dropout=dropout)
        super().__init__(dim, depth, block, position=position, first_norm=norm, dropout=dropout)


class DeBERTa2(Backbone):
    """DeBERTa-v3-base by default (v2 differs in its sizes, and v3 in its training).

    ``buckets`` are those of ``Disentangled``, whose vectors each layer projects as it does its content.  A ``kernel``
    (v2: 3) puts a convolution beside the first layer.  ``dropout`` acts as in ``DeBERTa``, and on the convolution.
    Raises ValueError where ``heads`` does not divide ``dim``, or ``kernel`` is even.
    """

    def __init__(
        self,
        dim: int = 768,
        depth: int = 12,
        heads: int = 12,
        hidden: int | None = None,
        furthest: int = 512,
        buckets: int = 256,
        kernel: int = 0,
        kernel_act: Activation = "tanh",
        act: Activation = "gelu",
        eps: float = 1e-7,
        dropout: float = 0.0,
    ):
        norm = partial(LayerNorm, eps=eps)
        block: Callable[[int], Any] = partial(
            Block,
            mixer=partial(Attention, heads=heads, scale=(3 * dim / heads) ** -0.5, dropout=dropout),
            ffn=partial(MLP, hidden=hidden, act=act),
            residual=partial(PostNorm, norm=norm, dropout=dropout),
        )
        first = partial(Convolved, block=block, kernel=kernel, act=kernel_act, norm=norm, dropout=dropout)
        blocks = [first if kernel and not i else block for i in range(depth)]
        position = partial(Disentangled, furthest=furthest, buckets=buckets, norm=norm, dropout=dropout)
        super().__init__(dim, depth, blocks, position=position, first_norm=norm, dropout=dropout)


def distances(config: Config) -> Config:
    """Old configs have words where new ones have lists, and -1 where they mean the number of positions."""
    config, terms = dict(config), config.get("pos_att_type") or []
    words = terms.lower().split("|") if isinstance(terms, str) else terms
    config["pos_att_type"] = sorted(word.strip() for word in words)
    if config.get("max_relative_positions", -1) < 1:
        config["max_relative_positions"] = config.get("max_position_embeddings", 512)
    return config | {"max_position_embeddings": config["max_relative_positions"]}


SELF = ("encoder.layer.{}.attention.self.", "backbone.blocks.{}.mixer.fn.")
FIRST = (
    (SELF[0] + "q_bias", SELF[1] + "q.bias"),
    (SELF[0] + "v_bias", SELF[1] + "v.bias"),
    (SELF[0] + "pos_proj", SELF[1] + "position.k"),
    (SELF[0] + "pos_q_proj", SELF[1] + "position.q"),
)
SECOND = tuple((SELF[0] + f"{theirs}_proj", SELF[1] + theirs[0]) for theirs in ("query", "key", "value"))
SHARED = (
    *(rule for rule in (*bert.EMBEDDINGS, *bert.LAYERS) if not rule[0].startswith(SELF[0])),
    ("encoder.rel_embeddings", "backbone.position.table"),
)
CONVOLVED = (
    ("encoder.conv.conv", "backbone.blocks.0.conv"),
    ("encoder.conv.LayerNorm", "backbone.blocks.0.norm"),
)


def trunk(config: Config) -> list[AnyRule]:
    """The first form's."""
    parts = tuple(f"{SELF[1]}{name}.weight" for name in "qkv")
    return [*SHARED, *FIRST, FusedByHead(SELF[0] + "in_proj.weight", parts, look(config, "num_attention_heads"))]


def second_trunk(config: Config) -> Sequence[AnyRule]:
    """The second form's; a block with a convolution beside it lies one level deeper."""
    rules = [*SHARED, *SECOND, ("encoder.LayerNorm", "backbone.position.norm")]
    if not config["conv_kernel_size"]:
        return rules
    layers = [rule for rule in rules if "{}" in rule[0]]
    first = [(theirs.format(0), ours.format("0.block")) for theirs, ours in layers]
    rest = [(a.format(i), b.format(i)) for a, b in layers for i in range(1, look(config, "num_hidden_layers"))]
    return [*(rule for rule in rules if rule not in layers), *first, *rest, *CONVOLVED]


# Microsoft's files have the head under other names than those that transformers writes.
MASKED = replace(
    bert.MASKED,
    prefix="deberta.",
    rules=(
        *bert.MASKED.rules,
        ("lm_predictions.lm_head.dense", "head.dense"),
        ("lm_predictions.lm_head.LayerNorm", "head.norm"),
        ("lm_predictions.lm_head.bias", "head.out.bias"),
    ),
    drop=("mask_predictions",),
)
CLASSIFIER = classifier(
    (("pooler.dense", "pool.dense"), ("classifier", "head.out")), partial(Pooler, act="gelu"), prefix="deberta."
)
BARE = Architecture("Contrastive", lambda config: {"pool": Mean}, absent=("scale",))
KEYS: dict[str, Key | Derived | str] = {name: key for name, key in bert.KEYS.items() if name != "length"}
KEYS["furthest"] = Key(("max_relative_positions", "max_position_embeddings"))
BASE = bert.BASE | {
    "vocab_size": 50265,
    "type_vocab_size": 0,
    "layer_norm_eps": 1e-7,
    "relative_attention": False,
    "position_biased_input": True,
}
FIXED = {"relative_attention": True, "position_biased_input": False, "pooler_hidden_act": "gelu"}
DROP = ("embeddings.position_ids", "embeddings.position_embeddings")

PUBLISHED = Published(
    "deberta",
    DeBERTa,
    KEYS | {"terms": "pos_att_type"},
    {"DebertaForMaskedLM": MASKED, "DebertaForSequenceClassification": CLASSIFIER, "DebertaModel": BARE},
    trunk=trunk,
    inputs=TextInputs(bert.types, types=0),
    base=BASE,
    fixed=FIXED | {"talking_head": False},
    drop=DROP,
    clean=distances,
    sizes={"deberta-base": Size(139_244_121), "deberta-large": Size(406_264_921, dim=1024, depth=24, heads=16)},
)
WIDE: dict[str, Any] = {"dim": 1536, "heads": 24, "kernel": 3, "kernel_act": "gelu"}
SECOND_PUBLISHED = Published(
    "deberta-v2",
    DeBERTa2,
    KEYS
    | {
        "buckets": Key(("position_buckets",), lambda n: max(n, 0), lambda n: n or -1),
        "kernel": "conv_kernel_size",
        "kernel_act": act("conv_act"),
    },
    {"DebertaV2ForMaskedLM": MASKED, "DebertaV2ForSequenceClassification": CLASSIFIER, "DebertaV2Model": BARE},
    trunk=second_trunk,
    inputs=TextInputs(bert.types, types=0),
    base=BASE
    | {"vocab_size": 128100, "position_buckets": -1, "norm_rel_ebd": "none", "share_att_key": False}
    | {"conv_kernel_size": 0, "conv_act": "tanh"},
    fixed=FIXED
    | {"pos_att_type": ["c2p", "p2c"], "norm_rel_ebd": "layer_norm", "share_att_key": True, "conv_groups": 1},
    drop=DROP,
    clean=distances,
    sizes={
        "deberta-v2-xlarge": Size(887_085_156, depth=24, **WIDE),
        "deberta-v2-xxlarge": Size(1_567_041_636, depth=48, **WIDE),
        "deberta-v3-xsmall": Size(70_958_820, dim=384, heads=6),
        "deberta-v3-small": Size(142_024_548, depth=6),
        "deberta-v3-base": Size(184_551_780),
        "deberta-v3-large": Size(435_191_908, dim=1024, depth=24, heads=16),
    },
)
