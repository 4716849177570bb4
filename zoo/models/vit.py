"""ViT (Dosovitskiy et al. 2020): a pre-LayerNorm encoder over image patches and a class token."""

from collections.abc import Callable
from functools import partial

from zoo.convert import Leading, PatchConv, Rule, pairs
from zoo.models.published import AnyKey, Architecture, Derived, Published, Size, act, classifier
from zoo.nn import MLP, Activation, Attention, Backbone, Block, ClassToken, LayerNorm, Learned2d, PreNorm
from zoo.processors import ImageProcessor
from zoo.settings import Config, look, put


class ViT(Backbone):
    """ViT-B/16 at 224 x 224 pixels by default.

    ``grid`` is the number of patches down and across, ``prefix`` that of the class tokens before them (0 with a mean
    pool); together they must be the length of the input, else the forward raises ValueError.  ``bias`` is that of
    queries, keys and values.  ``dropout`` acts on the input, on both branches' outputs and inside the MLP (the paper:
    0.1); ``drop_path`` grows linearly to the last block (DeiT: 0.1).  Raises ValueError where ``heads`` does not divide
    ``dim``.  SimpleViT (Beyer et al. 2022) is other parts, not a flag: ``Backbone`` with ``position=Sinusoidal2d``.
    """

    def __init__(
        self,
        dim: int = 768,
        depth: int = 12,
        heads: int = 12,
        hidden: int | None = None,
        grid: list[int] | int = 14,
        prefix: int = 1,
        eps: float = 1e-6,
        dropout: float = 0.0,
        drop_path: float = 0.0,
        act: Activation = "gelu",
        bias: bool = True,
    ):
        height, width = (grid, grid) if isinstance(grid, int) else grid
        norm = partial(LayerNorm, eps=eps)
        mixer = partial(Attention, heads=heads, bias=True if bias else "o")
        block = partial(Block, mixer=mixer, ffn=partial(MLP, hidden=hidden, act=act, dropout=dropout))
        residual = partial(PreNorm, norm=norm, dropout=dropout)
        rates = [drop_path * i / max(depth - 1, 1) for i in range(depth)]
        blocks: list[Callable[[int], Block]]
        blocks = [partial(block, residual=partial(residual, drop_path=rate)) for rate in rates]
        position = partial(Learned2d, height=height, width=width, prefix=prefix)
        super().__init__(dim, depth, blocks, position=position, last_norm=norm, dropout=dropout)


# The files of transformers' ViT; its relatives import what they share from here.

LAYERS = pairs(
    """
    layernorm_before mixer.norm             layernorm_after ffn.norm
    attention.attention.query mixer.fn.q    attention.attention.key mixer.fn.k
    attention.attention.value mixer.fn.v    attention.output.dense mixer.fn.o
    intermediate.dense ffn.fn.up            output.dense ffn.fn.down
    """,
    theirs="encoder.layer.{}.",
    ours="backbone.blocks.{}.",
) + pairs("layernorm backbone.last_norm")
KEYS: dict[str, AnyKey] = {
    **dict(pairs("dim hidden_size depth num_hidden_layers heads num_attention_heads hidden intermediate_size")),
    **dict(pairs("bias qkv_bias eps layer_norm_eps dropout hidden_dropout_prob")),
    "act": act("hidden_act"),
}
BASE = {"layer_norm_eps": 1e-12, "image_size": 224, "patch_size": 16, "num_channels": 3}


def grid(prefix: str = "") -> Derived:
    """The grid of patches, from the sizes of image and patch that stand below ``prefix``."""

    def load(config: Config) -> list[int]:
        image, patch = look(config, prefix + "image_size"), look(config, prefix + "patch_size")
        if not isinstance(patch, int):
            raise ValueError(f"patch_size={patch!r} is not supported; a patch has as many pixels down as across")
        return [side // patch for side in ((image, image) if isinstance(image, int) else image)]

    def save(value: list[int] | int, config: Config) -> None:
        patch = look(config, prefix + "patch_size")
        image = value * patch if isinstance(value, int) else [side * patch for side in value]
        put(config, prefix + "image_size", image)

    return Derived(load, save)


def trunk(config: Config) -> tuple[Rule | tuple[str, str], ...]:
    return (
        Leading("embeddings.cls_token", "pool.weight"),
        PatchConv("embeddings.patch_embeddings.projection", "embed.projection", config["num_channels"]),
        Leading("embeddings.position_embeddings", "backbone.position.weight"),
        *LAYERS,
    )


THOUSAND = {"id2label": {str(i): f"LABEL_{i}" for i in range(1000)}}  # ImageNet
CLASSES = classifier(pairs("classifier head.out"), ClassToken, prefix="vit.")

PUBLISHED = Published(
    "vit",
    ViT,
    {**KEYS, "grid": grid()},
    {"ViTForImageClassification": CLASSES, "ViTModel": Architecture(None)},
    trunk=trunk,
    processor=ImageProcessor(),
    base=BASE,
    drop=("pooler", "embeddings.mask_token"),
    sizes={
        "vit-b16": Size(86_567_656, THOUSAND),
        "vit-b32": Size(88_224_232, {**THOUSAND, "patch_size": 32}),
        "vit-ti16": Size(5_717_416, THOUSAND, dim=192, heads=3),
        "vit-s16": Size(22_050_664, THOUSAND, dim=384, heads=6),
        "vit-l16": Size(304_326_632, THOUSAND, dim=1024, depth=24, heads=16),
        "vit-h14": Size(632_045_800, {**THOUSAND, "patch_size": 14}, dim=1280, depth=32, heads=16),
    },
)
