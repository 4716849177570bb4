"""Guesses at tokens that need no training: from counts, means and neighbours."""

# Shapes: B batch, T tokens, F features a token, V vocabulary.

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.tasks import MaskedLM, Seq2Seq
from zoo.tokenizers import Batch, Tokens

Guess = Callable[[Batch, Tokens, Tensor], Tensor]  # batch, its sequence, (B, T) chosen -> (B, T, V) or (B, T, F)


def sequence(task, batch: Batch) -> Tokens:
    """What the task predicts the tokens of."""
    return batch.target if isinstance(task, Seq2Seq) else batch.input


# ---- text: log probabilities


def unigram(train: list[Tokens], vocabulary: int) -> Tensor:
    """(V,) log probabilities: counts plus one."""
    counts = sum(torch.bincount(tokens.value[tokens.real], minlength=vocabulary) for tokens in train) + 1
    return (counts / counts.sum()).log()


def bigram(train: list[Tokens], vocabulary: int) -> Tensor:
    """(V, V) log probabilities of the next token, interpolated with the unigram (Witten & Bell 1991): what follows a
    token c times, with t different tokens, has the weight c / (c + t)."""
    counts = torch.zeros(vocabulary * vocabulary)
    for tokens in train:
        pairs = tokens.value[:, :-1] * vocabulary + tokens.value[:, 1:]
        counts += torch.bincount(pairs[tokens.real[:, 1:]], minlength=vocabulary * vocabulary)
    counts = counts.view(vocabulary, vocabulary)
    kinds = (counts > 0).sum(1, keepdim=True).clamp(min=1)
    return ((counts + kinds * unigram(train, vocabulary).exp()) / (counts.sum(1, keepdim=True) + kinds)).log()


def text_guesses(task, train: list[Tokens], vocabulary: int) -> Iterator[tuple[str, Guess]]:
    single, double = unigram(train, vocabulary), bigram(train, vocabulary)

    def following(batch: Batch, tokens: Tokens, chosen: Tensor) -> Tensor:
        first = single.expand(len(tokens), 1, -1)
        return torch.cat((first, double[tokens.value[:, :-1]]), 1)

    def between(batch: Batch, tokens: Tokens, chosen: Tensor) -> Tensor:
        """p(token | left) p(right | token), where the neighbours can be seen."""
        sees = tokens.real & ~chosen
        left = torch.where(sees[:, :-1, None], double[tokens.value[:, :-1]], single)
        right = torch.where(sees[:, 1:, None], double.T[tokens.value[:, 1:]], 0.0)
        return torch.cat((single.expand(len(left), 1, -1), left), 1) + F.pad(right, (0, 0, 0, 1))

    yield "uniform", lambda batch, tokens, chosen: torch.zeros(vocabulary).expand(*chosen.shape, -1)
    yield "unigram", lambda batch, tokens, chosen: single.expand(*chosen.shape, -1)
    yield ("bigrams with both neighbours", between) if isinstance(task, MaskedLM) else ("bigram", following)


# ---- images and sound: features


def mean_token(train: list[Tokens]) -> Tensor:
    """(F,)"""
    return torch.cat([tokens.value[tokens.real] for tokens in train]).mean(0)


def mean_at(train: list[Tokens]) -> Tensor:
    """(T, F) the mean of the tokens at each position."""
    size = max(tokens.value.size(1) for tokens in train)
    total, count = torch.zeros(size, train[0].value.size(2)), torch.zeros(size, 1)
    for tokens in train:
        total[: tokens.value.size(1)] += tokens.value.masked_fill(~tokens.real[..., None], 0).sum(0)
        count[: tokens.value.size(1), 0] += tokens.real.sum(0)
    return total / count


def linear(train: list[Tokens]) -> tuple[Tensor, Tensor]:
    """(F, F) and (F,): the next token from the one before, by least squares with a trace of ridge."""
    x = torch.cat([tokens.value[:, :-1][tokens.real[:, 1:]] for tokens in train]).double()
    y = torch.cat([tokens.value[:, 1:][tokens.real[:, 1:]] for tokens in train]).double()
    x = F.pad(x, (0, 1), value=1.0)
    ridge = 1e-3 * torch.eye(x.size(1), dtype=x.dtype)  # features that never change, such as black corners
    solution = torch.linalg.solve(x.T @ x + ridge, x.T @ y).float()
    return solution[:-1], solution[-1]


def neighbours(value: Tensor, visible: Tensor, grid: tuple[int, int], otherwise: Tensor) -> Tensor:
    """The mean of the visible patches to the left, right, above and below; otherwise ``otherwise`` (T, F)."""
    weight = visible[..., None].float()
    image = torch.cat((value * weight, weight), 2).unflatten(1, grid)  # (B, rows, columns, F + 1)
    image = F.pad(image, (0, 0, 1, 1, 1, 1))
    around = image[:, 1:-1, :-2] + image[:, 1:-1, 2:] + image[:, :-2, 1:-1] + image[:, 2:, 1:-1]
    total, count = around.flatten(1, 2).split((value.size(2), 1), 2)
    return torch.where(count > 0, total / count.clamp(min=1), otherwise)


def between_visible(value: Tensor, visible: Tensor, nearest: bool) -> Tensor:
    """(B, T, F): a straight line between the visible tokens before and after, or the nearer of the two."""
    place = torch.arange(visible.size(1)).expand_as(visible)
    before = place.masked_fill(~visible, -1).cummax(1).values
    after = place.masked_fill(~visible, 10**6).flip(1).cummin(1).values.flip(1)
    has = (before >= 0), (after < 10**6)
    before, after = torch.where(has[0], before, after), torch.where(has[1], after, before)
    share = (place - before) / (after - before).clamp(min=1)
    share = (share > 0.5).float() if nearest else share
    rows = torch.arange(len(value))[:, None]
    left, right = (value[rows, where.clamp(0, value.size(1) - 1)] for where in (before, after))
    return torch.lerp(left, right, share[..., None])


def gaussian(train: list[Tokens], ridge: float = 0.05) -> Callable[[Tensor, Tensor], Tensor]:
    """The best linear guess from all that is visible, for sequences of one length: (T, F) values, (T,) visible ->
    (T, F), the conditional mean of a normal distribution with the training's mean and covariance."""
    x = torch.cat([tokens.value for tokens in train]).flatten(1).double()  # (M, T F)
    mean, features = x.mean(0), train[0].value.size(2)
    covariance = x.T.cov() + ridge * torch.eye(x.size(1), dtype=x.dtype)

    def guess(value: Tensor, visible: Tensor) -> Tensor:
        seen = visible.repeat_interleave(features)
        error = (value.flatten() - mean)[seen]
        told = covariance[:, seen] @ torch.linalg.solve(covariance[seen][:, seen], error)
        return (mean + told).float().view_as(value)

    return guess


def feature_guesses(task, train: list[Batch]) -> Iterator[tuple[str, Guess]]:
    sequences = [sequence(task, batch) for batch in train]
    mean, means = mean_token(sequences), mean_at(sequences)
    grid = getattr(task.target_tokenizer or task.tokenizer, "grid", None)  # of images

    def positions(batch: Batch, tokens: Tokens, chosen: Tensor) -> Tensor:
        """Beyond the longest sequence of the training, the last mean."""
        place = torch.arange(chosen.size(1)).clamp(max=len(means) - 1)
        return means[place].expand_as(tokens.value)

    def earlier(by: int) -> Guess:
        """The token ``by`` places before; where there is none, the mean at the position."""
        return lambda batch, tokens, chosen: torch.cat(
            (positions(batch, tokens, chosen)[:, :by], tokens.value[:, :-by]), 1
        )

    def visible(batch: Batch, tokens: Tokens, chosen: Tensor) -> Tensor:
        return neighbours(tokens.value, ~chosen, grid, means)

    def conditional(batch: Batch, tokens: Tokens, chosen: Tensor) -> Tensor:
        guess, length = gaussian(sequences), chosen.size(1)
        if isinstance(task, MaskedLM):
            return torch.stack([guess(*pair) for pair in zip(tokens.value, ~chosen)])
        before = torch.ones(length, length).tril(-1).bool()  # (T, T) row t: what is known when t is guessed
        return torch.stack([torch.stack([guess(v, before[t])[t] for t in range(length)]) for v in tokens.value])

    def along(nearest: bool) -> Guess:
        return lambda batch, tokens, chosen: between_visible(tokens.value, tokens.real & ~chosen, nearest)

    yield "mean token", lambda batch, tokens, chosen: mean.expand_as(tokens.value)
    yield "mean token at the position", positions
    if isinstance(task, MaskedLM):
        if grid:
            yield "mean of the visible neighbours", visible
            yield "linear in all visible tokens", conditional
        else:
            yield "nearest visible token", along(nearest=True)
            yield "line between visible tokens", along(nearest=False)
        return
    yield "previous token", earlier(1)
    if grid:
        yield "token above", earlier(grid[1])
        yield "linear in all earlier tokens", conditional
    matrix, bias = linear(sequences)
    yield (
        "linear in the previous token",
        lambda batch, tokens, chosen: torch.cat(
            (positions(batch, tokens, chosen)[:, :1], tokens.value[:, :-1] @ matrix + bias), 1
        ),
    )
    if isinstance(task, Seq2Seq) and grid:
        known = by_source(task, train)
        yield (
            "mean image of the same text",
            lambda batch, tokens, chosen: torch.stack([known.get(text, means) for text in sources(task, batch)]),
        )


def sources(task, batch: Batch) -> list[str]:
    return [task.tokenizer.decode(row[real]) for row, real in zip(batch.input.value, batch.input.real)]


def by_source(task, train: list[Batch]) -> dict[str, Tensor]:
    """Source text -> (T, F) the mean of the targets that it has."""
    groups: dict[str, list[Tensor]] = {}
    for batch in train:
        for text, target in zip(sources(task, batch), batch.target.value):
            groups.setdefault(text, []).append(target)
    return {text: torch.stack(targets).mean(0) for text, targets in groups.items()}
