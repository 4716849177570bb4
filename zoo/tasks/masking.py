"""Which tokens a masked model has to guess."""

# Shapes: B batch, T tokens.

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.described import Described
from zoo.rng import uniform


class Masking(Described):
    """What a ``masking`` slot takes: ``real`` (B, T), ``keys`` (B,) -> (B, T) True where a token is to be hidden.

    A pure function of the samples' keys: validation hides the same tokens every time.
    """

    def __call__(self, real: Tensor, keys: Tensor) -> Tensor:
        raise NotImplementedError


class RandomMasking(Masking):
    """A share ``rate`` of each sample's tokens, at least one (BERT: 0.15; SimMIM: 0.6; MAE: 0.75)."""

    def __init__(self, rate: float = 0.15):
        self.rate = proper(rate)

    def __call__(self, real: Tensor, keys: Tensor) -> Tensor:
        noise = uniform(keys, real.size(1), stream="mask").masked_fill(~real, 2.0)
        count = (real.sum(1, keepdim=True) * self.rate).round().clamp(min=1)
        return (noise.argsort(1).argsort(1) < count) & real


class SpanMasking(Masking):
    """Spans of ``span`` tokens, together about a share ``rate`` (SpanBERT, Joshi et al. 2019; wav2vec 2.0): for tokens
    that a neighbour gives away, such as spectrogram frames."""

    def __init__(self, rate: float = 0.3, span: int = 5):
        self.rate, self.span = proper(rate), span
        if span < 1:
            raise ValueError(f"span={span} hides nothing; 1 is the least")

    def __call__(self, real: Tensor, keys: Tensor) -> Tensor:
        noise = uniform(keys, real.size(1), stream="mask").masked_fill(~real, 2.0)
        count = (real.sum(1, keepdim=True) * self.rate / self.span).round().clamp(min=1)
        starts = (noise.argsort(1).argsort(1) < count) & real
        spread = F.max_pool1d(F.pad(starts.float()[:, None], (self.span - 1, 0)), self.span, 1)[:, 0]
        return (spread > 0) & real


def proper(rate: float) -> float:
    if not 0 < rate < 1:
        raise ValueError(f"rate={rate} must lie between 0 and 1: that share of the tokens is hidden")
    return rate


def fresh_keys(batch: int, device: torch.device) -> Tensor:
    """(B,) keys for batches that bring none."""
    return torch.randint(2**62, (batch,), device=device)
