"""Whisper: features to logits; test_whisper_audio.py begins with a waveform."""

import torch
import transformers as hf
from torch import Tensor, nn

from tests.models.parity import PAIR_SHAPE, Row, Run, random_ids
from zoo.tokenizers import Tokens


def whisper(**changes) -> hf.WhisperForConditionalGeneration:
    usual = {
        "vocab_size": 97,
        "num_mel_bins": 12,
        **PAIR_SHAPE,
        "max_source_positions": 12,
        "max_target_positions": 20,
        "pad_token_id": 1,
        "bos_token_id": 1,
        "eos_token_id": 1,
        "decoder_start_token_id": 2,
    }
    return hf.WhisperForConditionalGeneration(hf.WhisperConfig(**{**usual, **changes}))


ODD = {
    "vocab_size": 91,
    "num_mel_bins": 7,
    "d_model": 30,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 5,
    "decoder_attention_heads": 5,
    "encoder_ffn_dim": 41,
    "decoder_ffn_dim": 41,
    "max_source_positions": 9,
    "max_target_positions": 13,
    "activation_function": "relu",
}


def heard(vocabulary: int = 97, mels: int = 12, frames: int = 24, target: int = 7) -> Run:
    """The logits of every target token; the reference takes exactly two frames a position."""

    def run(ours: nn.Module, theirs: nn.Module) -> tuple[Tensor, Tensor]:
        features = torch.randn(2, frames, mels, generator=torch.Generator().manual_seed(frames))
        written = random_ids(vocabulary, target, 0)
        start = torch.full((2, 1), theirs.config.decoder_start_token_id)
        given = torch.cat((start, written.value[:, :-1]), 1)
        logits = theirs(features.mT, decoder_input_ids=given).logits
        return ours.head(ours(Tokens(features), written)), logits

    return run


TABLE = ("model.encoder.embed_positions.weight",)

ROWS = [
    Row("whisper", whisper, heard(), constant=TABLE),
    Row("whisper odd", lambda: whisper(**ODD), heard(91, 7, 18, 13), constant=TABLE),
]
