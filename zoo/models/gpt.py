"""GPT (Radford et al. 2018): a causal post-LayerNorm decoder with learned positions, the first of its line."""

from functools import partial

from zoo.convert import Fused, Same
from zoo.models.inputs import TextInputs
from zoo.models.published import Architecture, Key, Published, Size, classifier, load_act
from zoo.nn import MLP, Activation, Attention, Backbone, Block, Causal, Last, LayerNorm, Learned, PostNorm, Project


class GPT(Backbone):
    """The published GPT by default.  Its input is not normed, and its output is by the last block.

    ``length`` is the longest sequence.  ``dropout`` acts on the input, on both branches' outputs and on the attention
    weights (the paper: 0.1).  Raises ValueError where ``heads`` does not divide ``dim``.
    """

    def __init__(
        self,
        dim: int = 768,
        depth: int = 12,
        heads: int = 12,
        length: int = 512,
        act: Activation = "gelu_tanh",
        eps: float = 1e-5,
        dropout: float = 0.0,
    ):
        block = partial(
            Block,
            mixer=partial(Attention, heads=heads, mask=Causal(), dropout=dropout),
            ffn=partial(MLP, act=act),
            residual=partial(PostNorm, norm=partial(LayerNorm, eps=eps), dropout=dropout),
        )
        super().__init__(dim, depth, block, position=partial(Learned, length=length), dropout=dropout)


# What GPT-2 shares is imported from here.  Matrices are stored inputs first, queries, keys and values in one.

LAYERS = (
    Fused("h.{}.attn.c_attn", tuple(f"backbone.blocks.{{}}.mixer.fn.{part}" for part in "qkv"), flip=True),
    Same("h.{}.attn.c_proj", "backbone.blocks.{}.mixer.fn.o", flip=True),
    Same("h.{}.ln_1", "backbone.blocks.{}.mixer.norm"),
    Same("h.{}.mlp.c_fc", "backbone.blocks.{}.ffn.fn.up", flip=True),
    Same("h.{}.mlp.c_proj", "backbone.blocks.{}.ffn.fn.down", flip=True),
    Same("h.{}.ln_2", "backbone.blocks.{}.ffn.norm"),
)
KEYS = {
    "dim": "n_embd",
    "depth": "n_layer",
    "heads": "n_head",
    "length": "n_positions",
    "eps": "layer_norm_epsilon",
    "dropout": "resid_pdrop",
}
BASE = {
    "layer_norm_epsilon": 1e-5,
    "resid_pdrop": 0.1,
    "embd_pdrop": 0.1,
    "attn_pdrop": 0.1,
    "tie_word_embeddings": True,
}
DROP = ("h.{}.attn.bias", "h.{}.attn.masked_bias")  # triangles of ones, and the number that stood for minus infinity
LANGUAGE = Architecture(
    "CausalLM",
    rules=(("lm_head", "head.out"),),
    prefix="transformer.",
    tied=(("head.out.weight", "embed.table.weight"),),
)
CLASSIFIER = classifier(
    (("score", "head.out"),), Last, head=lambda config: partial(Project, bias=False), prefix="transformer."
)


def load_afn(name: str) -> str:
    """Its "gelu" is the approximation that later files call "gelu_new"."""
    return "gelu_tanh" if name == "gelu" else load_act(name)


def save_afn(name: str) -> str:
    """Raises ValueError for an activation that its files have no name for."""
    if name not in ("gelu_tanh", "relu", "silu"):
        raise ValueError(f"act={name!r} has no name in GPT's files; gelu_tanh, relu and silu have")
    return "gelu" if name == "gelu_tanh" else name


PUBLISHED = Published(
    "openai-gpt",
    GPT,
    {**KEYS, "act": Key(("afn",), load_afn, save_afn)},
    {"OpenAIGPTLMHeadModel": LANGUAGE, "OpenAIGPTForSequenceClassification": CLASSIFIER},
    trunk=(("tokens_embed", "embed.table"), ("positions_embed", "backbone.position"), *LAYERS),
    inputs=TextInputs(),
    base={**BASE, "afn": "gelu", "vocab_size": 40478, "n_positions": 512},
    drop=(*DROP, "position_ids"),
    sizes={"openai-gpt": Size(116_534_784)},
)
