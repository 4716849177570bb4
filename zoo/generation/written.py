"""What has been written so far: a sequence a row, who still writes, and why the others stopped."""

# Shapes: B sequences, R of them still writing, T tokens, n new tokens, F features a token.

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from zoo.generation.detokenize import TextStream
from zoo.tokenizers import TextTokenizer, Tokenizer

Reason = Literal["end", "stop", "length", "context"]


class Written:
    """B sequences, each of at most ``length`` tokens; one of ``ends`` (ids) ends it, or one of ``stops`` (strings),
    which its text then goes up to.

    ``prompts`` are what each goes on from, and ``first`` is the number of the first of them in a larger job.  ``cut``
    says that ``length`` is what the model has positions for rather than what was asked for.  ``source`` is what the
    model was asked to read, raw or as tokens.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompts: Sequence[Tensor],
        length: int,
        ends: Collection[int] = (),
        stops: Sequence[str] = (),
        first: int = 0,
        cut: bool = False,
        source: Any = None,
    ):
        self.tokenizer, self.prompts, self.length, self.cut = tokenizer, prompts, length, cut
        self.source = source
        self.ends, self.stops = frozenset(ends), tuple(stops)
        self.active = list(range(len(prompts)))  # the rows that still write
        self.numbers = torch.arange(first, first + len(prompts))  # (R,) of the active rows
        self.count = 0  # tokens that each of them has
        self.reasons: list[Reason | None] = [None] * len(prompts)
        self.scores: list[float | None] = [None] * len(prompts)  # where a search compares whole sequences
        self.proposed = self.accepted = 0  # tokens, where a draft proposes them
        self._parts: list[list[Tensor]] = [[] for _ in prompts]
        self._streams: dict[int, TextStream] = {}  # by row, made when a text is first asked for
        self._sizes = [0] * len(prompts)  # tokens of each row, those that its stream knows,
        self._told = [0] * len(prompts)
        self._given = [0] * len(prompts)  # and characters that ``news`` gave out

    # ---- for searches

    def add(self, new: Tensor) -> Tensor | None:
        """The next tokens of the active rows, (R, n) or (R, n, F): all of them count that do not come after an end.
        Which rows go on, as numbers below R, or None where all do."""
        count = min(new.size(1), self.length - self.count)
        watched = new.dim() == 2 and (self.ends or self.stops)
        ids = new.tolist() if watched else [[]] * len(new)
        going = []
        for place, row in enumerate(list(self.active)):
            taken, reason = self._ended(row, ids[place][:count], count)
            self._parts[row].append(new[place, :taken])
            self._sizes[row] += taken
            self.reasons[row] = reason
            if reason is None:
                going.append(place)
        self.count += count
        if len(going) == len(self.active):
            return None
        self.active = [self.active[place] for place in going]
        self.numbers = self.numbers[going]
        return torch.tensor(going, dtype=torch.long, device=new.device)

    def _ended(self, row: int, ids: list[int], count: int) -> tuple[int, Reason | None]:
        """How many of a row's new tokens count, and why it is over, if it is."""
        for place, token in enumerate(ids):
            if token in self.ends:
                return place + 1, "end"
            if self.stops and self._tell(row, [token]).stopped:
                return place + 1, "stop"
        if self.count + count < self.length:
            return count, None
        return count, "context" if self.cut else "length"

    def close(self, row: int, tokens: Tensor, reason: Reason, score: float | None = None) -> None:
        """A whole sequence at once, (T,), from a search that decides late."""
        self._parts[row], self.reasons[row], self.scores[row] = [tokens], reason, score
        self._sizes[row] = len(tokens)
        self.numbers = self.numbers[[other != row for other in self.active]]
        self.active.remove(row)
        if self.stops:
            self._tell(row, tokens.tolist())

    # ---- for readers

    @property
    def tokens(self) -> list[Tensor]:
        """The new tokens of each row: (T,) or (T, F), the one that ended it included."""
        empty = [prompt[:0] for prompt in self.prompts]
        return [torch.cat(parts) if parts else none for parts, none in zip(self._parts, empty, strict=True)]

    @property
    def outputs(self) -> list[Any]:
        """What the tokenizer makes of each row: the text that was added, or the image or spectrogram as a whole."""
        if not isinstance(self.tokenizer, TextTokenizer):
            return [self.tokenizer.decode(torch.cat(pair)) for pair in zip(self.prompts, self.tokens, strict=True)]
        return [self._stream(row, self.reasons[row] is not None).text for row in range(len(self.prompts))]

    def news(self, row: int) -> str:
        """The text of a row that became sure since the last call."""
        text = self._stream(row, self.reasons[row] is not None).text
        fresh, self._given[row] = text[self._given[row] :], len(text)
        return fresh

    @property
    def acceptance(self) -> float | None:
        """The share of proposed tokens that were taken, where a draft proposed some."""
        return self.accepted / self.proposed if self.proposed else None

    def _stream(self, row: int, whole: bool) -> TextStream:
        missing, count, last = self._sizes[row] - self._told[row], 0, []
        for part in reversed(self._parts[row]):  # the last ones only: a token costs the same in a long text
            if count >= missing:
                break
            last.append(part.tolist())
            count += len(part)
        fresh = [token for part in reversed(last) for token in part]
        stream = self._tell(row, fresh[count - missing :])
        if whole:
            stream.finish()
        return stream

    def _tell(self, row: int, tokens: list[int]) -> TextStream:
        if row not in self._streams:
            assert isinstance(self.tokenizer, TextTokenizer), "only texts are told piece by piece"
            self._streams[row] = TextStream(self.tokenizer, self.prompts[row], self.stops)
        self._streams[row].push(tokens)
        self._told[row] += len(tokens)
        return self._streams[row]
