"""CLIP (Radford et al. 2021): an image tower and a text tower that meet in one space."""

import math
from functools import partial
from typing import Any

from torch import nn

from zoo.convert import PatchConv, Rows, pairs
from zoo.models.published import AnyKey, AnyRule, Architecture, Half, Published, Size, act
from zoo.models.vit import grid
from zoo.nn import MLP, Activation, Attention, Backbone, Block, Causal, ClassToken, Last, LayerNorm, Learned, PreNorm
from zoo.nn.position import Learned2d
from zoo.processors import ImageTextProcessor
from zoo.settings import Config, look
from zoo.tokenizers import LinearStem


def layer(mixer: partial, hidden: int | None, act: Activation, norm: partial) -> partial:
    """What both towers repeat."""
    return partial(Block, mixer=mixer, ffn=partial(MLP, hidden=hidden, act=act), residual=partial(PreNorm, norm=norm))


class CLIPVision(Backbone):
    """The image tower of ViT-B/32 by default: a ViT with one more LayerNorm after its positions.

    ``grid`` is the number of patches down and across; a class token stands before them (``ClassToken``), and the
    patches are embedded without a bias (``LinearStem(bias=False)``).  ``dropout`` acts on the attention weights.
    Raises ValueError where ``heads`` does not divide ``dim``.
    """

    def __init__(
        self,
        dim: int = 768,
        depth: int = 12,
        heads: int = 12,
        hidden: int | None = None,
        grid: list[int] | int = 7,
        act: Activation = "quick_gelu",
        eps: float = 1e-5,
        dropout: float = 0.0,
    ):
        height, width = (grid, grid) if isinstance(grid, int) else grid
        norm, position = partial(LayerNorm, eps=eps), partial(Learned2d, height=height, width=width, prefix=1)
        block = layer(partial(Attention, heads=heads, dropout=dropout), hidden, act, norm)
        super().__init__(dim, depth, block, position=position, first_norm=norm, last_norm=norm)


class CLIPText(Backbone):
    """The text tower of ViT-B/32 by default: a causal decoder whose last token, the end of the text, stands for the
    whole (``Last``).

    ``length`` is the longest text.  The rest is as in ``CLIPVision``.
    """

    def __init__(
        self,
        dim: int = 512,
        depth: int = 12,
        heads: int = 8,
        hidden: int | None = None,
        length: int = 77,
        act: Activation = "quick_gelu",
        eps: float = 1e-5,
        dropout: float = 0.0,
    ):
        norm, position = partial(LayerNorm, eps=eps), partial(Learned, length=length)
        block = layer(partial(Attention, heads=heads, mask=Causal(), dropout=dropout), hidden, act, norm)
        super().__init__(dim, depth, block, position=position, last_norm=norm)


# The files of transformers' CLIP.

PIXELS = {"model_type": "clip_vision_model", "intermediate_size": 3072, "patch_size": 32, "num_channels": 3}
WORDS = {"model_type": "clip_text_model", "intermediate_size": 2048, "vocab_size": 49408}
IDS = {"pad_token_id": 1, "bos_token_id": 49406, "eos_token_id": 49407}
BASE: Config = {"projection_dim": 512, "logit_scale_init_value": 2.6592}
BASE |= {"vision_config": PIXELS, "text_config": {**WORDS, **IDS}}
LARGE = {"vision_config": {"patch_size": 14}, "projection_dim": 768}
KEYS = """
    dim hidden_size             depth num_hidden_layers   heads num_attention_heads
    hidden intermediate_size    eps layer_norm_eps        dropout attention_dropout
"""
LAYERS = """
    layer_norm1 mixer.norm            layer_norm2 ffn.norm
    self_attn.q_proj mixer.fn.q       self_attn.k_proj mixer.fn.k
    self_attn.v_proj mixer.fn.v       self_attn.out_proj mixer.fn.o
    mlp.fc1 ffn.fn.up                 mlp.fc2 ffn.fn.down
"""
NAMES = pairs(
    """
    vision_model.embeddings.position_embedding backbone.position
    vision_model.pre_layrnorm backbone.first_norm   vision_model.post_layernorm backbone.last_norm
    text_model.embeddings.token_embedding target_embed.table
    text_model.embeddings.position_embedding target_backbone.position
    text_model.final_layer_norm target_backbone.last_norm
    visual_projection projection   text_projection target_projection   logit_scale scale
    """
)


def keys(tower: str) -> dict[str, AnyKey]:
    return {**dict(pairs(KEYS, ours=tower)), "act": act(tower + "hidden_act")}


def trunk(config: Config) -> tuple[AnyRule, ...]:
    channels = look(config, "vision_config.num_channels")
    return (
        Rows(("vision_model.embeddings.class_embedding",), "pool.weight", axes=0),
        PatchConv("vision_model.embeddings.patch_embedding", "embed.projection", channels),
        *pairs(LAYERS, "vision_model.encoder.layers.{}.", "backbone.blocks.{}."),
        *pairs(LAYERS, "text_model.encoder.layers.{}.", "target_backbone.blocks.{}."),
        *NAMES,
    )


def parts(config: Config) -> dict[str, Any]:
    temperature = math.exp(-config["logit_scale_init_value"])
    return {"pool": ClassToken, "target_pool": Last, "width": config["projection_dim"], "temperature": temperature}


def write(task: nn.Module) -> Config:
    if task.projection is None:
        raise ValueError("it projects both towers into one space, and this task has no width")
    width = {"projection_dim": task.projection.out_features}
    return {**width, "vision_config": width, "text_config": width}


def clean(config: Config) -> Config:
    """Old files say each tower twice, and the second is what holds, with what it leaves unsaid."""
    towers = ("vision_config", "text_config")
    return {**config, **{tower: config[f"{tower}_dict"] for tower in towers if config.get(f"{tower}_dict")}}


PUBLISHED = Published(
    "clip",
    CLIPVision,
    {**keys("vision_config."), "grid": grid("vision_config.")},
    {"CLIPModel": Architecture("Contrastive", parts, write=write)},
    trunk=trunk,
    processor=ImageTextProcessor("CLIPImageProcessor", partial(LinearStem, bias=False)),
    base=BASE,
    clean=clean,
    drop=("vision_model.embeddings.position_ids", "text_model.embeddings.position_ids"),
    also={"target_backbone": Half(CLIPText, {**keys("text_config."), "length": "text_config.max_position_embeddings"})},
    sizes={
        "clip-vit-b32": Size(151_277_313),
        "clip-vit-b16": Size(149_620_737, {"vision_config": {"patch_size": 16}}),
        "clip-vit-l14": Size(
            427_616_513, LARGE, dim=1024, depth=24, heads=16, target_backbone={"dim": 768, "heads": 12}
        ),
    },
)
