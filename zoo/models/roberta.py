"""RoBERTa (Liu et al. 2019): BERT trained longer, on more text; XLM-RoBERTa (Conneau et al. 2019): in 100 languages."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from zoo.models import bert
from zoo.models.inputs import TextInputs
from zoo.models.published import Architecture, Config, Key, Published, Size, classifier
from zoo.nn import MLP, Activation, Attention, Backbone, Block, LayerNorm, Learned, Mean, Pooler, PostNorm, TransformHead

OFFSET = 2  # the position table's first rows: unused, and that of padding


class RoBERTa(Backbone):
    """RoBERTa-base by default: a BERT whose table of positions begins after two rows that no token reads.

    ``length`` is the longest sequence.  ``dropout`` acts on the input, on both branches' outputs and on the attention
    weights (the paper: 0.1).  Raises ValueError where ``heads`` does not divide ``dim``.
    """

    def __init__(
        self,
        dim: int = 768,
        depth: int = 12,
        heads: int = 12,
        hidden: int | None = None,
        length: int = 512,
        act: Activation = "gelu",
        eps: float = 1e-5,
        dropout: float = 0.0,
    ):
        norm = partial(LayerNorm, eps=eps)
        block = partial(
            Block,
            mixer=partial(Attention, heads=heads, dropout=dropout),
            ffn=partial(MLP, hidden=hidden, act=act),
            residual=partial(PostNorm, norm=norm, dropout=dropout),
        )
        position = partial(Learned, length=length, offset=OFFSET)
        super().__init__(dim, depth, block, position=position, first_norm=norm, dropout=dropout)


def transform(config: Config) -> dict[str, Any]:
    """The masked-LM head; its activation is GELU whatever the layers have."""
    return {"head": partial(TransformHead, norm=partial(LayerNorm, eps=config["layer_norm_eps"]))}


HEAD = (
    ("lm_head.dense", "head.dense"),
    ("lm_head.layer_norm", "head.norm"),
    ("lm_head.decoder.weight", "head.out.weight"),
    ("lm_head.bias", "head.out.bias"),
)
CLASSIFIER = (("classifier.dense", "pool.dense"), ("classifier.out_proj", "head.out"))


def published(model_type: str, name: str, sizes: Mapping[str, Size]) -> Published:
    """RoBERTa's files, which its descendants have too under other names."""
    return Published(
        model_type,
        RoBERTa,
        {**bert.KEYS, "length": Key(("max_position_embeddings",), lambda rows: rows - OFFSET, lambda n: n + OFFSET)},
        {
            f"{name}ForMaskedLM": Architecture(
                "MaskedLM",
                transform,
                HEAD,
                prefix="roberta.",
                tied=bert.TIED,
                alias=(("lm_head.decoder.bias", "lm_head.bias"),),
            ),
            f"{name}ForSequenceClassification": classifier(CLASSIFIER, Pooler, prefix="roberta."),
            f"{name}Model": Architecture("Contrastive", lambda config: {"pool": Mean}, absent=("scale",)),
        },
        trunk=(*bert.EMBEDDINGS, *bert.LAYERS),
        inputs=TextInputs(bert.types, types=1),
        base=bert.BASE
        | {"vocab_size": 50265, "max_position_embeddings": 512, "bos_token_id": 0}
        | {"pad_token_id": 1, "eos_token_id": 2},
        fixed=bert.FIXED,
        drop=("embeddings.position_ids", "pooler"),
        sizes=sizes,
    )


ONE = {"type_vocab_size": 1}

PUBLISHED = published(
    "roberta",
    "Roberta",
    {
        "roberta-base": Size(124_697_433, ONE),
        "roberta-large": Size(355_412_057, ONE, dim=1024, depth=24, heads=16),
    },
)
XLM = published(
    "xlm-roberta",
    "XLMRoberta",
    {
        "xlm-roberta-base": Size(278_295_186, {**ONE, "vocab_size": 250002}),
        "xlm-roberta-large": Size(560_142_482, {**ONE, "vocab_size": 250002}, dim=1024, depth=24, heads=16),
    },
)
CAMEMBERT = published("camembert", "Camembert", {"camembert-base": Size(110_655_493, {**ONE, "vocab_size": 32005})})
