"""ESM-2 (Lin et al. 2022): a protein language model, a pre-LayerNorm encoder with rotary positions over residues."""

from functools import partial

import torch
from torch import Tensor, nn

from zoo.convert import State, pairs
from zoo.models.bert import KEYS, LAYERS
from zoo.models.published import SENTENCES, TIED, Architecture, Published, Size, classifier
from zoo.models.roberta import CLASSIFIER, HEAD, transform
from zoo.nn import MLP, Attention, Backbone, Block, HalfPrecision, LayerNorm, Pooler, PreNorm, Rotary
from zoo.processors import TextProcessor
from zoo.settings import Config
from zoo.tokenizers import ResidueEmbed


class ESM(Backbone):
    """ESM-2 of 650 million parameters by default; ``ResidueEmbed`` is its embedding.

    ``half`` rounds the rotary frequencies to float16, as Meta's weights were trained with.  ``dropout`` acts on both
    branches' outputs and on the attention weights.  ``contacts``, the published regression from attention maps to
    residues in contact, is kept for saving and does nothing here.  Raises ValueError where ``heads`` does not divide
    ``dim``.
    """

    def __init__(
        self,
        dim: int = 1280,
        depth: int = 33,
        heads: int = 20,
        hidden: int | None = None,
        theta: float = 10_000.0,
        half: bool = False,
        eps: float = 1e-5,
        dropout: float = 0.0,
    ):
        norm = partial(LayerNorm, eps=eps)
        block = partial(
            Block,
            mixer=partial(Attention, heads=heads, dropout=dropout),
            ffn=partial(MLP, hidden=hidden),
            residual=partial(PreNorm, norm=norm, dropout=dropout),
        )
        position = partial(Rotary, theta=theta, scaling=HalfPrecision() if half else None)
        super().__init__(dim, depth, block, position=position, last_norm=norm)
        self.contacts = nn.Linear(depth * heads, 1).requires_grad_(False)


NORMS = pairs("attention.LayerNorm mixer.norm LayerNorm ffn.norm", "encoder.layer.{}.", "backbone.blocks.{}.")
WRITTEN = pairs(".gamma .weight .beta .bias")  # by transformers 5; either is read
TRUNK = (
    *pairs("embeddings.word_embeddings embed.table contact_head.regression backbone.contacts"),
    *pairs("encoder.emb_layer_norm_after backbone.last_norm"),
    *(names for names in LAYERS if "LayerNorm" not in names[0]),
    *NORMS,
    *((theirs + a, ours + b) for theirs, ours in NORMS for a, b in WRITTEN),
)
ROUNDED = "frequencies_in_half_precision"  # our own key, for no other says it
ROTARY = "attention.self.rotary_embeddings"


def frequencies(config: Config, half: bool) -> Tensor:
    """(d / 2,) of the rotary positions."""
    width = config["hidden_size"] // config["num_attention_heads"]
    exact = 1 / config["rope_theta"] ** (torch.arange(0, width, 2, device="cpu").float() / width)
    return HalfPrecision()(exact) if half else exact


def constant(config: Config) -> dict[str, Tensor]:
    prefix = "" if config.get("architectures") == ["EsmModel"] else "esm."
    return {f"{prefix}encoder.layer.*.{ROTARY}.inv_freq": frequencies(config, config[ROUNDED])}  # with that star


def told(config: Config, state: State) -> Config:
    """Which frequencies a file was trained with.  Raises ValueError for others."""
    found = next((value for name, value in state.items() if name.endswith("rotary_embeddings.inv_freq")), None)
    if found is None:
        return {}
    for half in (False, True):
        expected = frequencies(config, half)
        if found.shape == expected.shape and torch.allclose(found.float(), expected, rtol=1e-6, atol=0):
            return {ROUNDED: half}
    raise ValueError(f"the rotary frequencies are not those of rope_theta={config['rope_theta']!r}")


BASE: Config = {"num_attention_heads": 12, "hidden_dropout_prob": 0.1, "layer_norm_eps": 1e-12, "pad_token_id": 1}
BASE |= {"eos_token_id": 2, "position_embedding_type": "absolute", "token_dropout": False}
FIXED: Config = {"position_embedding_type": "rotary", "token_dropout": True, "emb_layer_norm_before": (False, None)}
FIXED |= {"is_folding_model": False, "is_decoder": False, "add_cross_attention": False}
ABSOLUTE = ("embeddings.position_ids", "embeddings.position_embeddings")
size = partial(Size, config={"vocab_size": 33, "mask_token_id": 32}, half=True)

PUBLISHED = Published(
    "esm",
    ESM,
    {name: key for name, key in KEYS.items() if name not in ("length", "act")}
    | {"theta": "rope_theta", "half": ROUNDED},
    {
        "EsmForMaskedLM": Architecture("MaskedLM", transform, HEAD, prefix="esm.", tied=TIED),
        "EsmForSequenceClassification": classifier(CLASSIFIER, Pooler, prefix="esm."),
        "EsmModel": SENTENCES,
    },
    trunk=TRUNK,
    processor=TextProcessor(lambda config: ResidueEmbed),
    base=BASE,
    fixed=FIXED,
    drop=("pooler", "rotary_embeddings", "encoder.layer.{}." + ROTARY, *ABSOLUTE),
    constant=constant,
    told=told,
    sizes={
        "esm2-8m": size(7_512_474, dim=320, depth=6),
        "esm2-35m": size(33_501_394, dim=480, depth=12),
        "esm2-150m": size(148_140_154, dim=640, depth=30),
        "esm2-650m": size(651_043_254),
        "esm2-3b": size(2_839_005_634, dim=2560, depth=36, heads=40),
    },
)
