"""RoBERTa (Liu et al. 2019): BERT trained longer, on more text; XLM-RoBERTa (Conneau et al. 2019): in 100 languages."""

from dataclasses import replace
from functools import partial
from typing import Any

from zoo.convert import pairs
from zoo.models import bert
from zoo.models.published import SENTENCES, TIED, Architecture, Key, Published, Size, classifier
from zoo.nn import Activation, LayerNorm, Pooler, TransformHead
from zoo.processors import TextProcessor
from zoo.settings import Config

OFFSET = 2  # the position table's first rows: unused, and that of padding


class RoBERTa(bert.BERT):
    """RoBERTa-base by default: a BERT whose table of positions begins after two rows that no token reads.

    The arguments are those of ``BERT``, and so is what raises ValueError.
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
        super().__init__(dim, depth, heads, hidden, length, act, eps, dropout, OFFSET)


# The files of transformers' RoBERTa; ESM imports the heads from here.

HEAD = pairs("dense head.dense layer_norm head.norm decoder.weight head.out.weight bias head.out.bias", "lm_head.")
CLASSIFIER = pairs("dense pool.dense out_proj head.out", "classifier.")
BIAS = (("lm_head.decoder.bias", "lm_head.bias"),)
LENGTH = Key(("max_position_embeddings",), lambda rows: rows - OFFSET, lambda length: length + OFFSET)
USUAL = {"vocab_size": 50265, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
BASE = bert.BASE | USUAL | {"max_position_embeddings": 512, "layer_norm_eps": 1e-12}


def transform(config: Config) -> dict[str, Any]:
    """The masked-LM head; its activation is GELU whatever the layers have."""
    return {"head": partial(TransformHead, norm=partial(LayerNorm, eps=config["layer_norm_eps"]))}


MODELS = {
    "ForMaskedLM": Architecture("MaskedLM", transform, HEAD, prefix="roberta.", tied=TIED, alias=BIAS),
    "ForSequenceClassification": classifier(CLASSIFIER, Pooler, prefix="roberta."),
    "Model": SENTENCES,
}
ENGLISH = {"type_vocab_size": 1}
MANY, FRENCH = {**ENGLISH, "vocab_size": 250002}, {**ENGLISH, "vocab_size": 32005}
LARGE = {"dim": 1024, "depth": 24, "heads": 16}

PUBLISHED = Published(
    "roberta",
    RoBERTa,
    {**bert.KEYS, "length": LENGTH},
    {"Roberta" + name: model for name, model in MODELS.items()},
    trunk=(*bert.EMBEDDINGS, *bert.LAYERS),
    processor=TextProcessor(bert.types, types=1),
    base=BASE,
    fixed=bert.FIXED,
    drop=("embeddings.position_ids", "pooler"),
    sizes={"roberta-base": Size(124_697_433, ENGLISH), "roberta-large": Size(355_412_057, ENGLISH, **LARGE)},
)
XLM = replace(
    PUBLISHED,
    model_type="xlm-roberta",
    architectures={"XLMRoberta" + name: model for name, model in MODELS.items()},
    sizes={"xlm-roberta-base": Size(278_295_186, MANY), "xlm-roberta-large": Size(560_142_482, MANY, **LARGE)},
)
CAMEMBERT = replace(
    PUBLISHED,
    model_type="camembert",
    architectures={"Camembert" + name: model for name, model in MODELS.items()},
    sizes={"camembert-base": Size(110_655_493, FRENCH)},
)
