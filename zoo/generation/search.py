"""How the next token is chosen from what a model predicts, one token at a time."""

# Shapes: R sequences that still write, V vocabulary, F features a token.

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from zoo.described import Described
from zoo.generation.rules import Rule
from zoo.generation.warp import warped
from zoo.generation.writer import Writer
from zoo.generation.written import Written
from zoo.rng import sample_keys, uniform
from zoo.tokenizers import TextTokenizer, Tokenizer, Tokens


class Search(Described):
    """What a ``search`` slot takes: drives a ``Writer`` until all rows of ``written`` are over."""

    spare = 0  # tokens that it may take back after they were read

    def run(self, writer: Writer, written: Written, prediction: Tensor, rules: Sequence[Rule]) -> Iterator[None]:
        """``prediction`` (B, V) or (B, F) is that of the first new token; pauses whenever tokens were decided."""
        raise NotImplementedError


class OneByOne(Search):
    """Base of the searches that decide a token at every step."""

    def run(self, writer: Writer, written: Written, prediction: Tensor, rules: Sequence[Rule]) -> Iterator[None]:
        while True:
            token = self.choose(ruled(prediction, writer, written, rules), written)
            rows = written.add(token[:, None])
            yield
            if not written.active:
                return
            if rows is not None:
                writer.keep(rows)
                token = token[rows]
            prediction = writer.read(Tokens(token[:, None]))

    def choose(self, prediction: Tensor, written: Written) -> Tensor:
        """(R, V) logits -> (R,) ids, or (R, F) -> (R, F); also (R, T, V) -> (R, T), for the next T tokens."""
        raise NotImplementedError


class Greedy(OneByOne):
    """The likeliest token each time."""

    def choose(self, prediction: Tensor, written: Written) -> Tensor:
        return written.tokenizer.choose(prediction)


class Sample(OneByOne):
    """A token by chance: logits divided by ``temperature``, of which the ``top_k`` largest are left (Fan et al. 2018),
    the fewest that have ``top_p`` of the probability (Holtzman et al. 2019), and those with at least ``min_p`` of the
    likeliest's (Nguyen et al. 2024).

    The same ``seed`` draws the same tokens, for each prompt on its own: it does not matter what else is in its batch.
    Raises ValueError for values out of range, and for tokens that are numbers rather than a choice.
    """

    def __init__(
        self,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        seed: int = 0,
    ):
        warped(torch.zeros(1, 2), temperature, top_k, top_p, min_p)  # says what is out of range
        self.temperature, self.top_k, self.top_p, self.min_p, self.seed = temperature, top_k, top_p, min_p, seed

    def choose(self, prediction: Tensor, written: Written) -> Tensor:
        require_choice(written.tokenizer, "Sample")
        numbers = self.numbers(written, "token", 1 if prediction.dim() == 2 else prediction.size(1))
        return drawn(self.chances(prediction), numbers.view(prediction.shape[:-1]))

    def chances(self, logits: Tensor) -> Tensor:
        """(..., V) logits -> the probabilities (..., V) with which each is drawn."""
        flat = logits.float().flatten(0, -2)
        return warped(flat, self.temperature, self.top_k, self.top_p, self.min_p).softmax(-1).view_as(logits)

    def numbers(self, written: Written, purpose: str, count: int = 1) -> Tensor:
        """(R, count) in [0, 1): for each row one for each of its next tokens."""
        places, rows = written.count + torch.arange(count), len(written.numbers)
        keys = sample_keys(self.seed, places.repeat(rows), written.numbers.repeat_interleave(count))
        return uniform(keys, stream=purpose).view(rows, count)


def ruled(prediction: Tensor, writer: Writer, written: Written, rules: Sequence[Rule], undecided: int = 0) -> Tensor:
    """(R, V) logits as the rules leave them, or (R, T, V) those that follow each of the last T tokens read.  Of the
    tokens that the writer has read, the last so many are ``undecided``."""
    if not rules:
        return prediction
    require_choice(written.tokenizer, type(rules[0]).__name__)
    history = writer.history
    assert history is not None
    each = prediction.float().view(len(prediction), -1, prediction.size(-1))
    start, found = history.size(1) - written.count - undecided, []
    for end, logits in enumerate(each.unbind(1), history.size(1) - each.size(1) + 1):
        for rule in rules:
            logits = rule(logits, history[:, :end], start)
        found.append(logits)
    return torch.stack(found, 1).view_as(prediction)


def drawn(chances: Tensor, numbers: Tensor) -> Tensor:
    """(..., V) probabilities, (...) numbers in [0, 1) -> (...): the first token at which their sum passes one."""
    total = chances.double().cumsum(-1)
    mark = numbers.to(total)[..., None] * total[..., -1:]
    return (total <= mark).sum(-1).clamp(max=chances.size(-1) - 1)


def require_choice(tokenizer: Tokenizer, what: str) -> None:
    """Raise ValueError where tokens are features."""
    if not isinstance(tokenizer, TextTokenizer):
        raise ValueError(
            f"{type(tokenizer).__name__} predicts numbers and no chances, so {what} has nothing to choose from; "
            "use Greedy"
        )
