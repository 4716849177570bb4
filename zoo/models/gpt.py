"""GPT (Radford et al. 2018): a causal post-LayerNorm decoder with learned positions, the first of its line."""

from functools import partial

from zoo.convert import Fused, Same, pairs
from zoo.models.published import TIED, Architecture, Key, Published, Size, classifier, load_act
from zoo.nn import MLP, Activation, Attention, Backbone, Block, Causal, Last, LayerNorm, Learned, PostNorm, Project
from zoo.processors import TextProcessor


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


# What GPT-2 shares is imported from here.  Matrices are stored inputs first; queries, keys and values in one.

NAMES = pairs(
    """
    attn.c_proj mixer.fn.o   ln_1 mixer.norm   ln_2 ffn.norm
    mlp.c_fc ffn.fn.up       mlp.c_proj ffn.fn.down
    """,
    theirs="h.{}.",
    ours="backbone.blocks.{}.",
)
QKV = tuple(f"backbone.blocks.{{}}.mixer.fn.{part}" for part in "qkv")
LAYERS = (Fused("h.{}.attn.c_attn", QKV, flip=True), *(Same(*names, flip=True) for names in NAMES))
KEYS = dict(
    pairs("dim n_embd depth n_layer heads n_head length n_positions eps layer_norm_epsilon dropout resid_pdrop")
)
DROP = ("h.{}.attn.bias", "h.{}.attn.masked_bias")  # triangles of ones, and the number that stood for minus infinity
LANGUAGE = Architecture("CausalLM", rules=pairs("lm_head head.out"), prefix="transformer.", tied=TIED)
UNBIASED = partial(Project, bias=False)
CLASSIFIER = classifier(pairs("score head.out"), Last, lambda config: UNBIASED, prefix="transformer.")


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
    trunk=(*pairs("tokens_embed embed.table positions_embed backbone.position"), *LAYERS),
    processor=TextProcessor(),
    base={"vocab_size": 40478, "resid_pdrop": 0.1},
    drop=(*DROP, "position_ids"),
    sizes={"openai-gpt": Size(116_534_784)},
)
