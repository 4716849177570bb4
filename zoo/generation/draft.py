"""Tokens that may come next, as a small model writes them."""

# Shapes: R sequences that still write, n tokens decided since the last guess, k proposed tokens, V vocabulary.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from zoo.generation.prompts import padded_left
from zoo.generation.proposals import Drafter, Proposal, Proposer
from zoo.generation.rules import Rule
from zoo.generation.search import Greedy, Sample, drawn, ruled
from zoo.generation.writer import Writer
from zoo.generation.written import Written
from zoo.nn import Cache
from zoo.tokenizers import TextTokenizer, Tokenizer, Tokens


@runtime_checkable
class Author(Protocol):
    """A task that writes."""

    @property
    def pen(self) -> Tokenizer: ...

    @property
    def device(self) -> torch.device: ...

    def writer(self, x: Any, cache: Cache | None) -> Writer: ...

    def eval(self) -> Any: ...


class Draft(Drafter):
    """A small model with the same vocabulary (Leviathan et al. 2023): a ``CausalLM``, or for a ``Seq2Seq`` another one,
    which reads the same source.  It chooses as the search does, and is put into evaluation mode.

    Nothing is proposed where its positions end.  Raises ValueError for ``tokens`` below 1 and a task that does not
    write, and when it begins, for another vocabulary or device, and a ``CausalLM`` that has nothing to go on from.
    """

    def __init__(self, task: nn.Module, tokens: int = 4):
        super().__init__(tokens)
        if not isinstance(task, Author):
            raise ValueError(f"a {type(task).__name__} does not write; give a CausalLM as the draft, or a Seq2Seq")
        self.task = task

    def begin(self, writer: Writer, written: Written, search: Greedy | Sample, rules: Sequence[Rule]) -> Proposer:
        task, pen, device = self.task, written.tokenizer, writer.history.device
        if not (isinstance(pen, TextTokenizer) and pen.agrees(task.pen)):
            raise ValueError(
                f"the draft's vocabulary ({named(task.pen)}) is not the model's ({named(pen)}); "
                "give a draft that was trained with the model's tokenizer"
            )
        if task.device != device:
            raise ValueError(f"the draft is on {task.device} and the model on {device}; move one to the other's")
        task.eval()
        drafting = task.writer(written.source, Cache(spare=self.tokens))
        if drafting.starts is None and not all(map(len, written.prompts)):
            raise ValueError(
                "the draft is a CausalLM and has no token to go on from; give a prompt, or a Seq2Seq draft"
            )
        prompts = padded_left(written.prompts, pen.filler)
        if isinstance(search, Sample):
            return Drawing(drafting, prompts, rules, search)
        return Choosing(drafting, prompts, rules, search)


class Drafting(Proposer):
    """Base of the proposers that have a model, which is kept in step with what is decided."""

    def __init__(self, writer: Writer, prompts: Tokens, rules: Sequence[Rule]):
        self.writer, self.rules = writer, rules
        self.ahead = 0  # proposed tokens that the model has read
        given = prompts.value.size(1) + (writer.starts is not None)
        self.over = writer.room is not None and given > writer.room  # it has no positions for more
        if not self.over:
            writer.read(prompts)

    def keep(self, rows: Tensor) -> None:
        if not self.over:
            self.writer.keep(rows)

    def begun(self, new: Tensor, count: int) -> tuple[Tensor, int]:
        """What of ``new`` the model has to read now, and how many of ``count`` tokens it has positions to propose."""
        stand = min(new.size(1) - 1, self.ahead)
        self.writer.rewind(self.ahead - stand)
        new, room = new[:, stand:], self.writer.room
        count = count if room is None else min(count, room - new.size(1) + 1)
        self.over = self.over or count < 1
        self.ahead = 0 if self.over else count - 1
        return new, 0 if self.over else count

    def logits(self, token: Tensor, written: Written, ahead: int) -> Tensor:
        """(R, n) -> (R, V): what follows when ``ahead`` proposed tokens were read."""
        return ruled(self.writer.read(Tokens(token)), self.writer, written, self.rules, ahead)


class Choosing(Drafting):
    """The likeliest tokens."""

    def __init__(self, writer: Writer, prompts: Tokens, rules: Sequence[Rule], search: Greedy):
        super().__init__(writer, prompts, rules)
        self.search = search

    def propose(self, new: Tensor, count: int, written: Written) -> Proposal:
        token, count = self.begun(new, count)
        found = [new[:, :0]]
        for ahead in range(count):
            token = self.search.choose(self.logits(token, written, ahead), written)[:, None]
            found.append(token)
        return Proposal(torch.cat(found, 1))


class Drawing(Drafting):
    """Tokens by chance, with one more than is read: so each place is decided in the same way, whichever proposal it
    was in."""

    def __init__(self, writer: Writer, prompts: Tokens, rules: Sequence[Rule], search: Sample):
        super().__init__(writer, prompts, rules)
        self.search = search

    def propose(self, new: Tensor, count: int, written: Written) -> Proposal:
        token, count = self.begun(new, count + 1)
        if not count:
            return Proposal(new[:, :0])
        numbers = self.search.numbers(written, "token", count)
        tokens, chances = [], []
        for ahead in range(count):
            chances.append(self.search.chances(self.logits(token, written, ahead)))
            token = drawn(chances[-1], numbers[:, ahead])[:, None]
            tokens.append(token)
        return Proposal(torch.cat(tokens, 1), torch.stack(chances, 1))


def named(tokenizer: Tokenizer) -> str:
    size = f" of {tokenizer.vocabulary} tokens" if isinstance(tokenizer, TextTokenizer) else ""
    return type(tokenizer).__name__ + size
