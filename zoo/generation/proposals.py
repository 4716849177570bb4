"""What the next tokens may be, guessed cheaply before the model itself reads them."""

# Shapes: R sequences that still write, n tokens decided since the last guess, k proposed tokens, V vocabulary.

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from zoo.described import Described
from zoo.generation.rules import Rule
from zoo.generation.search import Greedy, Sample
from zoo.generation.writer import Writer
from zoo.generation.written import Written


class Proposal(NamedTuple):
    """``tokens`` (R, k) that may come next, and where they were drawn by chance, the probabilities (R, k, V) with
    which each was."""

    tokens: Tensor
    chances: Tensor | None = None

    @property
    def read(self) -> Tensor:
        """Those that the model has to read, for a choice after each of them: the last one that was drawn is only
        compared with what the model says in its place."""
        return self.tokens if self.chances is None else self.tokens[:, :-1]


class Proposer:
    """What proposes tokens while one batch is written."""

    def propose(self, new: Tensor, count: int, written: Written) -> Proposal:
        """At most ``count`` tokens to be read after ``new`` (R, n), which were decided since the last call: proposals
        of that call that stand, and one more token."""
        raise NotImplementedError

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows (R',) of the batch."""
        raise NotImplementedError


class Drafter(Described):
    """What a ``drafter`` slot takes: proposes at most ``tokens`` tokens at a time.  Raises ValueError where that is
    none."""

    def __init__(self, tokens: int):
        if tokens < 1:
            raise ValueError(f"tokens={tokens} proposes nothing; 1 is the least")
        self.tokens = tokens

    def begin(self, writer: Writer, written: Written, search: Greedy | Sample, rules: Sequence[Rule]) -> Proposer:
        """For a ``writer`` that has read the prompts.  Raises ValueError where nothing can be proposed to it."""
        raise NotImplementedError
