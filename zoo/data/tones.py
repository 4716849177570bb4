"""Touch tones (DTMF, ITU-T Q.23), generated with the faults of a telephone line, and the classical way to read them."""

# Shapes: N samples of a clip, K keys of a clip, n frames.

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from zoo.data.field import Field
from zoo.rng import sample_keys, uniform
from zoo.tokenizers import Waveform

RATE = 8000  # Hz
LOW, HIGH = (697, 770, 852, 941), (1209, 1336, 1477)  # Hz, of the rows and the columns
KEYS = "123456789*0#"  # row by row
COUNTS = {"train": 2000, "val": 200, "test": 200}


@dataclass
class Tones(Field):
    """Clips of ``fewest`` to ``most`` keys; clip i is a pure function of (``seed``, ``split``, i)."""

    modality = "audio"

    split: str
    seed: int
    fewest: int
    most: int
    index: list[int]

    def __len__(self) -> int:
        return len(self.index)

    def take(self, index: list[int]) -> Field:
        return Tones(self.split, self.seed, self.fewest, self.most, [self.index[i] for i in index])

    def raw(self, index: list[int]) -> list[Waveform]:
        return [dial(self._key(i), self.keys(i)) for i in index]

    def keys(self, i: int) -> str:
        """What clip ``i`` dials."""
        key = self._key(i)
        count = self.fewest + int(uniform(key, stream="count") * (self.most - self.fewest + 1))
        return "".join(KEYS[int(u * len(KEYS))] for u in uniform(key, count, stream="keys")[0])

    def _key(self, i: int) -> Tensor:
        """(1,) the random key of a clip."""
        return sample_keys(self.seed, list(COUNTS).index(self.split), torch.tensor([self.index[i]]))

    @property
    def lengths(self) -> Tensor:
        return torch.tensor([len(self.keys(i)) for i in range(len(self))])

    @property
    def size(self) -> int:
        return self.seed


def tones(seed: int = 0, fewest: int = 3, most: int = 7) -> dict[str, Tones]:
    """The clips by split: 2,000 for training, 200 each for validation and test."""
    return {split: Tones(split, seed, fewest, most, list(range(count))) for split, count in COUNTS.items()}


def transcript(keys: str) -> str:
    """What is written for a clip: one word a key, so that word errors are key errors."""
    return " ".join(keys)


def dial(key: Tensor, keys: str) -> Waveform:
    """A clip in which ``keys`` are dialled, 8 kHz.

    By (1,) ``key`` vary: the speed (a key of 50 to 200 ms, a gap of 50 to 200 ms, each by 20 % within a clip), the
    level (-26 to -6 dB), the balance of the two frequencies (6 dB either way), each frequency (1.5 % either way), and
    noise that is 10 to 30 dB below the tones.
    """
    count = len(keys)
    speed = 0.05 + 0.15 * uniform(key, 2, stream="speed")[0]  # s: of a key and of a gap
    jitter = 0.8 + 0.4 * uniform(key, count + 1, 2, stream="jitter")[0]
    seconds = (speed * jitter).clamp(min=0.045)
    level, noise = uniform(key, 2, stream="level")[0]
    gain = 10 ** ((-26 + 20 * float(level)) / 20)
    twist = 10 ** ((uniform(key, count, stream="twist")[0] - 0.5) * 12 / 20)
    drift = 1 + 0.03 * (uniform(key, count, 2, stream="drift")[0] - 0.5)
    phase = 2 * math.pi * uniform(key, count, 2, stream="phase")[0]
    pieces = [torch.zeros(int(seconds[count, 1] * RATE))]
    for i, name in enumerate(keys):
        row, column = divmod(KEYS.index(name), len(HIGH))
        time = torch.arange(int(seconds[i, 0] * RATE)) / RATE
        low = torch.sin(2 * math.pi * LOW[row] * drift[i, 0] * time + phase[i, 0])
        high = torch.sin(2 * math.pi * HIGH[column] * drift[i, 1] * time + phase[i, 1])
        edge = (torch.minimum(time, time.flip(0)) / 0.003).clamp(max=1)  # on and off in 3 ms
        pieces += [gain * edge * (low / twist[i].sqrt() + high * twist[i].sqrt()) / 2]
        pieces += [torch.zeros(int(seconds[i, 1] * RATE))]
    clip = torch.cat(pieces)
    first, second = uniform(key, 2, len(clip), stream="noise")[0]
    normal = (-2 * torch.log1p(-first)).sqrt() * torch.cos(2 * math.pi * second)  # Box & Muller 1958
    below = 10 ** (-(10 + 20 * float(noise)) / 20)
    return Waveform((clip + gain / 2 * below * normal).clamp(-1, 1), RATE)


def goertzel(samples: Tensor, rate: int) -> str:
    """The keys that are dialled in (N,) ``samples``, by the energy at the seven frequencies (Goertzel 1958) in frames
    of 25 ms, 5 ms apart: a key is two strong frequencies that hold most of a frame's energy; a gap ends it."""
    width, hop = int(0.025 * rate), int(0.005 * rate)
    sound = samples.double().numpy()
    if len(sound) < width:
        return ""
    frames = np.lib.stride_tricks.sliding_window_view(sound, width)[::hop] * np.hanning(width)  # (n, width)
    wave = np.exp(-2j * np.pi * np.outer(np.arange(width) / rate, LOW + HIGH))
    power = np.abs(frames @ wave) ** 2  # (n, 7)
    low, high = power[:, : len(LOW)], power[:, len(LOW) :]
    total = (frames**2).sum(1) * np.hanning(width).sum() / 2  # the power of two pure tones of this energy
    share = (low.max(1) + high.max(1)) / np.maximum(total, 1e-12)
    loud = total > 0.05 * total.max()
    is_tone = loud & (share > 0.5) & (np.minimum(low.max(1), high.max(1)) > 0.05 * np.maximum(low.max(1), high.max(1)))
    found = np.where(is_tone, low.argmax(1) * len(HIGH) + high.argmax(1), -1)  # (n,)
    edges = np.flatnonzero(np.diff(found)) + 1
    runs = np.split(found, edges)
    return "".join(KEYS[run[0]] for run in runs if run[0] >= 0 and len(run) >= 3)
