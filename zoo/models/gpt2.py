"""GPT-2 (Radford et al. 2019): a causal pre-LayerNorm decoder with learned positions."""

from functools import partial

from zoo.convert import pairs
from zoo.models.gpt import CLASSIFIER, DROP, KEYS, LANGUAGE, LAYERS
from zoo.models.published import Published, Size, act
from zoo.nn import MLP, Activation, Attention, Backbone, Block, Causal, LayerNorm, Learned, PreNorm
from zoo.processors import TextProcessor


class GPT2(Backbone):
    """GPT-2 small by default.

    ``length`` is the longest sequence.  ``dropout`` acts on the input, on both branches' outputs and on the attention
    weights (published: 0.1).  Raises ValueError where ``heads`` does not divide ``dim``.
    """

    def __init__(
        self,
        dim: int = 768,
        depth: int = 12,
        heads: int = 12,
        hidden: int | None = None,
        length: int = 1024,
        eps: float = 1e-5,
        dropout: float = 0.0,
        act: Activation = "gelu_tanh",
    ):
        norm = partial(LayerNorm, eps=eps)
        block = partial(
            Block,
            mixer=partial(Attention, heads=heads, mask=Causal(), dropout=dropout),
            ffn=partial(MLP, hidden=hidden, act=act),
            residual=partial(PreNorm, norm=norm, dropout=dropout),
        )
        position = partial(Learned, length=length)
        super().__init__(dim, depth, block, position=position, last_norm=norm, dropout=dropout)


BASE = {"vocab_size": 50257, "bos_token_id": 50256, "eos_token_id": 50256, "resid_pdrop": 0.1}
SCORES = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False}

PUBLISHED = Published(
    "gpt2",
    GPT2,
    {**KEYS, "hidden": "n_inner", "act": act("activation_function")},
    {"GPT2LMHeadModel": LANGUAGE, "GPT2ForSequenceClassification": CLASSIFIER},
    trunk=(*pairs("wte embed.table wpe backbone.position ln_f backbone.last_norm"), *LAYERS),
    processor=TextProcessor(),
    base=BASE,
    fixed=SCORES | {"reorder_and_upcast_attn": (False, True)},  # the same formula in another precision
    drop=DROP,
    sizes={
        "gpt2": Size(124_439_808),
        "gpt2-medium": Size(354_823_168, dim=1024, depth=24, heads=16),
        "gpt2-large": Size(774_030_080, dim=1280, depth=36, heads=20),
        "gpt2-xl": Size(1_557_611_200, dim=1600, depth=48, heads=25),
        "distilgpt2": Size(81_912_576, depth=6),
    },
)
