"""LLaMA (Touvron et al. 2023): a causal pre-RMSNorm decoder with rotary positions, SwiGLU and no biases."""

from functools import partial
from typing import Any

from zoo.convert import pairs
from zoo.described import describe
from zoo.models.published import TIED, AnyKey, Architecture, Key, Published, Size, classifier
from zoo.nn import GLU, Attention, Backbone, Block, Causal, Last, Mask, PreNorm, Project, RMSNorm
from zoo.nn.position import FrequencyScaling, LinearScaling, Llama3Scaling, Rotary
from zoo.processors import TextProcessor
from zoo.settings import Config


class LLaMA(Backbone):
    """LLaMA 7B by default.

    ``kv_heads`` below ``heads`` shares keys and values among queries; ``head_dim`` is dim / heads if not given;
    ``theta`` and ``scaling`` set the rotation's frequencies; ``mask=Full()`` makes an encoder of it, which no published
    file can say.  ``dropout`` acts on the input, both branches' outputs and the attention weights (published: none).
    ``length`` is only stated in published files.  Raises ValueError where ``heads`` does not divide ``dim`` and no
    ``head_dim`` is given, or ``kv_heads`` not ``heads``.
    """

    def __init__(
        self,
        dim: int = 4096,
        depth: int = 32,
        heads: int = 32,
        kv_heads: int | None = None,
        hidden: int | None = 11008,
        theta: float = 10_000.0,
        scaling: FrequencyScaling | None = None,
        mask: Mask = Causal(),
        eps: float = 1e-5,
        dropout: float = 0.0,
        head_dim: int | None = None,
        length: int = 2048,
    ):
        norm = partial(RMSNorm, eps=eps)
        attention = partial(Attention, heads=heads, kv_heads=kv_heads, head_dim=head_dim, mask=mask, bias=False)
        mixer, residual = partial(attention, dropout=dropout), partial(PreNorm, norm=norm, dropout=dropout)
        block = partial(Block, mixer=mixer, ffn=partial(GLU, hidden=hidden), residual=residual)
        position = partial(Rotary, theta=theta, scaling=scaling)
        super().__init__(dim, depth, block, position=position, last_norm=norm, dropout=dropout)


# The files of transformers' LLaMA; its relatives import what they share from here.

LLAMA3 = "low_freq_factor low high_freq_factor high original_max_position_embeddings length"
SCALINGS: dict[str, tuple[Any, dict[str, str]]] = {  # by their name, with their words for its arguments
    "linear": (LinearScaling, {"factor": "factor"}),
    "llama3": (Llama3Scaling, {"factor": "factor", **dict(pairs(LLAMA3))}),
}


def load_scaling(rope: Config) -> FrequencyScaling | None:
    """Raises ValueError for a kind that is not known here."""
    kind = rope["rope_type"]
    if kind == "default":
        return None
    if kind not in SCALINGS:
        raise ValueError(f"rope_type={kind!r} is not known; default, linear and llama3 are")
    make, words = SCALINGS[kind]
    return make(**{ours: rope[theirs] for theirs, ours in words.items()})


def save_scaling(scaling: Any) -> Config:
    """Of an object or its description.  Raises ValueError for a kind that the files have no word for."""
    if scaling is None:
        return {"rope_type": "default"}
    found = describe(scaling)
    name, values = found["class_path"].rsplit(".", 1)[-1], found["init_args"]
    for kind, (make, words) in SCALINGS.items():
        if name == make.__name__:
            return {"rope_type": kind, **{theirs: values[ours] for theirs, ours in words.items()}}
    raise ValueError(f"scaling={name} has no name in published files; LinearScaling and Llama3Scaling have")


def gather_rope(config: Config) -> Config:
    """Today's ``rope_parameters``, out of the ``rope_theta`` and ``rope_scaling`` that older files have."""
    rope = dict(config.get("rope_scaling") or config.get("rope_parameters") or {})
    rope.setdefault("rope_theta", config.get("rope_theta", 10_000.0))
    kind = rope.pop("type", "default")
    if rope.setdefault("rope_type", kind) == "llama3":
        rope.setdefault("original_max_position_embeddings", config.get("max_position_embeddings", 2048))
    return {**config, "rope_parameters": rope, "rope_theta": rope["rope_theta"]}


def older_rope(config: Config) -> Config:
    """Both ways of saying it, for readers of any age."""
    scaling = {name: value for name, value in config["rope_parameters"].items() if name != "rope_theta"}
    return {**config, "rope_scaling": None if scaling["rope_type"] == "default" else scaling}


KEYS: dict[str, AnyKey] = {
    **dict(pairs("dim hidden_size depth num_hidden_layers heads num_attention_heads kv_heads num_key_value_heads")),
    **dict(pairs("head_dim head_dim hidden intermediate_size eps rms_norm_eps dropout attention_dropout")),
    "length": "max_position_embeddings",
    "theta": Key(("rope_parameters.rope_theta", "rope_theta")),
}
SCALING: dict[str, AnyKey] = {"scaling": Key(("rope_parameters",), load_scaling, save_scaling)}  # before theta
BASE = {"vocab_size": 32000, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False, "rms_norm_eps": 1e-6}
TRUNK = pairs("embed_tokens embed.table norm backbone.last_norm") + pairs(
    """
    self_attn.q_proj mixer.fn.q   input_layernorm mixer.norm
    self_attn.k_proj mixer.fn.k   post_attention_layernorm ffn.norm
    self_attn.v_proj mixer.fn.v   mlp.gate_proj ffn.fn.gate
    self_attn.o_proj mixer.fn.o   mlp.up_proj ffn.fn.up   mlp.down_proj ffn.fn.down
    """,
    theirs="layers.{}.",
    ours="backbone.blocks.{}.",
)
FREQUENCIES = ("layers.{}.self_attn.rotary_emb.inv_freq",)
PLAIN = partial(Project, bias=False)
LANGUAGE = Architecture("CausalLM", rules=pairs("lm_head head.out"), prefix="model.", tied=TIED)
CLASSIFIER = classifier(pairs("score head.out"), Last, head=lambda config: PLAIN, prefix="model.")

SMALL = {"tie_word_embeddings": True}
THREE = {"vocab_size": 128256, "bos_token_id": 128000, "eos_token_id": 128001}
LONG: Config = {"theta": 5e5, "scaling": Llama3Scaling(), "length": 131072}
LONGER: Config = LONG | {"scaling": Llama3Scaling(factor=32.0)}
SMOL: Config = {"dim": 576, "depth": 30, "heads": 9, "kv_heads": 3, "hidden": 1536, "theta": 1e5, "length": 8192}

PUBLISHED = Published(
    "llama",
    LLaMA,
    SCALING | KEYS,
    {"LlamaForCausalLM": LANGUAGE, "LlamaForSequenceClassification": CLASSIFIER},
    trunk=TRUNK,
    processor=TextProcessor(),
    base=BASE,
    fixed={"hidden_act": "silu", "attention_bias": False, "mlp_bias": False},
    drop=FREQUENCIES,
    clean=gather_rope,
    older=older_rope,
    sizes={
        "llama-7b": Size(6_738_415_616, eps=1e-6),
        "llama-13b": Size(13_015_864_320, dim=5120, depth=40, heads=40, hidden=13824, eps=1e-6),
        "llama-65b": Size(65_285_660_672, dim=8192, depth=80, heads=64, hidden=22016),
        "llama2-7b": Size(6_738_415_616, length=4096),
        "llama2-70b": Size(68_976_648_192, dim=8192, depth=80, heads=64, kv_heads=8, hidden=28672, length=4096),
        "llama3-8b": Size(8_030_261_248, THREE, kv_heads=8, hidden=14336, theta=5e5, length=8192),
        "llama3.1-8b": Size(8_030_261_248, THREE, kv_heads=8, hidden=14336, **LONG),
        "llama3.1-70b": Size(70_553_706_496, THREE, dim=8192, depth=80, heads=64, kv_heads=8, hidden=28672, **LONG),
        "llama3.2-1b": Size(1_235_814_400, THREE | SMALL, dim=2048, depth=16, kv_heads=8, hidden=8192, **LONGER),
        "smollm2-135m": Size(134_515_008, SMALL | {"vocab_size": 49152}, **SMOL),
    },
)
