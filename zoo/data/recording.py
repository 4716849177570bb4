"""Fields of sound files, and how one is read: whole or not at all."""

# Shapes: N samples of a clip, c channels.

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import torch

from zoo.data.field import Field
from zoo.tokenizers import Waveform

LONGEST = 3600  # seconds


class Recordings(Field):
    """Sound files, read when they are needed."""

    modality = "audio"

    def __init__(self, files: list[Path]):
        self.files = files

    def __len__(self) -> int:
        return len(self.files)

    def take(self, index: list[int]) -> Field:
        return Recordings([self.files[i] for i in index])

    def raw(self, index: list[int]) -> list[Waveform]:
        return [read_audio(self.files[i]) for i in index]

    @property
    def size(self) -> int:
        return sum(file.stat().st_size for file in self.files)


def read_audio(path: Path) -> Waveform:
    """A sound file as mono.  PCM in .wav needs no package, other formats need soundfile.

    Raises FileNotFoundError, or ValueError for what is not a whole recording of at most an hour.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such recording")
    try:
        samples, rate, promised = _read_wave(path)
    except (wave.Error, EOFError):  # not PCM in .wav
        samples, rate, promised = _read_other(path)
    if not len(samples) or len(samples) < promised:
        raise ValueError(f"{path}: holds {len(samples)} of the {promised} samples that its header promises")
    return Waveform(torch.from_numpy(samples.mean(1, dtype=np.float32)), rate)


def _read_wave(path: Path) -> tuple[np.ndarray, int, int]:
    """((N, c) float32 samples, rate, samples that the header promises)"""
    with wave.open(str(path), "rb") as file:
        channels, width, rate, promised = file.getparams()[:4]
        _check(path, promised, rate)
        data = file.readframes(promised)
    data = data[: len(data) // (channels * width) * channels * width]
    if width == 1:  # the only width without a sign
        samples = np.frombuffer(data, np.uint8).astype(np.float32) / 128 - 1
    else:
        padded = np.zeros((len(data) // width, 4), np.uint8)  # to 32 bits, little-endian
        padded[:, 4 - width :] = np.frombuffer(data, np.uint8).reshape(-1, width)
        samples = padded.view("<i4")[:, 0].astype(np.float32) / 2**31
    return samples.reshape(-1, channels), rate, promised


def _read_other(path: Path) -> tuple[np.ndarray, int, int]:
    try:
        import soundfile
    except ImportError:
        raise ValueError(
            f"{path}: only PCM in .wav is read without soundfile: pip install lightning-zoo[audio]"
        ) from None
    try:
        with soundfile.SoundFile(path) as file:
            _check(path, file.frames, file.samplerate)
            return file.read(dtype="float32", always_2d=True), file.samplerate, file.frames
    except soundfile.SoundFileError as error:
        raise ValueError(f"{path}: not a whole recording that can be read ({error})") from None


def _check(path: Path, promised: int, rate: int) -> None:
    if rate <= 0 or promised > LONGEST * rate:
        raise ValueError(f"{path}: {promised} samples at {rate} Hz are more than an hour, or its header is damaged")
