"""timm's vision transformers (Wightman 2019): what one is made of, read from its module, and the names in its files."""

import math
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from zoo.convert import Fused, Leading, PatchConv
from zoo.models.inputs import Files, Inputs
from zoo.models.inputs.image import read_image
from zoo.models.published import AnyRule, Architecture, Config, Published, classifier
from zoo.models.vit import BASE, KEYS, ViT, grid
from zoo.nn import ClassToken

ACTS = {"GELU": "gelu", "GELUTanh": "gelu_tanh", "QuickGELU": "quick_gelu", "ReLU": "relu", "SiLU": "silu"}


class TimmInputs(Inputs):
    """The images that timm's own evaluation makes."""

    def read(self, config: Config, folder: Path | None) -> dict[str, Any]:
        return {"tokenizer": read_image(config, config.get("preprocessor", {}), "ViTImageProcessor")}

    def write(self, task: nn.Module) -> tuple[Config, Files]:
        raise ValueError("timm's files are read and not written")


def package(name: str) -> ModuleType:
    """timm.  Raises ImportError, in words, where it is not installed."""
    try:
        import timm
    except ImportError:
        raise ImportError(f"timm:{name} needs the timm package: pip install timm") from None
    return timm


def clean(config: Config) -> Config:
    """The config.json of a model of timm's on the hub says which it is; what that is made of, only timm knows.

    Raises ImportError without timm, ValueError for a model that timm has not or that is no ViT of ours.
    """
    if "hidden_size" in config:
        return config
    name, words = config["architecture"], config.get("pretrained_cfg") or config
    arguments = {key: config[key] for key in ("num_classes", "global_pool") if key in config}
    timm = package(name)
    try:
        with torch.device("meta"):
            model = timm.create_model(name, **{**arguments, **(config.get("model_args") or {})})
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"timm cannot build the architecture {name!r} ({str(error).splitlines()[0]})") from None
    return settings(model, {**model.pretrained_cfg, **words}, config)


def settings(model: nn.Module, words: Config | None = None, named: Config | None = None) -> Config:
    """What a VisionTransformer of timm is made of, in the words of transformers' ViT.

    ``words`` are its pretrained_cfg if not the model's own; ``named`` may hold the names of its classes.  Raises
    ValueError for what our ViT is not.
    """
    words, named = words or model.pretrained_cfg, named or {}
    for trait in strange(model):
        raise ValueError(f"timm's {words.get('architecture')} has {trait}, which ViT has not")
    block, embed = model.blocks[0], model.patch_embed
    (height, width), (patch, _) = embed.grid_size, embed.patch_size
    classes = model.num_classes
    names = named.get("label_names") or [f"LABEL_{i}" for i in range(classes)]
    told = named.get("label_descriptions") or {}
    return {
        "model_type": "timm",
        "architectures": ["VisionTransformer" if classes else "VisionTransformerFeatures"],
        "hidden_size": model.embed_dim,
        "num_hidden_layers": len(model.blocks),
        "num_attention_heads": block.attn.num_heads,
        "intermediate_size": block.mlp.fc1.out_features,
        "hidden_act": ACTS[type(block.mlp.act).__name__],
        "qkv_bias": block.attn.qkv.bias is not None,
        "layer_norm_eps": model.norm.eps,
        "hidden_dropout_prob": 0.0,
        "image_size": [height * patch, width * patch],
        "patch_size": patch,
        "num_channels": embed.proj.in_channels,
        "id2label": {str(i): told.get(name, name) for i, name in enumerate(names)},
        "preprocessor": preprocessor(words, height * patch, width * patch),
    }


def strange(model: nn.Module) -> Iterator[str]:
    """What a model of timm has that our ViT has not."""
    if type(model).__name__ != "VisionTransformer":
        yield f"the class {type(model).__name__}"
        return
    block = model.blocks[0]
    if not model.has_class_token:
        yield "no class token"
    if model.global_pool != "token":
        yield f"global_pool={model.global_pool!r}"
    if model.num_reg_tokens:
        yield f"{model.num_reg_tokens} register tokens"
    if model.no_embed_class or model.pos_embed is None:
        yield "no position for its class token"
    for where, part, usual in (
        ("before its blocks", model.norm_pre, "Identity"),
        ("after its blocks", model.norm, "LayerNorm"),
        ("before its head", model.fc_norm, "Identity"),
        ("on its patches", model.patch_embed.norm, "Identity"),
        ("on its queries", block.attn.q_norm, "Identity"),
        ("on its attention's output", getattr(block.attn, "norm", nn.Identity()), "Identity"),
        ("inside its MLP", getattr(block.mlp, "norm", nn.Identity()), "Identity"),
        ("on its branches", block.ls1, "Identity"),
    ):
        if type(part).__name__ != usual:
            yield f"{type(part).__name__} {where}"
    for part, usual in ((block, "Block"), (block.attn, "Attention"), (block.mlp, "Mlp")):
        if type(part).__name__ != usual:
            yield f"{type(part).__name__} in place of {usual}"
    if type(block.mlp.act).__name__ not in ACTS:
        yield f"the activation {type(block.mlp.act).__name__}"
    if getattr(block.attn, "gate", None) is not None or block.attn.proj.bias is None:
        yield "another attention"
    if len(set(model.patch_embed.patch_size)) > 1:
        yield f"patches of {' x '.join(map(str, model.patch_embed.patch_size))} pixels"


def preprocessor(words: Config, height: int, width: int) -> Config:
    """timm's evaluation in the words of preprocessor_config.json: the shorter side is the model's over ``crop_pct``."""
    filters = {"nearest": 0, "bilinear": 2, "bicubic": 3}
    filter_, mode, share = (
        words.get("interpolation", "bicubic"),
        words.get("crop_mode") or "center",
        words.get("crop_pct"),
    )
    if filter_ not in filters or mode not in ("center", "squash"):
        raise ValueError(f"interpolation={filter_!r} with crop_mode={mode!r} is not supported")
    sides = [math.floor(side / (share or 1.0)) for side in (height, width)]
    square = height == width and mode == "center"
    return {
        "size": {"shortest_edge": sides[0]} if square else {"height": sides[0], "width": sides[1]},
        "resample": filters[filter_],
        "do_center_crop": True,
        "crop_size": {"height": height, "width": width},
        "image_mean": list(words.get("mean", (0.5, 0.5, 0.5))),
        "image_std": list(words.get("std", (0.5, 0.5, 0.5))),
    }


def trunk(config: Config) -> tuple[AnyRule, ...]:
    return (
        PatchConv("patch_embed.proj", "embed.projection", config["num_channels"]),
        Leading("cls_token", "pool.weight"),
        Leading("pos_embed", "backbone.position.weight"),
        ("blocks.{}.norm1", "backbone.blocks.{}.mixer.norm"),
        Fused("blocks.{}.attn.qkv", tuple("backbone.blocks.{}.mixer.fn." + x for x in "qkv")),
        ("blocks.{}.attn.proj", "backbone.blocks.{}.mixer.fn.o"),
        ("blocks.{}.norm2", "backbone.blocks.{}.ffn.norm"),
        ("blocks.{}.mlp.fc1", "backbone.blocks.{}.ffn.fn.up"),
        ("blocks.{}.mlp.fc2", "backbone.blocks.{}.ffn.fn.down"),
        ("norm", "backbone.last_norm"),
    )


PUBLISHED = Published(
    "timm",
    ViT,
    {**KEYS, "grid": grid()},
    {
        "VisionTransformer": classifier((("head", "head.out"),), ClassToken),
        "VisionTransformerFeatures": Architecture(None),
    },
    trunk=trunk,
    inputs=TimmInputs(),
    base={**BASE, "image_size": 224, "num_channels": 3},
    clean=clean,
)
