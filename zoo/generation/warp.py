"""From logits to those that may be drawn: temperature, and the tokens that are too unlikely taken out."""

# Shapes: R sequences, V vocabulary, K the likeliest tokens.

from __future__ import annotations

import math

import torch
from torch import Tensor

LIKELY = 1024  # tokens that have most of the probability, mostly


def warped(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
) -> Tensor:
    """(R, V) logits -> (R, V), after each that is given, in this order.  Raises ValueError as they do."""
    logits = temperature_scaled(logits, temperature)
    if top_k is not None:
        logits = only_top_k(logits, top_k)
    if top_p is not None:
        logits = only_top_p(logits, top_p, min(LIKELY, top_k or LIKELY))
    return logits if min_p is None else only_min_p(logits, min_p)


def temperature_scaled(logits: Tensor, temperature: float) -> Tensor:
    """Logits divided by a temperature: below 1 the likely become likelier.  Raises ValueError where it is not above
    0."""
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature={temperature} is not above 0; Greedy takes the likeliest token")
    return logits if temperature == 1 else logits / temperature


def only_top_k(logits: Tensor, count: int) -> Tensor:
    """The ``count`` largest, and what equals the last of them; -inf elsewhere (Fan et al. 2018).  Raises ValueError
    where that is none."""
    if count < 1:
        raise ValueError(f"top_k={count} leaves no token; 1 is the least")
    least = logits.topk(min(count, logits.size(-1))).values[:, -1:]  # (R, 1)
    return logits.masked_fill(logits < least, -math.inf)


def only_top_p(logits: Tensor, share: float, likely: int = LIKELY) -> Tensor:
    """The fewest tokens that have ``share`` of the probability together; -inf elsewhere (Holtzman et al. 2019).  Only
    the ``likely`` largest are sorted, where they are enough.  Raises ValueError where that is no share."""
    if not 0 <= share <= 1:
        raise ValueError(f"top_p={share} is no share of the probability; give a number from 0 to 1")
    if share == 1:
        return logits
    values, places = logits.topk(min(likely, logits.size(-1)))  # (R, K)
    chances = (values.double() - logits.double().logsumexp(-1, keepdim=True)).exp()
    sums = chances.cumsum(-1)
    if values.size(1) < logits.size(-1) and bool((sums[:, -1] < share).any()):
        return only_top_p(logits, share, logits.size(-1))
    more = sums - chances >= share  # those before it are enough already
    more[:, 0] = False
    return torch.full_like(logits, -math.inf).scatter(1, places, values.masked_fill(more, -math.inf))


def only_min_p(logits: Tensor, share: float) -> Tensor:
    """The tokens with at least ``share`` of the likeliest's probability; -inf elsewhere (Nguyen et al. 2024).  Raises
    ValueError where that is no share."""
    if not 0 <= share <= 1:
        raise ValueError(f"min_p={share} is no share of the likeliest's probability; give a number from 0 to 1")
    chances = logits.softmax(-1)
    return logits.masked_fill(chances < share * chances.amax(-1, keepdim=True), -math.inf)
