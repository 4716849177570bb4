"""BART (Lewis et al. 2019): encoder and decoder, post-LayerNorm, learned positions, GELU."""

from functools import partial

from zoo.convert import pairs
from zoo.models.published import TIED, Architecture, Published, Size
from zoo.models.transformer import BASE, BEGIN, COPIES, FIXED, KEYS, LANGUAGE, LAYERS
from zoo.nn import MLP, Activation, Attention, Backbone, Block, Causal, EncoderDecoder, LayerNorm, Learned, PostNorm
from zoo.processors import TextProcessor
from zoo.settings import Config


class BART(EncoderDecoder):
    """BART-base by default.

    ``length`` is the longest source and target, ``decoder_depth`` is ``depth`` if not given.  ``dropout`` acts on both
    inputs and on every branch's output (published: 0.1).  Raises ValueError where ``heads`` does not divide ``dim``.
    """

    def __init__(
        self,
        dim: int = 768,
        depth: int = 6,
        heads: int = 12,
        hidden: int | None = None,
        length: int = 1024,
        dropout: float = 0.0,
        act: Activation = "gelu",
        decoder_depth: int | None = None,
    ):
        attention, ffn = partial(Attention, heads=heads), partial(MLP, hidden=hidden, act=act)
        encoder = partial(Block, mixer=attention, ffn=ffn, residual=partial(PostNorm, dropout=dropout))
        decoder = partial(encoder, mixer=partial(attention, mask=Causal()), cross=partial(attention, cross=True))
        position = partial(Learned, length=length, offset=2)
        half = partial(Backbone, position=position, first_norm=LayerNorm, dropout=dropout)
        super().__init__(half(dim, depth, encoder), half(dim, decoder_depth or depth, decoder))


INPUT = "embed_positions position layernorm_embedding first_norm"
LARGE: Config = {"dim": 1024, "depth": 12, "heads": 16}
CNN = {"vocab_size": 50264}

PUBLISHED = Published(
    "bart",
    BART,
    KEYS | {"length": "max_position_embeddings"},
    {
        "BartForConditionalGeneration": LANGUAGE,
        "BartModel": Architecture("Seq2Seq", tied=TIED),  # as pre-trained: its head is the embedding's table
    },
    trunk=pairs("shared embed.table")
    + pairs(INPUT, theirs="encoder.", ours="backbone.encoder.")
    + pairs(INPUT, theirs="decoder.", ours="backbone.decoder.")
    + LAYERS,
    processor=TextProcessor(begin=BEGIN),
    base=BASE | {"vocab_size": 50265, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, BEGIN: 2},
    fixed=FIXED
    | {"scale_embedding": False, "static_position_embeddings": False}
    | {"normalize_embedding": True, "tie_word_embeddings": True},
    drop=(*COPIES, "encoder.version", "decoder.version"),
    sizes={
        "bart-base": Size(139_420_416),
        "bart-large": Size(406_291_456, **LARGE),
        "bart-large-cnn": Size(406_290_432, CNN, **LARGE),
        "distilbart-cnn-12-6": Size(305_510_400, CNN, **LARGE, decoder_depth=6),
    },
)
