"""Tokens that may come next, looked up where the same ones stood before."""

# Shapes: R sequences that still write, n tokens decided since the last guess, k proposed tokens.

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from zoo.generation.proposals import Drafter, Proposal, Proposer
from zoo.generation.rules import Rule
from zoo.generation.search import Greedy, Sample
from zoo.generation.writer import NOTHING, Writer
from zoo.generation.written import Written
from zoo.tokenizers import Tokens


class Lookup(Drafter):
    """What followed the last tokens where they stood last (prompt lookup decoding, Saxena 2023): the last ``longest``
    of them, or else fewer, down to one.  A ``Seq2Seq`` that reads texts looks there too.

    Nothing is proposed to a batch in which some row has nothing to look up, and a batch has as many tokens proposed
    as the row that has the fewest.  Raises ValueError for ``tokens`` or ``longest`` below 1.
    """

    def __init__(self, tokens: int = 8, longest: int = 3):
        super().__init__(tokens)
        if longest < 1:
            raise ValueError(f"longest={longest} looks nothing up; 1 is the least")
        self.longest = longest

    def begin(self, writer: Writer, written: Written, search: Greedy | Sample, rules: Sequence[Rule]) -> Proposer:
        given = [[token for token in row if token != NOTHING] for row in writer.history.tolist()]
        if writer.memory is not None:
            given = [[*source, NOTHING, *row] for source, row in zip(sources(written), given, strict=True)]
        return Finding([Places(row, self.longest) for row in given])


class Finding(Proposer):
    """Each row looks up its own tokens."""

    def __init__(self, rows: list[Places]):
        self.rows = rows

    def propose(self, new: Tensor, count: int, written: Written) -> Proposal:
        for row, tokens in zip(self.rows, new.tolist(), strict=True):
            row.extend(tokens)
        found = [row.following(count) for row in self.rows]
        count = min(map(len, found))
        return Proposal(new.new_tensor([tokens[:count] for tokens in found]))

    def keep(self, rows: Tensor) -> None:
        self.rows = [self.rows[row] for row in rows.tolist()]


class Places:
    """Tokens, and where each one to ``longest`` in a row stood last, at the same cost however long they are."""

    def __init__(self, tokens: Iterable[int], longest: int):
        self.tokens: list[int] = []
        self.longest = longest
        self.after: dict[tuple[int, ...], int] = {}  # the place after the last of them
        self.extend(tokens)

    def extend(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            for size in range(1, min(self.longest, len(self.tokens)) + 1):
                self.after[tuple(self.tokens[-size:])] = len(self.tokens)
            self.tokens.append(token)

    def following(self, count: int) -> list[int]:
        """At most ``count`` tokens that followed the last ones before; a repetition goes on being one."""
        for size in range(min(self.longest, len(self.tokens)), 0, -1):
            place = self.after.get(tuple(self.tokens[-size:]))
            if place is not None:
                period = len(self.tokens) - place
                found = [self.tokens[place + ahead % period] for ahead in range(count)]
                return found[: found.index(NOTHING)] if NOTHING in found else found
        return []


def sources(written: Written) -> list[list[int]]:
    """The texts that were read, as the tokenizer of what is written has them; nothing where they are no texts."""
    if isinstance(written.source, Tokens) or any(not isinstance(item, str) for item in written.source):
        return [[] for _ in written.prompts]
    return [written.tokenizer.plain(text).tolist() for text in written.source]
