"""Fields of sound files, and how one is read: whole or not at all."""

# Shapes: N samples of a clip, c channels.

from __future__ import annotations

import struct
import wave
from pathlib import Path

import numpy as np
import torch

from zoo.data.bad import sentence
from zoo.data.field import Field
from zoo.data.files import regular, stored
from zoo.tokenizers import Waveform

LONGEST = 3600  # seconds
USUAL, FASTEST = 48_000, 768_000  # Hz: sound of higher rates may be as many samples, and none has a higher one
LOUDEST = 1_000_000  # where 1 is full scale, and 32,768 that of files that hold 16-bit values as floats
BLOCK = 2**20  # values that are decoded at once


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

    def name(self, i: int) -> str:
        return str(self.files[i])

    @property
    def lengths(self) -> torch.Tensor | None:
        """Bytes, which in files of one format go by the seconds."""
        return torch.tensor([stored([file]) for file in self.files])

    @property
    def size(self) -> int:
        return stored(self.files)


def read_audio(path: Path) -> Waveform:
    """A sound file as mono.  PCM in .wav needs no package, other formats need soundfile.

    Raises FileNotFoundError, or ValueError for what is not a whole recording of at most an hour (at more than 48 kHz:
    of as many samples) of finite values.
    """
    regular(path, "recording")
    try:
        samples, rate, promised = _read_wave(path)
    except (wave.Error, EOFError, RuntimeError):  # not PCM in .wav, or its parts are longer than the file
        samples, rate, promised = _read_other(path)
    if not len(samples) or len(samples) < promised:
        raise ValueError(f"{path}: holds {len(samples)} of the {promised} samples that its header promises")
    if not np.abs(samples).max() <= LOUDEST:  # nor where one is not a number
        raise ValueError(f"{path}: has values that are no sound: not a number, infinite or above {LOUDEST:,}")
    return Waveform(torch.from_numpy(samples), rate)


def _read_wave(path: Path) -> tuple[np.ndarray, int, int]:
    """((N,) float32 samples, rate, samples that the header promises)"""
    with wave.open(str(path), "rb") as file:
        channels, width, rate, promised = file.getparams()[:4]
        _check(path, promised, rate)
        there = path.stat().st_size // (channels * width)  # at most: what is asked for is set aside before it is read
        data = file.readframes(min(promised, there))
    data = data[: len(data) // (channels * width) * channels * width]
    if width == 1:  # the only width without a sign
        samples = np.frombuffer(data, np.uint8).astype(np.float32) / 128 - 1
    else:
        padded = np.zeros((len(data) // width, 4), np.uint8)  # to 32 bits, little-endian
        padded[:, 4 - width :] = np.frombuffer(data, np.uint8).reshape(-1, width)
        samples = padded.view("<i4")[:, 0].astype(np.float32) / 2**31
    return samples.reshape(-1, channels).mean(1, dtype=np.float32), rate, promised


def _read_other(path: Path) -> tuple[np.ndarray, int, int]:
    """Likewise, a block at a time, so that only what is there takes memory."""
    try:
        import soundfile
    except ImportError:
        raise ValueError(
            f"{path}: only PCM in .wav is read without soundfile: pip install lightning-zoo[audio]"
        ) from None
    _check_chunks(path)
    try:
        with soundfile.SoundFile(path) as file:
            promised, rate = file.frames, file.samplerate
            _check(path, promised, rate)
            size = max(1, BLOCK // file.channels)
            mono = [np.zeros(0, np.float32)]
            while len(block := file.read(size, dtype="float32", always_2d=True)):
                mono.append(block.mean(1, dtype=np.float32))
            return np.concatenate(mono), rate, promised
    except (soundfile.SoundFileError, TypeError, OverflowError) as error:  # the last two for impossible headers
        raise ValueError(f"{path}: not a whole recording that can be read ({sentence(error)})") from None


def _check(path: Path, promised: int, rate: int) -> None:
    if not 0 < rate <= FASTEST or promised > LONGEST * min(rate, USUAL):
        raise ValueError(f"{path}: {promised} samples at {rate} Hz are more than an hour, or its header is damaged")


def _check_chunks(path: Path) -> None:
    """Refuse a .wav whose header promises more sound than the file holds, of which soundfile reads what is there."""
    with open(path, "rb") as file:
        if file.read(4) != b"RIFF" or file.read(8)[4:] != b"WAVE":
            return
        left = path.stat().st_size - 12
        while len(head := file.read(8)) == 8:
            name, size = struct.unpack("<4sI", head)
            left -= 8
            if name == b"data" and size > left:
                raise ValueError(f"{path}: holds {left} of the {size} bytes of sound that its header promises")
            file.seek(size + size % 2, 1)
            left -= size + size % 2
