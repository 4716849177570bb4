"""Whisper (Radford et al. 2022): encoder and decoder for speech, pre-LayerNorm, sinusoidal and learned positions."""

from functools import partial

import torch
from torch import Tensor

from zoo.convert import pairs
from zoo.models.published import Architecture, Published, Size
from zoo.models.transformer import BEGIN, KEYS, LAYERS, unsaid
from zoo.nn import MLP, Activation, Attention, Backbone, Block, Causal, EncoderDecoder, LayerNorm, PreNorm
from zoo.nn.position import Learned, Sinusoidal
from zoo.nn.sinusoid import sinusoid
from zoo.processors import SpeechProcessor
from zoo.settings import Config


class Whisper(EncoderDecoder):
    """Whisper-base by default.

    The convolutions over frames belong to the tokenizer's embedding.  Any length of source will do; ``length`` is the
    longest target, ``decoder_depth`` is ``depth`` if not given.  ``dropout`` acts on both inputs and on every branch's
    output (published: none).  Raises ValueError where ``heads`` does not divide ``dim``.
    """

    def __init__(
        self,
        dim: int = 512,
        depth: int = 6,
        heads: int = 8,
        hidden: int | None = None,
        length: int = 448,
        dropout: float = 0.0,
        act: Activation = "gelu",
        decoder_depth: int | None = None,
    ):
        attention = partial(Attention, heads=heads, bias="qvo")  # a key's bias adds the same to all scores of a query
        ffn, residual = partial(MLP, hidden=hidden, act=act), partial(PreNorm, dropout=dropout)
        encoder = partial(Block, mixer=attention, ffn=ffn, residual=residual)
        decoder = partial(encoder, mixer=partial(attention, mask=Causal()), cross=partial(attention, cross=True))
        half = partial(Backbone, last_norm=LayerNorm, dropout=dropout)
        super().__init__(
            half(dim, depth, encoder, position=partial(Sinusoidal, layout="sin_cos", spacing="last")),
            half(dim, decoder_depth or depth, decoder, position=partial(Learned, length=length)),
        )


def positions(config: Config) -> dict[str, Tensor]:
    """The encoder's table."""
    table = sinusoid(torch.arange(config["max_source_positions"]), config["d_model"], "sin_cos", "last")
    return {"model.encoder.embed_positions.weight": table}


TRUNK = pairs("""
    encoder.conv1 embed.inward                      decoder.embed_tokens target_embed.table
    encoder.conv2 embed.onward                      decoder.embed_positions backbone.decoder.position
    encoder.layer_norm backbone.encoder.last_norm   decoder.layer_norm backbone.decoder.last_norm
""")
TABLES = (("head.out.weight", "target_embed.table.weight"),)
SPEECH = Architecture("Seq2Seq", rules=pairs("proj_out.weight head.out.weight"), prefix="model.", tied=TABLES)
MANY = {"pad_token_id": 50257, "eos_token_id": 50257, BEGIN: 50258}  # tokens of the multilingual vocabulary
V3 = MANY | {"vocab_size": 51866, "num_mel_bins": 128, "pad_token_id": 50256}
ENGLISH = {"vocab_size": 51864}
LARGE: Config = {"dim": 1280, "depth": 32, "heads": 20}

PUBLISHED = Published(
    "whisper",
    Whisper,
    KEYS | {"length": "max_target_positions"},
    {"WhisperForConditionalGeneration": SPEECH},
    trunk=TRUNK + LAYERS,
    processor=SpeechProcessor(BEGIN),
    base=unsaid(384, 4, 6, 1536)
    | {"vocab_size": 51865, "num_mel_bins": 80, "max_source_positions": 1500}
    | {"pad_token_id": 50256, "eos_token_id": 50256, BEGIN: 50257},
    fixed={"is_encoder_decoder": True, "scale_embedding": False, "tie_word_embeddings": True},
    constant=positions,
    sizes={
        "whisper-tiny": Size(37_184_640, MANY, dim=384, depth=4, heads=6),
        "whisper-tiny.en": Size(37_184_256, ENGLISH, dim=384, depth=4, heads=6),
        "whisper-base": Size(71_825_920, MANY),
        "whisper-base.en": Size(71_825_408, ENGLISH),
        "whisper-small": Size(240_582_912, MANY, dim=768, depth=12, heads=12),
        "whisper-small.en": Size(240_582_144, ENGLISH, dim=768, depth=12, heads=12),
        "whisper-medium": Size(762_321_920, MANY, dim=1024, depth=24, heads=16),
        "whisper-medium.en": Size(762_320_896, ENGLISH, dim=1024, depth=24, heads=16),
        "whisper-large": Size(1_541_384_960, MANY, **LARGE),
        "whisper-large-v3": Size(1_541_570_560, V3, **LARGE),
        "whisper-large-v3-turbo": Size(806_958_080, V3, **LARGE, decoder_depth=4),
    },
)
