"""Several tokens at each step of a large model: they are guessed cheaply, and it reads the guesses at once."""

# Shapes: R sequences that still write, k proposed tokens, V vocabulary.

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from zoo.generation.proposals import Drafter, Proposal
from zoo.generation.rules import Rule
from zoo.generation.search import Greedy, Sample, Search, drawn, require_choice, ruled
from zoo.generation.writer import Writer
from zoo.generation.written import Written
from zoo.tokenizers import Tokens


class Speculative(Search):
    """What ``search`` would write, in fewer steps (Leviathan et al. 2023, Chen et al. 2023): a ``drafter`` proposes
    tokens, the model reads them at once, and those that it would have written stand, with one more of its own.

    Greedy, and with ``Lookup``, the tokens are those of ``search`` alone, up to the rounding of reading several at
    once.  A token x that a ``Draft`` drew with probability q(x) stands with min(1, p(x) / q(x)), p being the model's,
    and else one is drawn from max(0, p - q): all tokens have the probabilities that ``search`` gives them.  The same
    seed draws the same tokens, whatever else is in the batch, and however many are proposed at a time.

    A batch goes on by as many tokens as its slowest row, and takes the others' next time.  ``Written.acceptance`` is
    the share of proposed tokens that stood in their own row.  Raises ValueError for another search, and where tokens
    are features.
    """

    def __init__(self, drafter: Drafter, search: Greedy | Sample = Greedy()):
        if not isinstance(search, (Greedy, Sample)):
            raise ValueError(f"tokens cannot be guessed ahead for {type(search).__name__}; give Greedy or Sample")
        self.drafter, self.search, self.spare = drafter, search, drafter.tokens

    def run(self, writer: Writer, written: Written, prediction: Tensor, rules: Sequence[Rule]) -> Iterator[None]:
        require_choice(written.tokenizer, "Speculative")
        proposer = self.drafter.begin(writer, written, self.search, rules)
        new = self.search.choose(ruled(prediction, writer, written, rules), written)[:, None]
        while True:
            rows = written.add(new)
            yield
            if not written.active:
                return
            if rows is not None:
                writer.keep(rows)
                proposer.keep(rows)
                new = new[rows]
            most = min(self.drafter.tokens, written.length - written.count - 1)
            proposal = proposer.propose(new, most, written)
            ahead = proposal.read.size(1)
            logits = writer.read(Tokens(torch.cat((new[:, -1:], proposal.read), 1)), every=True)  # (R, 1 + k, V)
            new, stand = self.judged(proposal, ruled(logits, writer, written, rules, ahead), written)
            written.proposed += ahead * len(stand)
            written.accepted += sum(stand)
            new = new[:, : min(stand) + 1]
            writer.rewind(ahead + 1 - new.size(1))

    def judged(self, proposal: Proposal, logits: Tensor, written: Written) -> tuple[Tensor, list[int]]:
        """The model's tokens (R, 1 + k), of which each is right as long as those before it stand, and how many of each
        row's proposals do."""
        tokens, chances = proposal
        if chances is None:
            decided = self.search.choose(logits, written)
            return decided, leading(decided[:, :-1] == tokens)
        assert isinstance(self.search, Sample)
        wanted, count = self.search.chances(logits), tokens.size(1)
        of_model, of_draft = (each.gather(2, tokens[..., None])[..., 0] for each in (wanted, chances))
        numbers = self.search.numbers(written, "acceptance", count).to(of_model)
        right = numbers * of_draft < of_model
        stand = leading(right[:, :-1])
        last = min(stand)  # the place of the last token that the batch will take
        rest = (wanted[:, last] - chances[:, last]).clamp(min=0)  # (R, V)
        rest = torch.where(rest.sum(-1, keepdim=True) > 0, rest, wanted[:, last])  # they are equal up to rounding
        other = drawn(rest, self.search.numbers(written, "rejection", last + 1)[:, last])
        tokens = tokens.clone()
        tokens[:, last] = torch.where(right[:, last], tokens[:, last], other)
        return tokens, stand


def leading(right: Tensor) -> list[int]:
    """(R, k) -> how many of each row are right before the first that is not."""
    return right.long().cumprod(1).sum(1).tolist()
