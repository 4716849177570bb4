"""CLIP: the similarities of images and texts."""

import torch
import transformers as hf
from torch import Tensor, nn

from tests.models.parity import ODD_SHAPE, Row, Run, random_ids
from zoo.tokenizers import Tokens


def config(text: dict | None = None, vision: dict | None = None, **changes) -> hf.CLIPConfig:
    usual = {"num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    ids = {"bos_token_id": 94, "eos_token_id": 96, "pad_token_id": 96}
    words = {**usual, "hidden_size": 32, "vocab_size": 97, "max_position_embeddings": 20, **ids, **(text or {})}
    pixels = {**usual, "hidden_size": 40, "image_size": 24, "patch_size": 8, **(vision or {})}
    return hf.CLIPConfig(text_config=words, vision_config=pixels, **{"projection_dim": 24, **changes})


def similar(end: int = 96, pad: int = 96, length: int = 11) -> Run:
    """The logits of every image with every text; each text is ended by ``end``, the second one padded."""

    def run(ours: nn.Module, theirs: nn.Module) -> tuple[Tensor, Tensor]:
        size = ours.tokenizer.channels, ours.tokenizer.height, ours.tokenizer.width
        pixels = torch.randn(3, *size, generator=torch.Generator().manual_seed(2))
        text = random_ids(end, length, 4, pad)
        text.value[0, -1] = text.value[1, -5] = end
        logits = theirs(input_ids=text.value, attention_mask=text.real.long(), pixel_values=pixels).logits_per_image
        return ours.similarity(Tokens(ours.tokenizer.patchify(pixels)), text), logits

    return run


ODD = {
    "projection_dim": 17,
    "text": {
        **ODD_SHAPE,
        "max_position_embeddings": 11,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-2,
        "eos_token_id": 2,  # old files say so, and mean the largest id
        "pad_token_id": 1,
    },
    "vision": {
        "hidden_size": 28,
        "num_hidden_layers": 3,
        "num_attention_heads": 7,
        "layer_norm_eps": 3e-2,
        "intermediate_size": 33,
        "image_size": 20,
        "patch_size": 4,
        "hidden_act": "gelu",
    },
}

ROWS = [
    Row("clip", lambda: hf.CLIPModel(config()), similar()),
    Row("clip odd", lambda: hf.CLIPModel(config(**ODD)), similar(pad=1)),
]
