"""Audio as a sequence of spectrogram frames."""

# Shapes: B batch, N samples, n spectrogram frames, m mel bands, k frames a token, T = n / k tokens, F = k m, D width.

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
import torchaudio.functional
from torch import Tensor, nn

from zoo.tokenizers.embed import FeatureEmbed, FeatureTokenizer
from zoo.tokenizers.spectrogram import LogMel, Spectrogram

FILTERS = 2**23  # values of the filters that resample, which are many where two rates share no large factor


class Waveform(NamedTuple):
    """Mono sound."""

    samples: Tensor  # (N,) float32 in [-1, 1]
    rate: int  # Hz


class FrameStem(FeatureEmbed):
    """What ``Frames``' ``stem`` slot takes: built as ``stem(dim, tokenizer)``."""


class ConvFrames(FrameStem):
    """Two convolutions of width 3 over time, the second with a stride: Whisper's stem (Radford et al. 2022)."""

    def __init__(self, dim: int, tokenizer: "Frames", stride: int = 2):
        super().__init__(dim)
        self.stride = stride
        self.inward = nn.Conv1d(tokenizer.features, dim, 3, padding=1)
        self.onward = nn.Conv1d(dim, dim, 3, stride, padding=1)

    def project(self, value: Tensor, padding: Tensor | None) -> Tensor:
        x = F.gelu(self.inward(value.mT))
        x = x if padding is None else x.masked_fill(~padding[:, None], 0.0)  # as the border of a longer batch is
        return F.gelu(self.onward(x)).mT

    def padding(self, padding: Tensor | None) -> Tensor | None:
        return None if padding is None else padding[:, :: self.stride]


class PatchFrames(FrameStem):
    """Squares of ``patch`` bands and frames, one every ``stride`` = [bands, frames], as tokens in the order of a grid
    of bands down and time across: the Audio Spectrogram Transformer's stem (Gong et al. 2021).

    The number of frames must be fixed (``KaldiLogMel(frames=1024)``), for the tokens have a grid of positions.
    """

    def __init__(self, dim: int, tokenizer: "Frames", patch: int = 16, stride: list[int] | int = 10):
        super().__init__(dim)
        self.stride = patch  # tokens are no frames
        steps = (stride, stride) if isinstance(stride, int) else tuple(stride)
        self.projection = nn.Conv2d(1, dim, patch, steps)

    def project(self, value: Tensor, padding: Tensor | None) -> Tensor:
        x = self.projection(value.mT[:, None])  # (B, T, m) -> (B, D, down, across)
        return x.flatten(2).mT  # (B, down across, D)

    def padding(self, padding: Tensor | None) -> None:
        return None


class Frames(FeatureTokenizer):
    """Sound as log-mel spectrogram frames, ``stack`` consecutive ones a token.

    Sound of any sample rate is resampled to the spectrogram's.  Predictions are scored by their mean squared error on
    log-mel values.

    ``stem`` embeds the tokens: a linear map if not given; ``ConvFrames`` merges neighbours on the way, which suits
    reading (``Classify``, the source of ``Seq2Seq``) but not predicting each token.
    """

    modality = "audio"
    unit = "frames"

    def __init__(
        self,
        spectrogram: Spectrogram = LogMel(),
        stack: int = 1,
        stem: Callable[[int, "Frames"], FrameStem] | None = None,
    ):
        if stack < 1:
            raise ValueError(f"stack={stack} frames cannot make a token; 1 is the least")
        self.spectrogram, self.stack, self.stem = spectrogram, stack, stem
        self.features, self.period = stack * spectrogram.mels, spectrogram.period

    def encode(self, raw: Waveform) -> Tensor:
        """(N,) samples -> (T, F); the last token is filled up with the last frame."""
        samples, rate = raw
        if rate <= 0:
            raise ValueError(f"a sample rate of {rate} Hz is impossible; check the file's header")
        if not len(samples):
            raise ValueError("a sound without samples cannot be encoded")
        shared = math.gcd(rate, self.spectrogram.rate)
        if rate * self.spectrogram.rate // shared**2 > FILTERS:
            raise ValueError(f"a sample rate of {rate} Hz is not one that {self.spectrogram.rate} Hz can be made of")
        if rate != self.spectrogram.rate:
            samples = torchaudio.functional.resample(samples, rate, self.spectrogram.rate)
        if len(samples) < self.spectrogram.rate // 20:  # shorter than any window: silence up to 50 ms
            samples = F.pad(samples, (0, self.spectrogram.rate // 20 - len(samples)))
        frames = self.spectrogram(samples)  # (n, m)
        missing = -len(frames) % self.stack
        frames = torch.cat((frames, frames[-1:].expand(missing, -1)))
        return frames.reshape(-1, self.features)

    def decode(self, value: Tensor) -> Tensor:
        """(T, F) -> (n, m), the spectrogram."""
        return value.reshape(-1, self.spectrogram.mels)

    def regarded(self, value: Tensor, weights: Tensor) -> dict[str, tuple[Tensor, Tensor | None]]:
        """The spectrogram with a curve for the mean of the heads and one for each."""
        over = torch.cat((weights.mean(0, keepdim=True), weights))
        return {"sound, and the weight of each moment; black: the mean of the heads": (self.decode(value), over)}

    def listen(self, value: Tensor) -> Waveform:
        """(T, F) -> sound, with guessed phases."""
        return Waveform(self.spectrogram.invert(self.decode(value)), self.spectrogram.rate)
