"""BART (Lewis et al. 2019): encoder and decoder, post-LayerNorm, learned positions, GELU."""

from functools import partial

from zoo.convert import Leading
from zoo.models.inputs import TextInputs
from zoo.models.published import Architecture, Published, Size
from zoo.models.transformer import BEGIN, COPIES, FIXED, KEYS, LAYERS, SHARED, shifted
from zoo.nn import MLP, Activation, Attention, Backbone, Block, Causal, EncoderDecoder, LayerNorm, Learned, PostNorm


class BART(EncoderDecoder):
    """BART-base by default; large: ``dim=1024, depth=12, heads=16``.

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
        ffn, residual = partial(MLP, hidden=hidden, act=act), partial(PostNorm, dropout=dropout)
        encoder = partial(Block, mixer=partial(Attention, heads=heads), ffn=ffn, residual=residual)
        decoder = partial(
            encoder,
            mixer=partial(Attention, heads=heads, mask=Causal()),
            cross=partial(Attention, heads=heads, cross=True),
        )
        half = partial(
            Backbone, position=partial(Learned, length=length, offset=2), first_norm=LayerNorm, dropout=dropout
        )
        super().__init__(half(dim, depth, encoder), half(dim, decoder_depth or depth, decoder))


HEAD = (("lm_head.weight", "head.out.weight"), Leading("final_logits_bias", "head.bias"))
CNN = {"vocab_size": 50264}

PUBLISHED = Published(
    "bart",
    BART,
    KEYS | {"length": "max_position_embeddings"},
    {
        "BartForConditionalGeneration": Architecture("Seq2Seq", shifted, HEAD, prefix="model.", tied=SHARED),
        "BartModel": Architecture("Seq2Seq", tied=SHARED),  # as pre-trained: its head is the embedding's table
    },
    trunk=(
        ("shared", "embed.table"),
        ("encoder.embed_positions", "backbone.encoder.position"),
        ("encoder.layernorm_embedding", "backbone.encoder.first_norm"),
        ("decoder.embed_positions", "backbone.decoder.position"),
        ("decoder.layernorm_embedding", "backbone.decoder.first_norm"),
        *LAYERS,
    ),
    inputs=TextInputs(begin=BEGIN),
    base={
        "activation_function": "gelu",
        "dropout": 0.1,
        "vocab_size": 50265,
        "max_position_embeddings": 1024,
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
        BEGIN: 2,
    },
    fixed=FIXED
    | {
        "scale_embedding": False,
        "static_position_embeddings": False,
        "normalize_embedding": True,
        "tie_word_embeddings": True,
    },
    drop=(*COPIES, "encoder.version", "decoder.version"),
    sizes={
        "bart-base": Size(139_420_416),
        "bart-large": Size(406_291_456, dim=1024, depth=12, heads=16),
        "bart-large-cnn": Size(406_290_432, CNN, dim=1024, depth=12, heads=16),
        "distilbart-cnn-12-6": Size(305_510_400, CNN, dim=1024, depth=12, heads=16, decoder_depth=6),
    },
)
