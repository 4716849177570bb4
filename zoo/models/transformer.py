"""The Transformer (Vaswani et al. 2017): encoder and decoder, post-LayerNorm, sinusoidal positions."""

from functools import partial

import torch
from torch import Tensor

from zoo.convert import Leading, pairs
from zoo.models.published import TIED, AnyKey, Architecture, Derived, Key, Published, Size, act
from zoo.nn import MLP, Activation, Attention, Backbone, Block, Causal, EncoderDecoder, PostNorm, Shifted, Sinusoidal
from zoo.nn.sinusoid import Layout, Spacing, sinusoid
from zoo.processors import TextProcessor, TwoVocabularies
from zoo.settings import Config


class Transformer(EncoderDecoder):
    """The paper's base model by default.

    Both inputs are multiplied by sqrt(dim) before positions are added (section 3.4), so embeddings should begin small.
    ``dropout`` acts on both inputs and on every branch's output (base: 0.1).  Any length of source and target will do.
    ``decoder_depth`` and ``decoder_hidden`` are the encoder's if not given.  Post-norm wants a learning-rate warm-up;
    ``T5`` is easier to train.  Raises ValueError where ``heads`` does not divide ``dim``.
    """

    def __init__(
        self,
        dim: int = 512,
        depth: int = 6,
        heads: int = 8,
        hidden: int | None = None,
        dropout: float = 0.0,
        act: Activation = "relu",
        decoder_depth: int | None = None,
        layout: Layout = "interleaved",
        spacing: Spacing = "half",
        offset: int = 0,
        decoder_hidden: int | None = None,
    ):
        attention, ffn = partial(Attention, heads=heads), partial(MLP, hidden=hidden, act=act)
        encoder = partial(Block, mixer=attention, ffn=ffn, residual=partial(PostNorm, dropout=dropout))
        ffn = partial(ffn, hidden=decoder_hidden or hidden)
        own, cross = partial(attention, mask=Causal()), partial(attention, cross=True)
        decoder = partial(encoder, mixer=own, cross=cross, ffn=ffn)
        position = partial(Sinusoidal, layout=layout, spacing=spacing, multiply=dim**0.5, offset=offset)
        half = partial(Backbone, position=position, dropout=dropout)
        super().__init__(half(dim, depth, encoder), half(dim, decoder_depth or depth, decoder))


# The files of transformers' Marian and FSMT; what BART and Whisper share with them is imported from here.

SELF = """
    self_attn.q_proj mixer.fn.q   self_attn.k_proj mixer.fn.k       self_attn_layer_norm mixer.norm
    self_attn.v_proj mixer.fn.v   self_attn.out_proj mixer.fn.o     final_layer_norm ffn.norm
    fc1 ffn.fn.up                 fc2 ffn.fn.down
"""
CROSS = """
    encoder_attn.q_proj cross.fn.q   encoder_attn.k_proj cross.fn.k     encoder_attn_layer_norm cross.norm
    encoder_attn.v_proj cross.fn.v   encoder_attn.out_proj cross.fn.o
"""
ENCODER = pairs(SELF, theirs="encoder.layers.{}.", ours="backbone.encoder.blocks.{}.")
DECODER = pairs(SELF + CROSS, theirs="decoder.layers.{}.", ours="backbone.decoder.blocks.{}.")
LAYERS = ENCODER + DECODER
KEYS: dict[str, AnyKey] = {
    **dict(pairs("dim d_model depth encoder_layers decoder_depth decoder_layers dropout dropout")),
    "heads": Key(("encoder_attention_heads", "decoder_attention_heads")),
    "hidden": Key(("encoder_ffn_dim", "decoder_ffn_dim")),
    "act": act("activation_function"),
}
FIXED = {"is_encoder_decoder": True, "normalize_before": False, "add_final_layer_norm": False}
BEGIN = "decoder_start_token_id"
COPIES = ("encoder.embed_tokens", "decoder.embed_tokens")  # of the shared table, in older files
TABLES = ("encoder.embed_positions", "decoder.embed_positions")


def unsaid(dim: int, depth: int, heads: int, hidden: int) -> Config:
    """The reference's sizes, of both halves, for a config that leaves them out."""
    words = {"layers": depth, "attention_heads": heads, "ffn_dim": hidden}
    return {"d_model": dim} | {f"{half}_{word}": words[word] for half in ("encoder", "decoder") for word in words}


def always(value: str) -> Derived:
    """An argument that a model type implies."""
    return Derived(lambda config: value, lambda value, config: None)


def positions(config: Config) -> dict[str, Tensor]:
    """FSMT's two tables: padding has no position, and the first token's number is one more than padding's id."""
    count, padding = config["max_position_embeddings"], config["pad_token_id"]
    table = sinusoid(torch.arange(count + padding + 1), config["d_model"], "sin_cos", "last")
    table[padding] = 0
    return {f"model.{name}.weight": table.clone() for name in TABLES}


HEAD = (("lm_head.weight", "head.out.weight"), Leading("final_logits_bias", "head.bias"))
LANGUAGE = Architecture("Seq2Seq", lambda config: {"head": Shifted}, HEAD, prefix="model.", tied=TIED)
OUTPUT = pairs("model.decoder.output_projection head.out")
APART = Architecture("Seq2Seq", lambda config: {"share": False, "tie": False}, OUTPUT, prefix="model.")
PAPER = {"vocab_size": 37_000, "pad_token_id": 1, BEGIN: 1}
OFFSET = Key(("pad_token_id",), lambda pad: pad + 1, lambda offset: offset - 1)
HIDDEN: dict[str, AnyKey] = dict(pairs("hidden encoder_ffn_dim decoder_hidden decoder_ffn_dim"))
LAST: dict[str, AnyKey] = {"layout": always("sin_cos"), "spacing": always("last"), "offset": OFFSET}
BASE = unsaid(1024, 12, 16, 4096) | {"dropout": 0.1, "max_position_embeddings": 1024}

MARIAN = Published(
    "marian",
    Transformer,
    KEYS | HIDDEN | {"layout": always("sin_cos"), "spacing": always("half")},
    {"MarianMTModel": LANGUAGE},
    trunk=pairs("shared embed.table") + LAYERS,
    processor=TextProcessor(begin=BEGIN),
    base=BASE
    | {"activation_function": "gelu", "scale_embedding": False}
    | {"vocab_size": 58101, "pad_token_id": 58100, "eos_token_id": 0, BEGIN: 58100},
    fixed=FIXED
    | {"scale_embedding": True, "static_position_embeddings": True, "normalize_embedding": False}
    | {"share_encoder_decoder_embeddings": True, "tie_word_embeddings": True},
    drop=COPIES + TABLES,
    sizes={
        "opus-mt-en-de": Size(73_886_208, act="silu", dropout=0.1),
        "transformer-base": Size(63_082_496, PAPER),
        "transformer-big": Size(214_245_376, PAPER, dim=1024, heads=16, dropout=0.3),
    },
)
FSMT = Published(
    "fsmt",
    Transformer,
    KEYS | LAST | HIDDEN,
    {"FSMTForConditionalGeneration": APART},
    trunk=pairs("encoder.embed_tokens embed.table decoder.embed_tokens target_embed.table") + LAYERS,
    processor=TwoVocabularies(BEGIN),
    base=BASE | {"src_vocab_size": 42024, "tgt_vocab_size": 42024, "pad_token_id": 1, "eos_token_id": 2, BEGIN: 2},
    fixed=FIXED | {"scale_embedding": True, "tie_word_embeddings": False},
    constant=positions,
    sizes={"fsmt-wmt19-en-de": Size(355_811_328, dim=1024, heads=16, hidden=8192, decoder_hidden=4096, offset=2)},
)
