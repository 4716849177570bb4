"""AST: audio classification."""

import torch
import transformers as hf
from torch import Tensor, nn

from tests.models.parity import ODD_SHAPE, SHAPE, Row
from zoo.tokenizers import Tokens


def config(**changes) -> hf.ASTConfig:
    usual = {
        **SHAPE,
        "num_mel_bins": 40,
        "max_length": 64,
        "num_labels": 5,
    }
    return hf.ASTConfig(**{**usual, **changes})


def run(ours: nn.Module, theirs: nn.Module) -> tuple[Tensor, Tensor]:
    """The logits of spectrograms that are normalised already."""
    spectrogram = ours.tokenizer.spectrogram
    frames = torch.randn(2, spectrogram.frames, spectrogram.mels, generator=torch.Generator().manual_seed(2))
    return ours(Tokens(frames)), theirs(input_values=frames).logits


ODD = {
    **ODD_SHAPE,
    "num_mel_bins": 23,
    "max_length": 37,
    "patch_size": 6,
    "frequency_stride": 5,
    "time_stride": 3,
    "hidden_act": "relu",
    "qkv_bias": False,
    "layer_norm_eps": 1e-2,
}

ROWS = [
    Row("ast", lambda: hf.ASTForAudioClassification(config()), run),
    Row("ast odd", lambda: hf.ASTForAudioClassification(config(**ODD)), run),
]
