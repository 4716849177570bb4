"""ViT: image classification."""

import torch
import transformers as hf
from torch import Tensor, nn

from tests.models.parity import ODD_SHAPE, SHAPE, Row
from zoo.tokenizers import Tokens


def config(**changes) -> hf.ViTConfig:
    usual = {
        **SHAPE,
        "image_size": 24,
        "patch_size": 8,
        "num_labels": 5,
    }
    return hf.ViTConfig(**{**usual, **changes})


def run(ours: nn.Module, theirs: nn.Module) -> tuple[Tensor, Tensor]:
    """The logits of images whose pixels are normalised already."""
    size = ours.tokenizer.channels, ours.tokenizer.height, ours.tokenizer.width
    pixels = torch.randn(2, *size, generator=torch.Generator().manual_seed(2))
    return ours(Tokens(ours.tokenizer.patchify(pixels))), theirs(pixel_values=pixels).logits


ODD = {
    **ODD_SHAPE,
    "image_size": [20, 12],
    "patch_size": 4,
    "num_channels": 1,
    "hidden_act": "gelu_new",
    "qkv_bias": False,
    "layer_norm_eps": 1e-2,
    "id2label": {0: "cat", 1: "dog", 2: "frog"},
    "label2id": {"cat": 0, "dog": 1, "frog": 2},
}

ROWS = [
    Row("vit", lambda: hf.ViTForImageClassification(config()), run),
    Row("vit odd", lambda: hf.ViTForImageClassification(config(**ODD)), run),
]
