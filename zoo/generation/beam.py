"""Beam search: several beginnings of a text go on side by side, and the likeliest text wins."""

# Shapes: A rows that still write, W beams of each, K candidates of each, V vocabulary, T new tokens so far.

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from zoo.generation.detokenize import TextStream
from zoo.generation.rules import Rule
from zoo.generation.search import Greedy, Search, require_choice, ruled
from zoo.generation.writer import Writer
from zoo.generation.written import Reason, Written
from zoo.tokenizers import TextTokenizer, Tokens


class Beam(Search):
    """The best text that ``width`` beams come across (Lowerre 1976; Sutskever et al. 2014): each step keeps the
    ``width`` likeliest beginnings.  The score of a text, which ``Written.scores`` tells, is the sum of its tokens'
    log-probabilities, as the rules leave them, divided by T^length_penalty, where T counts the new tokens with the one
    that ended it: above 0 favours long texts, below 0 short ones.

    A text is finished by an end, or by the token that completes a stop string, where it is then among the ``width``
    best; otherwise it is dropped.  A row is over at its length; or, once it has ``width`` finished texts, at once if
    ``early_stopping`` is True, and else as soon as the best beginning does not beat the worst of them: as it stands
    (False), or if it kept its sum up to the row's length ("never", where the penalty is above 0).  Where the rules
    leave no token, a row without a finished text ends with what it has.

    A width of 1 is ``Greedy``, and gives no score.  Nothing is decided before a row is over, so a stream gives its
    whole text at the end.  Raises ValueError for values out of range, and for tokens that are numbers rather than a
    choice.
    """

    def __init__(self, width: int = 4, length_penalty: float = 1.0, early_stopping: bool | Literal["never"] = False):
        if width < 1:
            raise ValueError(f"width={width} is no number of beams; 4 is usual, and 1 is Greedy")
        if not math.isfinite(length_penalty):
            raise ValueError(f"length_penalty={length_penalty} is no number; 1.0 is usual, and 0.0 leaves sums alone")
        if early_stopping != "never" and not isinstance(early_stopping, bool):
            raise ValueError(f"early_stopping={early_stopping!r} is none of false, true and 'never'")
        self.width, self.length_penalty, self.early_stopping = width, length_penalty, early_stopping

    def run(self, writer: Writer, written: Written, prediction: Tensor, rules: Sequence[Rule]) -> Iterator[None]:
        require_choice(written.tokenizer, "Beam")
        if self.width == 1:
            yield from Greedy().run(writer, written, prediction, rules)
            return
        beams = Beams(self, written, prediction.device)
        while True:
            chances = ruled(prediction.float().log_softmax(-1), writer, written, rules)
            assert writer.history is not None
            before = len(written.active)
            rows, token = beams.step(chances, writer.history[:, writer.history.size(1) - written.count :])
            if len(written.active) < before:
                yield
            if not written.active:
                return
            writer.keep(rows)
            prediction = writer.read(Tokens(token[:, None]))

    def weight(self, length: int) -> float:
        """What the sum of so many tokens is divided by."""
        return length**self.length_penalty


class Finished(NamedTuple):
    """The best finished text of a row so far."""

    tokens: Tensor  # (T,)
    reason: Reason
    score: float


class Candidates(NamedTuple):
    """Texts that are one token longer, the likeliest first."""

    sums: Tensor  # (A, K) log-probabilities
    beam: Tensor  # (A, K) that each goes on from
    token: Tensor  # (A, K)
    ended: Tensor  # (A, K) by an end
    stopped: Tensor  # (A, K) by a stop string


class Beams:
    """The beams of all rows that still write, and what each row has finished."""

    def __init__(self, search: Beam, written: Written, device: torch.device):
        self.search, self.written = search, written
        self.ends = torch.tensor(sorted(written.ends), dtype=torch.long, device=device)
        self.many = search.width * max(2, 1 + len(written.ends))  # of so many, enough go on whatever ends
        rows = len(written.active)
        self.sums = torch.zeros(rows, 1, device=device)  # (A, W) log-probabilities; at first there is one beam
        self.scores = torch.full((rows, search.width), -math.inf, device=device)  # of finished texts, the best first
        self.best: list[Finished | None] = [None] * rows
        self.streams: list[list[TextStream]] = []  # of each beam, where there are stop strings
        if written.stops:
            assert isinstance(written.tokenizer, TextTokenizer)
            self.streams = [[TextStream(written.tokenizer, prompt, written.stops)] for prompt in written.prompts]

    def step(self, chances: Tensor, texts: Tensor) -> tuple[Tensor, Tensor]:
        """The log-probabilities of the next token (A W, V), and what each beam wrote so far (A W, T) -> of the beams
        that go on, those of before that they are made of, and their next tokens.  Rows that are over are closed."""
        self.written.count += 1
        found = self._candidates(chances)
        scores = self._finished(found)
        better = scores.amax(1) > self.scores[:, 0]
        self.scores = torch.cat((self.scores, scores), 1).topk(self.search.width).values

        going = found.sums.masked_fill(found.ended | found.stopped, -math.inf)
        sums, places = going.topk(min(self.search.width, going.size(1)))  # (A, W)
        told = torch.stack((better, self._over(sums[:, 0])), 1).tolist()
        for row, (improved, _) in enumerate(told):
            if improved:
                self.best[row] = self._text(row, int(scores[row].argmax()), found, scores, texts)
        if self.streams:
            self.streams = [[row[k] for k in kept] for row, kept in zip(self.streams, places.tolist(), strict=True)]
        left = self._close([over for _, over in told], texts).to(sums.device)
        rows = left[:, None] * self.sums.size(1) + found.beam.gather(1, places)[left]
        self.sums, self.scores = sums[left], self.scores[left]
        return rows.flatten(), found.token.gather(1, places)[left].flatten()

    def _candidates(self, chances: Tensor) -> Candidates:
        rows, vocabulary = len(self.sums), chances.size(-1)
        sums = (self.sums[..., None] + chances.view(rows, -1, vocabulary)).flatten(1)  # (A, W V)
        sums, places = sums.topk(min(self.many, sums.size(1)))
        beam, token = places // vocabulary, places % vocabulary
        return Candidates(sums, beam, token, torch.isin(token, self.ends), self._stopped(beam, token))

    def _stopped(self, beam: Tensor, token: Tensor) -> Tensor:
        """(A, K): does a stop string stand in the text?  The streams are those of the candidates then."""
        if not self.streams:
            return torch.zeros_like(token, dtype=torch.bool)
        shared = {id(self.written.tokenizer): self.written.tokenizer}
        pairs = zip(self.streams, beam.tolist(), strict=True)
        self.streams = [[copy.deepcopy(row[place], dict(shared)) for place in places] for row, places in pairs]
        for row, tokens in zip(self.streams, token.tolist(), strict=True):
            for stream, new in zip(row, tokens, strict=True):
                stream.push([new])
        return torch.tensor([[stream.stopped for stream in row] for row in self.streams], device=token.device)

    def _finished(self, found: Candidates) -> Tensor:
        """(A, W) the scores of those among the best that are finished now; -inf for the others."""
        sums, over = (value[:, : self.search.width] for value in (found.sums, found.ended | found.stopped))
        scores = sums / self.search.weight(self.written.count)
        return scores if self.written.count == self.written.length else scores.masked_fill(~over, -math.inf)

    def _over(self, lead: Tensor) -> Tensor:
        """(A,) log-probabilities of the best beginnings -> is there nothing more to expect of a row?"""
        search, length = self.search, self.written.count
        if length == self.written.length:
            return torch.ones_like(lead, dtype=torch.bool)
        worst = self.scores[:, -1]
        over = worst > -math.inf  # as many are finished as there are beams
        if search.early_stopping is not True:
            if search.early_stopping == "never" and search.length_penalty > 0:
                length = self.written.length
            over &= lead / search.weight(length) <= worst
        return over | (lead == -math.inf)

    def _text(self, row: int, place: int, found: Candidates, scores: Tensor, texts: Tensor) -> Finished:
        text = texts[row * self.sums.size(1) + found.beam[row, place]]
        reason: Reason = "context" if self.written.cut else "length"
        if found.ended[row, place]:
            reason = "end"
        elif found.stopped[row, place]:
            reason = "stop"
        return Finished(torch.cat((text, found.token[row, place, None])), reason, float(scores[row, place]))

    def _close(self, over: list[bool], texts: Tensor) -> Tensor:
        """Hand over the rows that are over -> those that go on, (A',)."""
        for place, row in enumerate(list(self.written.active)):
            if over[place]:
                text = self.best[place]
                if text is None:  # nothing could follow
                    length, first = texts.size(1), place * self.sums.size(1)
                    score = float(self.sums[place, 0] / self.search.weight(max(1, length)))
                    text = Finished(texts[first], "end", score)
                self.written.close(row, *text)
        left = [place for place, done in enumerate(over) if not done]
        self.best = [self.best[place] for place in left]
        self.streams = [self.streams[place] for place in left] if self.streams else []
        return torch.tensor(left, dtype=torch.long)
