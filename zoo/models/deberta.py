"""DeBERTa (He et al. 2020) and its second form (v2; v3: He et al. 2021): BERT by content and distance, apart."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from zoo.convert import Fused, pairs
from zoo.models import bert
from zoo.models.published import SENTENCES, AnyKey, AnyRule, Key, Published, Size, act, classifier
from zoo.nn import MLP, Activation, Attention, Backbone, Block, LayerNorm, Pooler, PostNorm
from zoo.nn.convolved import Convolved
from zoo.nn.disentangled import Disentangled, PositionProjections
from zoo.processors import TextProcessor
from zoo.settings import Config


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


FURTHEST = Key(("max_relative_positions", "max_position_embeddings"))


def distances(config: Config) -> Config:
    """Old configs have words where new ones have lists, and -1 where they mean the number of positions."""
    terms, furthest = config.get("pos_att_type") or [], config.get("max_relative_positions", -1)
    words = terms.lower().split("|") if isinstance(terms, str) else terms
    furthest = furthest if furthest > 0 else config.get("max_position_embeddings", 512)
    terms = sorted(word.strip() for word in words)
    return config | dict.fromkeys(FURTHEST.paths, furthest) | {"pos_att_type": terms}


SELF = {"theirs": "encoder.layer.{}.attention.self.", "ours": "backbone.blocks.{}.mixer.fn."}
SHARED = (
    *(names for names in bert.EMBEDDINGS + bert.LAYERS if ".self." not in names[0]),
    *pairs("rel_embeddings backbone.position.table LayerNorm backbone.position.norm", "encoder."),
)
FIRST = SHARED + pairs("q_bias q.bias v_bias v.bias pos_proj position.k pos_q_proj position.q", **SELF)
QKV = tuple(SELF["ours"] + part for part in ("q.weight", "k.weight", "v.weight"))
SECOND = SHARED + pairs("query_proj q key_proj k value_proj v", **SELF)
CONVOLVED = pairs("encoder.conv.conv backbone.blocks.0.conv encoder.conv.LayerNorm backbone.blocks.0.norm")


def trunk(config: Config) -> Sequence[AnyRule]:
    """The first form's."""
    return (*FIRST, Fused(SELF["theirs"] + "in_proj.weight", QKV, heads=config["num_attention_heads"]))


def second_trunk(config: Config) -> Sequence[AnyRule]:
    """The second form's; a block with a convolution beside it lies one level deeper."""
    if not config["conv_kernel_size"]:
        return SECOND
    first = [(theirs.format(0), ours.format("0.block")) for theirs, ours in SECOND if "{}" in theirs]
    return (*SECOND, *first, *CONVOLVED)


MICROSOFT = pairs("dense head.dense LayerNorm head.norm bias head.out.bias", "lm_predictions.lm_head.")  # only read
MASKED = replace(bert.MASKED, prefix="deberta.", rules=bert.MASKED.rules + MICROSOFT, drop=("mask_predictions",))
NAMES = pairs("pooler.dense pool.dense classifier head.out")
CLASSIFIER = classifier(NAMES, partial(Pooler, act="gelu"), prefix="deberta.")
KEYS: dict[str, AnyKey] = {name: key for name, key in bert.KEYS.items() if name != "length"} | {"furthest": FURTHEST}
BASE: Config = bert.BASE | {"vocab_size": 50265, "type_vocab_size": 0}
BASE |= {"relative_attention": False, "position_biased_input": True}
FIXED = {"relative_attention": True, "position_biased_input": False, "pooler_hidden_act": "gelu"}

PUBLISHED = Published(
    "deberta",
    DeBERTa,
    KEYS | {"terms": "pos_att_type"},
    {"DebertaForMaskedLM": MASKED, "DebertaForSequenceClassification": CLASSIFIER, "DebertaModel": SENTENCES},
    trunk=trunk,
    processor=TextProcessor(bert.types, types=0),
    base=BASE,
    fixed=FIXED | {"talking_head": False},
    drop=("embeddings.position_ids", "embeddings.position_embeddings"),
    clean=distances,
    sizes={"deberta-base": Size(139_244_121), "deberta-large": Size(406_264_921, dim=1024, depth=24, heads=16)},
)

BUCKETS = Key(("position_buckets",), lambda count: max(count, 0), lambda count: count or -1)
OWN: dict[str, AnyKey] = {"buckets": BUCKETS, "kernel": "conv_kernel_size", "kernel_act": act("conv_act")}
SECOND_BASE: Config = {"vocab_size": 128100, "num_attention_heads": 24, "position_buckets": -1}
SECOND_BASE |= {"norm_rel_ebd": "none", "share_att_key": False}
SECOND_FIXED = {"norm_rel_ebd": "layer_norm", "share_att_key": True, "conv_groups": 1}
WIDE: dict[str, Any] = {"dim": 1536, "heads": 24, "kernel": 3, "kernel_act": "gelu"}
SECOND_PUBLISHED = replace(
    PUBLISHED,
    model_type="deberta-v2",
    family=DeBERTa2,
    keys=KEYS | OWN,
    architectures={name.replace("Deberta", "DebertaV2"): item for name, item in PUBLISHED.architectures.items()},
    trunk=second_trunk,
    base=BASE | SECOND_BASE,
    fixed=FIXED | SECOND_FIXED | {"pos_att_type": ["c2p", "p2c"]},
    sizes={
        "deberta-v2-xlarge": Size(887_085_156, depth=24, **WIDE),
        "deberta-v2-xxlarge": Size(1_567_041_636, depth=48, **WIDE),
        "deberta-v3-xsmall": Size(70_958_820, dim=384, heads=6),
        "deberta-v3-small": Size(142_024_548, depth=6),
        "deberta-v3-base": Size(184_551_780),
        "deberta-v3-large": Size(435_191_908, dim=1024, depth=24, heads=16),
    },
)
