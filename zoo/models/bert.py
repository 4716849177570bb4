"""BERT (Devlin et al. 2018): a bidirectional post-LayerNorm encoder with learned positions."""

from collections.abc import Callable
from functools import partial
from typing import Any

from zoo.convert import pairs
from zoo.models.published import SENTENCES, TIED, AnyKey, Architecture, Published, Size, act, classifier, load_act
from zoo.nn import MLP, Activation, Attention, Backbone, Block, LayerNorm, Learned, Pooler, PostNorm, TransformHead
from zoo.processors import TextProcessor
from zoo.settings import Config
from zoo.tokenizers import TextEmbed


class BERT(Backbone):
    """BERT-base by default.

    ``length`` is the longest sequence, ``offset`` the rows that are unused before it; sentences A and B are told apart
    by the tokenizer's embedding (``TextEmbed``).  ``dropout`` acts on the input, on both branches' outputs and on the
    attention weights (the paper: 0.1).  Raises ValueError where ``heads`` does not divide ``dim``.
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
        offset: int = 0,
    ):
        norm = partial(LayerNorm, eps=eps)
        block = partial(
            Block,
            mixer=partial(Attention, heads=heads, dropout=dropout),
            ffn=partial(MLP, hidden=hidden, act=act),
            residual=partial(PostNorm, norm=norm, dropout=dropout),
        )
        position = partial(Learned, length=length, offset=offset)
        super().__init__(dim, depth, block, position=position, first_norm=norm, dropout=dropout)


# The files of transformers' BERT; its relatives import what they share from here.

LAYERS = pairs(
    """
    attention.self.query mixer.fn.q         attention.self.key mixer.fn.k
    attention.self.value mixer.fn.v         attention.output.dense mixer.fn.o
    attention.output.LayerNorm mixer.norm   output.LayerNorm ffn.norm
    intermediate.dense ffn.fn.up            output.dense ffn.fn.down
    """,
    theirs="encoder.layer.{}.",
    ours="backbone.blocks.{}.",
)
EMBEDDINGS = pairs(
    """
    word_embeddings embed.table   token_type_embeddings embed.types
    position_embeddings backbone.position   LayerNorm backbone.first_norm
    """,
    theirs="embeddings.",
)
KEYS: dict[str, AnyKey] = {
    **dict(pairs("dim hidden_size depth num_hidden_layers heads num_attention_heads hidden intermediate_size")),
    **dict(pairs("length max_position_embeddings eps layer_norm_eps dropout hidden_dropout_prob")),
    "act": act("hidden_act"),
}
BASE = {"hidden_dropout_prob": 0.1, "vocab_size": 30522, "type_vocab_size": 2, "pad_token_id": 0}
FIXED = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
POOLER = pairs("pooler.dense pool.dense")
PRETRAINING = pairs("transform.dense head.dense transform.LayerNorm head.norm", theirs="cls.predictions.") + pairs(
    "decoder.weight head.out.weight bias head.out.bias", theirs="cls.predictions."
)


def types(config: Config) -> Callable[..., TextEmbed]:
    """The embedding that tells sentences apart."""
    return partial(TextEmbed, types=config["type_vocab_size"])


def transform(config: Config) -> dict[str, Any]:
    """The masked-LM head."""
    norm = partial(LayerNorm, eps=config["layer_norm_eps"])
    return {"head": partial(TransformHead, act=load_act(config["hidden_act"]), norm=norm)}


BIAS = (("cls.predictions.decoder.bias", "cls.predictions.bias"),)
MASKED = Architecture("MaskedLM", transform, PRETRAINING, prefix="bert.", tied=TIED, alias=BIAS)
POOLED = partial(classifier, pool=Pooler, prefix="bert.", inner=POOLER)

PUBLISHED = Published(
    "bert",
    BERT,
    KEYS,
    {
        "BertForMaskedLM": MASKED,
        "BertForPreTraining": MASKED,
        "BertForSequenceClassification": POOLED(pairs("classifier head.out")),
        "BertForNextSentencePrediction": POOLED(pairs("cls.seq_relationship head.out")),
        "BertModel": SENTENCES,
    },
    trunk=(*EMBEDDINGS, *LAYERS),
    processor=TextProcessor(types, types=1),
    base=BASE,
    fixed=FIXED,
    drop=("embeddings.position_ids",),
    sizes={
        "bert-base": Size(109_514_298),
        "bert-base-cased": Size(108_340_804, {"vocab_size": 28996}),
        "bert-large": Size(335_174_458, dim=1024, depth=24, heads=16),
    },
)
