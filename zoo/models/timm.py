"""timm's vision transformers (Wightman 2019): what one is made of, read from its module, and the names in its files."""

from collections.abc import Iterator
from types import ModuleType

import torch
from torch import nn

from zoo.convert import Fused, Leading, PatchConv, Rule, pairs
from zoo.models.published import Architecture, Published, classifier
from zoo.models.vit import BASE, KEYS, ViT, grid
from zoo.nn import ClassToken
from zoo.processors.image import TimmProcessor, timm_words
from zoo.settings import Config

ACTS = {"GELU": "gelu", "GELUTanh": "gelu_tanh", "QuickGELU": "quick_gelu", "ReLU": "relu", "SiLU": "silu"}
PARTS = (  # where one is, the classes that it may be of, and what another one is
    ("blocks.0", ("Block",), "{} in place of Block"),
    ("blocks.0.attn", ("Attention",), "{} in place of Attention"),
    ("norm_pre", ("Identity",), "{} before its blocks"),
    ("norm", ("LayerNorm",), "{} after its blocks"),
    ("fc_norm", ("Identity",), "{} before its head"),
    ("patch_embed.norm", ("Identity",), "{} on its patches"),
    ("blocks.0.attn.q_norm", ("Identity",), "{} on its queries"),
    ("blocks.0.attn.norm", ("Identity",), "{} on its attention's output"),
    ("blocks.0.attn.gate", (), "{} as a gate of its attention"),
    ("blocks.0.mlp.norm", ("Identity",), "{} inside its MLP"),
    ("blocks.0.ls1", ("Identity",), "{} on its branches"),
    ("blocks.0.mlp", ("Mlp",), "{} in place of Mlp"),
    ("blocks.0.mlp.act", ACTS, "the activation {}"),
)


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
    arguments = {"dim": model.embed_dim, "depth": len(model.blocks), "heads": block.attn.num_heads, "dropout": 0.0}
    arguments |= {"hidden": block.mlp.fc1.out_features, "act": ACTS[type(block.mlp.act).__name__]}
    arguments |= {"bias": block.attn.qkv.bias is not None, "eps": model.norm.eps, "grid": list(embed.grid_size)}
    kind = "VisionTransformer" if model.num_classes else "VisionTransformerFeatures"
    config = {"model_type": "timm", "architectures": [kind], "num_channels": embed.proj.in_channels}
    config["patch_size"] = embed.patch_size[0]
    PUBLISHED.halves["backbone"].write(arguments, config)
    names = named.get("label_names") or [f"LABEL_{i}" for i in range(model.num_classes)]
    told = named.get("label_descriptions") or {}
    config["id2label"] = {str(i): told.get(name, name) for i, name in enumerate(names)}
    return {**config, "preprocessor": timm_words(words, *config["image_size"])}


def strange(model: nn.Module) -> Iterator[str]:
    """What a model of timm has that our ViT has not."""
    if type(model).__name__ != "VisionTransformer":
        yield f"the class {type(model).__name__}"
        return
    patch, parts = model.patch_embed.patch_size, dict(model.named_modules(remove_duplicate=False))
    for wrong, trait in (
        (not model.has_class_token, "no class token"),
        (model.global_pool != "token", f"global_pool={model.global_pool!r}"),
        (model.num_reg_tokens, f"{model.num_reg_tokens} register tokens"),
        (model.no_embed_class or model.pos_embed is None, "no position for its class token"),
        (len(set(patch)) > 1, f"patches of {' x '.join(map(str, patch))} pixels"),
    ):
        if wrong:
            yield trait
    for path, classes, trait in PARTS:
        name = type(parts[path]).__name__ if path in parts else ""  # some versions of timm have fewer
        if name and name not in classes:
            yield trait.format(name)
    if model.blocks[0].attn.proj.bias is None:
        yield "no bias on its attention's output"


LAYERS = "norm1 mixer.norm attn.proj mixer.fn.o norm2 ffn.norm mlp.fc1 ffn.fn.up mlp.fc2 ffn.fn.down"


def trunk(config: Config) -> tuple[Rule | tuple[str, str], ...]:
    return (
        PatchConv("patch_embed.proj", "embed.projection", config["num_channels"]),
        Leading("cls_token", "pool.weight"),
        Leading("pos_embed", "backbone.position.weight"),
        Fused("blocks.{}.attn.qkv", tuple("backbone.blocks.{}.mixer.fn." + part for part in "qkv")),
        *pairs(LAYERS, "blocks.{}.", "backbone.blocks.{}."),
        ("norm", "backbone.last_norm"),
    )


CLASSES = classifier(pairs("head head.out"), ClassToken)

PUBLISHED = Published(
    "timm",
    ViT,
    {**KEYS, "grid": grid()},
    {
        "VisionTransformer": CLASSES,
        "VisionTransformerFeatures": Architecture(None),
    },
    trunk=trunk,
    processor=TimmProcessor(),
    base=BASE,
    clean=clean,
)
