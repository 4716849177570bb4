"""Sound beside a published model: the log-mel frames that preprocessor_config.json describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from zoo.processors.processor import PREPROCESSOR, Files, Processor, preprocessing, written
from zoo.processors.text import read_text, write_text
from zoo.settings import Config
from zoo.tokenizers import ConvFrames, Frames, WhisperLogMel

FIXED = {"sampling_rate": 16_000, "n_fft": 400, "hop_length": 160, "padding_value": 0.0, "dither": 0.0}
POSITIONS = 50  # a second: frames of 10 ms, two to a position


class SpeechProcessor(Processor):
    """Whisper's: sound of a fixed length in, text out.  ``begin`` is the key of the token with which a text begins."""

    def __init__(self, begin: str):
        self.begin = begin

    def read(self, config: Config, folder: Path | None) -> dict[str, Any]:
        text = read_text(config, folder, None, self.begin)
        return {"tokenizer": read_frames(config, folder), "target_tokenizer": text}

    def write(self, task: nn.Module) -> tuple[Config, Files]:
        sound, about = write_frames(task)
        config, files = write_text(task.target_tokenizer, self.begin)
        return config | sound, files | about


def read_frames(config: Config, folder: Path | None) -> Frames:
    """What Whisper hears.  Raises ValueError where the file asks for other frames than Whisper's, or for another
    number of them than config.json."""
    found = preprocessing(folder, "feature_extractor")
    mels, seconds = config["num_mel_bins"], config["max_source_positions"] / POSITIONS
    for key, value in (FIXED | {"feature_size": mels, "chunk_length": seconds}).items():
        if found.get(key, value) != value:
            raise ValueError(f"{PREPROCESSOR}: {key}={found[key]!r} is not supported; this Whisper has {key}={value:g}")
    return Frames(WhisperLogMel(mels, seconds), stem=ConvFrames)


def write_frames(task: nn.Module) -> tuple[Config, Files]:
    """The inverse.  Raises ValueError for other frames than Whisper's."""
    frames = task.tokenizer
    heard = isinstance(frames, Frames) and frames.stack == 1 and type(frames.spectrogram) is WhisperLogMel
    if not heard or type(task.embed) is not ConvFrames or task.embed.stride != 2:
        raise ValueError("Whisper reads Frames(WhisperLogMel(seconds=30), stem=ConvFrames), and this task does not")
    mels, seconds = frames.spectrogram.mels, frames.spectrogram.seconds
    if seconds is None or seconds * POSITIONS % 1:
        raise ValueError(f"Whisper hears sounds of one length; WhisperLogMel has seconds={seconds}, give it 30")
    about = {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": mels, **FIXED}
    about["chunk_length"] = int(seconds) if seconds == int(seconds) else seconds
    config = {"num_mel_bins": mels, "max_source_positions": round(seconds * POSITIONS)}
    return config, written(about)
