"""Waveforms to log-mel spectrograms and back; one class a published recipe."""

# Shapes: N samples, n spectrogram frames, m mel bands.

import functools
from typing import Literal

import torch
import torch.nn.functional as F
import torchaudio.compliance.kaldi as kaldi
import torchaudio.transforms as transforms
from torch import Tensor
from torchaudio.functional import melscale_fbanks

from zoo.described import Described

Scale = Literal["htk", "slaney"]


class Spectrogram(Described):
    """What ``Frames``' ``spectrogram`` slot takes: (N,) samples at ``rate`` Hz -> (n, ``mels``) values around 0."""

    rate: int
    mels: int
    period: float | None = None  # seconds from one frame to the next, where they are known

    def __call__(self, samples: Tensor) -> Tensor:
        raise NotImplementedError

    def invert(self, frames: Tensor) -> Tensor:
        """(n, m) -> (N,) samples, by Griffin-Lim (Griffin & Lim 1984): the phases are guessed."""
        raise NotImplementedError("this spectrogram cannot be turned into sound")


class MelPower:
    """(N,) samples -> (n, m) power in mel bands, as torchaudio's ``MelSpectrogram`` has it, in less time: it takes the
    root of each power and squares it again."""

    def __init__(
        self, rate: int, mels: int, window: int, hop: int, scale: Scale, norm: Literal["slaney"] | None = None
    ):
        self.hop, self.window = hop, torch.hann_window(window)
        self.filters = melscale_fbanks(window // 2 + 1, 0.0, rate // 2, mels, rate, norm, scale)  # (bins, m)

    def __call__(self, samples: Tensor) -> Tensor:
        length = len(self.window)
        frames = F.pad(samples[None], (length // 2, length // 2), mode="reflect")[0].unfold(0, length, self.hop)
        spectrum = torch.fft.rfft(frames * self.window)  # (n, bins)
        return (spectrum.real.square() + spectrum.imag.square()) @ self.filters


class LogMel(Spectrogram):
    """(ln(mel power + ``floor``) - ``mean``) / ``std``; windows of ``window`` samples every ``hop`` samples."""

    def __init__(
        self,
        rate: int = 16_000,
        mels: int = 80,
        window: int = 400,
        hop: int = 160,
        floor: float = 1e-6,
        mean: float = -6.0,
        std: float = 4.0,
        scale: Scale = "htk",
    ):
        self.rate, self.mels, self.window, self.hop = rate, mels, window, hop
        self.floor, self.mean, self.std, self.scale = floor, mean, std, scale
        self.period = hop / rate

    def __call__(self, samples: Tensor) -> Tensor:
        return ((self._power(samples) + self.floor).log() - self.mean) / self.std

    def invert(self, frames: Tensor) -> Tensor:
        power = ((frames.float().cpu() * self.std + self.mean).exp() - self.floor).clamp(min=0).mT
        bins = self.window // 2 + 1
        linear = transforms.InverseMelScale(bins, self.mels, self.rate, mel_scale=self.scale, driver="gelsd")(power)
        return transforms.GriffinLim(self.window, hop_length=self.hop, rand_init=False)(linear)

    @functools.cached_property
    def _power(self) -> "MelPower":
        return MelPower(self.rate, self.mels, self.window, self.hop, self.scale)


class MeanNormalised(Spectrogram):
    """Another spectrogram, each band less its mean over the clip and all divided by their deviation (cepstral mean
    normalisation, Atal 1974): what a voice, a microphone and a level do to a whole recording falls away."""

    def __init__(self, spectrogram: Spectrogram = LogMel()):
        self.spectrogram, self.rate, self.mels = spectrogram, spectrogram.rate, spectrogram.mels
        self.period = spectrogram.period

    def __call__(self, samples: Tensor) -> Tensor:
        frames = self.spectrogram(samples)
        frames = frames - frames.mean(0)
        return frames / frames.std().clamp(min=1e-3)


class WhisperLogMel(Spectrogram):
    """Whisper's (Radford et al. 2022): log10 of Slaney-scaled mel power, at least the peak - 8, (x + 4) / 4.

    Every sound is cut to ``seconds``, or filled up with silence to them (published: 30); None takes it as it is.
    """

    period = 0.01

    def __init__(self, mels: int = 80, seconds: float | None = None):
        self.rate, self.mels, self.seconds = 16_000, mels, seconds

    def __call__(self, samples: Tensor) -> Tensor:
        if self.seconds is not None:
            samples = F.pad(samples, (0, round(self.seconds * self.rate) - len(samples)))  # a negative pad cuts
        power = self._power(samples)[:-1]  # the published code drops the last frame
        x = power.clamp(min=1e-10).log10()
        return (x.clamp(min=x.max() - 8) + 4) / 4

    def invert(self, frames: Tensor) -> Tensor:
        power = (10 ** (frames.float().cpu() * 4 - 4)).mT
        linear = transforms.InverseMelScale(
            201, self.mels, self.rate, norm="slaney", mel_scale="slaney", driver="gelsd"
        )(power)
        return transforms.GriffinLim(400, hop_length=160, rand_init=False)(linear)

    @functools.cached_property
    def _power(self) -> "MelPower":
        return MelPower(self.rate, self.mels, 400, 160, "slaney", "slaney")


class KaldiLogMel(Spectrogram):
    """Kaldi's filter bank as the Audio Spectrogram Transformer uses it (Gong et al. 2021): 25 ms Hanning windows every
    10 ms, (x - ``mean``) / (2 ``std``).  ``frames`` is their number, where it is fixed: the rest is cut off, or zeros
    are put after them before all is normalised."""

    period = 0.01

    def __init__(
        self,
        rate: int = 16_000,
        mels: int = 128,
        mean: float = -4.2677393,
        std: float = 4.5689974,
        frames: int | None = None,
    ):
        self.rate, self.mels, self.mean, self.std, self.frames = rate, mels, mean, std, frames

    def __call__(self, samples: Tensor) -> Tensor:
        frames = kaldi.fbank(
            samples[None],
            sample_frequency=self.rate,
            num_mel_bins=self.mels,
            htk_compat=True,
            use_energy=False,
            window_type="hanning",
            dither=0.0,
        )
        if self.frames is not None:
            frames = F.pad(frames, (0, 0, 0, self.frames - len(frames)))  # a negative number cuts
        return (frames - self.mean) / (2 * self.std)
