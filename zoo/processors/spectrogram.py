"""Spectrograms beside a published model: ``preprocessor_config.json`` of the Audio Spectrogram Transformer."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from zoo.processors.processor import Files, Processor, preprocessing, written
from zoo.settings import Config, sensible
from zoo.tokenizers import Frames, KaldiLogMel, PatchFrames


class SpectrogramProcessor(Processor):
    """Sound as patches of Kaldi's filter bank (Gong et al. 2021)."""

    def read(self, config: Config, folder: Path | None) -> dict[str, Any]:
        found = preprocessing(folder, "feature_extractor")
        with sensible("the audio preprocessor"):
            return {"tokenizer": read_frames(config, found)}

    def write(self, task: nn.Module) -> tuple[Config, Files]:
        tokenizer, embed = task.tokenizer, task.embed
        spectrogram = getattr(tokenizer, "spectrogram", None)
        known = isinstance(embed, PatchFrames) and isinstance(spectrogram, KaldiLogMel) and tokenizer.stack == 1
        if not known or spectrogram.frames is None:
            raise ValueError("it reads Frames(KaldiLogMel(frames=...), stem=PatchFrames) and nothing else")
        sizes = {"num_mel_bins": spectrogram.mels, "max_length": spectrogram.frames}
        (patch, _), (down, across) = embed.projection.kernel_size, embed.projection.stride
        words = {"feature_extractor_type": "ASTFeatureExtractor", "feature_size": 1, "padding_value": 0.0}
        words |= {"sampling_rate": spectrogram.rate, "mean": spectrogram.mean, "std": spectrogram.std}
        words |= {"do_normalize": True, "return_attention_mask": False, **sizes}
        return {**sizes, "patch_size": patch, "frequency_stride": down, "time_stride": across}, written(words)


def read_frames(config: Config, found: Config) -> Frames:
    """The tokenizer of a model: its sizes from config.json, how sound becomes a spectrogram from ``found``."""
    mels = config["num_mel_bins"]
    if found.get("num_mel_bins", mels) != mels:
        raise ValueError(f"the audio preprocessor's num_mel_bins={found['num_mel_bins']} is not the model's {mels}")
    scale = {name: found[name] for name in ("mean", "std") if name in found}
    if not found.get("do_normalize", True):
        scale = {"mean": 0.0, "std": 0.5}
    spectrogram = KaldiLogMel(found.get("sampling_rate", 16_000), mels, **scale, frames=config["max_length"])
    stride = [config["frequency_stride"], config["time_stride"]]
    return Frames(spectrogram, stem=partial(PatchFrames, patch=config["patch_size"], stride=stride))
