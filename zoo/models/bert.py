"""BERT (Devlin et al. 2018): a bidirectional post-LayerNorm encoder with learned positions."""

from collections.abc import Callable
from functools import partial
from typing import Any

from zoo.models.inputs import TextInputs
from zoo.models.published import Architecture, Config, Derived, Key, Published, Size, act, classifier, load_act
from zoo.nn import MLP, Activation, Attention, Backbone, Block, LayerNorm, Learned, Mean, Pooler, PostNorm, Transform
from zoo.tokenizers import TextEmbed


class BERT(Backbone):
    """BERT-base by default.

    ``length`` is the longest sequence; the embeddings of sentences A and B are the tokenizer's (``TextEmbed(types=2)``).
    ``dropout`` acts on the input, on both branches' outputs and on the attention weights (the paper: 0.1).  Raises
    ValueError where ``heads`` does not divide ``dim``.
    """

    def __init__(
        self,
        dim: int = 768,
        depth: int = 12,
        heads: int = 12,
        hidden: int | None = None,
        length: int = 512,
        act: Activation = "gelu",
        eps: float = 1e-12,
        dropout: float = 0.0,
    ):
        norm = partial(LayerNorm, eps=eps)
        block = partial(
            Block,
            mixer=partial(Attention, heads=heads, dropout=dropout),
            ffn=partial(MLP, hidden=hidden, act=act),
            residual=partial(PostNorm, norm=norm, dropout=dropout),
        )
        position = partial(Learned, length=length)
        super().__init__(dim, depth, block, position=position, first_norm=norm, dropout=dropout)


# The files of transformers' BERT; what its relatives share is imported from here.

LAYERS = (
    ("encoder.layer.{}.attention.self.query", "backbone.blocks.{}.mixer.fn.q"),
    ("encoder.layer.{}.attention.self.key", "backbone.blocks.{}.mixer.fn.k"),
    ("encoder.layer.{}.attention.self.value", "backbone.blocks.{}.mixer.fn.v"),
    ("encoder.layer.{}.attention.output.dense", "backbone.blocks.{}.mixer.fn.o"),
    ("encoder.layer.{}.attention.output.LayerNorm", "backbone.blocks.{}.mixer.norm"),
    ("encoder.layer.{}.intermediate.dense", "backbone.blocks.{}.ffn.fn.up"),
    ("encoder.layer.{}.output.dense", "backbone.blocks.{}.ffn.fn.down"),
    ("encoder.layer.{}.output.LayerNorm", "backbone.blocks.{}.ffn.norm"),
)
EMBEDDINGS = (
    ("embeddings.word_embeddings", "embed.table"),
    ("embeddings.token_type_embeddings", "embed.types"),
    ("embeddings.position_embeddings", "backbone.position"),
    ("embeddings.LayerNorm", "backbone.first_norm"),
)
KEYS: dict[str, Key | Derived | str] = {
    "dim": "hidden_size",
    "depth": "num_hidden_layers",
    "heads": "num_attention_heads",
    "hidden": "intermediate_size",
    "length": "max_position_embeddings",
    "act": act("hidden_act"),
    "eps": "layer_norm_eps",
    "dropout": "hidden_dropout_prob",
}
BASE = {
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "hidden_dropout_prob": 0.1,
    "vocab_size": 30522,
    "type_vocab_size": 2,
    "pad_token_id": 0,
    "tie_word_embeddings": True,
}
FIXED = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
TIED = (("head.out.weight", "embed.table.weight"),)
POOLER = (("pooler.dense", "pool.dense"),)


def types(config: Config) -> Callable[..., TextEmbed]:
    """The embedding that tells sentences apart."""
    return partial(TextEmbed, types=config["type_vocab_size"])


def transform(config: Config) -> dict[str, Any]:
    """The masked-LM head."""
    norm = partial(LayerNorm, eps=config["layer_norm_eps"])
    return {"head": partial(Transform, act=load_act(config["hidden_act"]), norm=norm)}


MASKED = Architecture(
    "MaskedLM",
    transform,
    (
        ("cls.predictions.transform.dense", "head.dense"),
        ("cls.predictions.transform.LayerNorm", "head.norm"),
        ("cls.predictions.decoder.weight", "head.out.weight"),
        ("cls.predictions.bias", "head.out.bias"),
    ),
    prefix="bert.",
    tied=TIED,
    alias=(("cls.predictions.decoder.bias", "cls.predictions.bias"),),
)

PUBLISHED = Published(
    "bert",
    BERT,
    KEYS,
    {
        "BertForMaskedLM": MASKED,
        "BertForPreTraining": MASKED,
        "BertForSequenceClassification": classifier((("classifier", "head.out"),), Pooler, prefix="bert.", inner=POOLER),
        "BertForNextSentencePrediction": classifier(
            (("cls.seq_relationship", "head.out"),), Pooler, prefix="bert.", inner=POOLER
        ),
        "BertModel": Architecture("Contrastive", lambda config: {"pool": Mean}, absent=("scale",)),
    },
    trunk=(*EMBEDDINGS, *LAYERS),
    inputs=TextInputs(types, types=1),
    base=BASE,
    fixed=FIXED,
    drop=("embeddings.position_ids",),
    sizes={
        "bert-base": Size(109_514_298),
        "bert-base-cased": Size(108_340_804, {"vocab_size": 28996}),
        "bert-large": Size(335_174_458, dim=1024, depth=24, heads=16),
    },
)
