"""What changes the logits of the next token before one is chosen: repetitions, forbidden tokens and forced ones."""

# Shapes: R sequences, V vocabulary, S tokens so far, W n-grams in them.

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.described import Described


class Rule(Described):
    """What a ``rules`` slot takes: logits, or log-probabilities where a beam search adds them up, before the choice."""

    def __call__(self, logits: Tensor, history: Tensor, start: int) -> Tensor:
        """(R, V) logits -> (R, V), new ones where something changes.  ``history`` (R, S) are the ids that the decoder
        has read and written, where -1 is padding and counts as nothing; the first ``start`` of them were given."""
        raise NotImplementedError


class RepetitionPenalty(Rule):
    """The logits of tokens that stood already are divided by ``penalty``, negative ones multiplied (Keskar et al.
    2019); below 1 they are favoured instead.  Raises ValueError where it is not above 0."""

    def __init__(self, penalty: float):
        if not 0 < penalty < math.inf:
            raise ValueError(f"penalty={penalty} is not above 0; 1.2 is usual, and 1.0 changes nothing")
        self.penalty = penalty

    def __call__(self, logits: Tensor, history: Tensor, start: int) -> Tensor:
        size = logits.size(-1)
        stood = torch.where((history < 0) | (history >= size), size, history)
        logits = torch.nn.functional.pad(logits, (0, 1))  # the last column is for what is no token
        found = logits.gather(1, stood)
        found = torch.where(found < 0, found * self.penalty, found / self.penalty)
        return logits.scatter(1, stood, found)[:, :size]


class NoRepeat(Rule):
    """No ``size`` tokens in a row that stood already, the prompt's included (Paulus et al. 2017).  Raises ValueError
    for a size below 1."""

    def __init__(self, size: int):
        if size < 1:
            raise ValueError(f"size={size} is no number of tokens in a row; 1 is the least")
        self.size = size

    def __call__(self, logits: Tensor, history: Tensor, start: int) -> Tensor:
        length, size = history.size(1), logits.size(-1)
        if length < self.size:
            return logits
        count = length - self.size + 1  # n-grams so far; the next one, without its last token, begins here as well
        last = history[:, self.size - 1 :]  # (R, W) the last token of each
        repeats = (last >= 0) & (last < size)
        for place in range(self.size - 1):
            repeats = repeats & (history[:, place : place + count] == history[:, count + place, None])
        if not repeats.any():
            return logits
        last = torch.where(repeats, last, size)  # the last column is for what is no token
        forbidden = torch.zeros(len(logits), size + 1, dtype=torch.bool, device=logits.device)
        return logits.masked_fill(forbidden.scatter(1, last, True)[:, :size], -math.inf)


class Suppress(Rule):
    """These tokens never.  Raises ValueError where one is no id."""

    def __init__(self, tokens: Sequence[int]):
        self.tokens = ids(tokens)

    def __call__(self, logits: Tensor, history: Tensor, start: int) -> Tensor:
        return without(logits, self.tokens)


class SuppressFirst(Rule):
    """These tokens not as the first, or not after ``after`` new tokens that are forced.  Raises ValueError as
    ``Suppress`` does."""

    def __init__(self, tokens: Sequence[int], after: int = 0):
        self.tokens, self.after = ids(tokens), step_number("after", after)

    def __call__(self, logits: Tensor, history: Tensor, start: int) -> Tensor:
        return without(logits, self.tokens) if history.size(1) - start == self.after else logits


class MinLength(Rule):
    """``tokens``, those that end a text, not before ``length`` new ones stand.  Raises ValueError as ``Suppress``
    does."""

    def __init__(self, length: int, tokens: Sequence[int]):
        self.length, self.tokens = step_number("length", length), ids(tokens)

    def __call__(self, logits: Tensor, history: Tensor, start: int) -> Tensor:
        return without(logits, self.tokens) if history.size(1) - start < self.length else logits


class MinTotal(Rule):
    """The same where the tokens that were given count as well."""

    def __init__(self, length: int, tokens: Sequence[int]):
        self.length, self.tokens = step_number("length", length), ids(tokens)

    def __call__(self, logits: Tensor, history: Tensor, start: int) -> Tensor:
        if history.size(1) - start >= self.length:
            return logits
        short = (history >= 0).sum(1, keepdim=True) < self.length  # (R, 1)
        return torch.where(short, without(logits, self.tokens), logits)


class Force(Rule):
    """``token`` and no other, after ``step`` new tokens.  Raises ValueError where it is no id of the vocabulary."""

    def __init__(self, token: int, step: int = 0):
        self.tokens, self.step = ids([token]), step_number("step", step)

    def __call__(self, logits: Tensor, history: Tensor, start: int) -> Tensor:
        return certain(logits, self.tokens) if history.size(1) - start == self.step else logits


class ForceLast(Rule):
    """One of ``tokens``, which are equally likely then, as the last of ``length`` new ones.  Raises ValueError as
    ``Force`` does."""

    def __init__(self, length: int, tokens: Sequence[int]):
        self.length, self.tokens = step_number("length", length), ids(tokens)

    def __call__(self, logits: Tensor, history: Tensor, start: int) -> Tensor:
        return certain(logits, self.tokens) if history.size(1) - start == self.length - 1 else logits


class OneOf(Rule):
    """Only ``tokens`` can stand after ``step`` new ones, as likely as they are: of all languages, the one that a model
    hears.  Raises ValueError as ``Force`` does."""

    def __init__(self, tokens: Sequence[int], step: int = 0):
        self.tokens, self.step = ids(tokens), step_number("step", step)

    def __call__(self, logits: Tensor, history: Tensor, start: int) -> Tensor:
        return logits + certain(logits, self.tokens) if history.size(1) - start == self.step else logits


class Renormalise(Rule):
    """Log-probabilities that sum to 1 again after the rules before it; beams compare their sums."""

    def __call__(self, logits: Tensor, history: Tensor, start: int) -> Tensor:
        return logits.log_softmax(-1)


def without(logits: Tensor, tokens: tuple[int, ...]) -> Tensor:
    """Logits with -inf at these ids."""
    return logits.index_fill(1, places(tokens, logits.size(-1), logits.device), -math.inf)


def certain(logits: Tensor, tokens: tuple[int, ...]) -> Tensor:
    """-inf everywhere, and 0 at these ids.  Raises ValueError for one that is not in the vocabulary."""
    if max(tokens) >= logits.size(-1):
        raise ValueError(f"the token {max(tokens)} cannot be forced, for the vocabulary has {logits.size(-1)} ids")
    known = places(tokens, logits.size(-1), logits.device)
    return torch.full_like(logits, -math.inf).index_fill(1, known, 0.0)


@functools.lru_cache(maxsize=256)
def places(tokens: tuple[int, ...], size: int, device: torch.device) -> Tensor:
    """Those of the ids that are below ``size``; kept, for they are asked for at every token."""
    with torch.inference_mode(False):  # what is kept may be needed outside of it as well
        return torch.tensor([token for token in tokens if token < size], dtype=torch.long, device=device)


def ids(tokens: Sequence[int]) -> tuple[int, ...]:
    wrong = [token for token in tokens if isinstance(token, bool) or not isinstance(token, int) or token < 0]
    if wrong or not tokens:
        what = f"{wrong[0]!r} is no token id" if wrong else "there is none"
        raise ValueError(f"tokens={list(tokens)!r}: {what}; give numbers from 0 on")
    return tuple(tokens)


def step_number(name: str, value: int) -> int:
    if value < 0:
        raise ValueError(f"{name}={value} is below 0, and counts tokens")
    return value
