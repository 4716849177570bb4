"""Prompts in batches, whose mistakes are told with their place, and what can be said about all that was written."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from tqdm import tqdm

from zoo.cli.generate.prompts import Prompt
from zoo.generation import Written
from zoo.tasks.writing import WritingTask

REASONS = {
    "end": "its own end",
    "stop": "a stop string",
    "length": "the length",
    "context": "the model's last position",
}


class Row(NamedTuple):
    """One answer to be written."""

    number: int  # in the whole job, on which random draws depend
    prompt: Prompt
    sample: int  # which answer to its prompt


def rows_of(prompts: Sequence[Prompt], samples: int) -> list[Row]:
    places = [(prompt, sample) for prompt in prompts for sample in range(samples)]
    return [Row(number, *place) for number, place in enumerate(places)]


def batches(rows: Sequence[Row], size: int, watched: bool) -> Iterator[Sequence[Row]]:
    """So many rows at once, with a bar on a terminal where nothing else is ``watched`` there."""
    hidden = watched or not sys.stderr.isatty() or len(rows) <= size
    with tqdm(total=len(rows), unit="texts", disable=hidden, leave=False) as bar:
        for start in range(0, len(rows), size):
            batch = rows[start : start + size]
            yield batch
            bar.update(len(batch))


def written(task: WritingTask, batch: Sequence[Row]) -> Written:
    """What the task writes to these.  Raises UserError that names the place of a prompt that cannot be read."""
    raws = []
    for row in batch:
        with told(row.prompt):
            raws.append(row.prompt.raw(task.tokenizer))
    try:
        return task.generate(raws, first=batch[0].number)
    except ValueError as error:
        if len(batch) > 1:
            blame(task, batch)
        raise batch[0].prompt.told(error) if len(batch) == 1 else error from None


@contextmanager
def told(prompt: Prompt) -> Iterator[None]:
    """For the time of a ``with``, a ValueError is one of this prompt's."""
    try:
        yield
    except ValueError as error:
        raise prompt.told(error) from None


def blame(task: WritingTask, batch: Sequence[Row]) -> None:
    """Raise UserError for the first row that cannot be written to alone, where others can."""
    errors = []
    for row in batch:
        try:
            task.generate([row.prompt.raw(task.tokenizer)], length=1)
        except ValueError as error:
            errors.append(row.prompt.told(error))
    if 0 < len(errors) < len(batch):
        raise errors[0]


class Tally:
    """Counts what is written, and the seconds of it."""

    def __init__(self) -> None:
        self.count = self.tokens = self.proposed = self.accepted = 0
        self.seconds = 0.0
        self.reasons: Counter[str] = Counter()

    @contextmanager
    def timed(self) -> Iterator[None]:
        since = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - since

    def add(self, written: Written) -> None:
        self.count += len(written.prompts)
        self.tokens += sum(map(len, written.tokens))
        self.proposed += written.proposed
        self.accepted += written.accepted
        self.reasons.update(REASONS[reason] for reason in written.reasons if reason is not None)

    def paced(self, what: str) -> str:
        """How much of ``what``, and how fast."""
        several = f"{self.count} {what}, " if self.count > 1 else ""
        pace = f"{self.tokens / max(self.seconds, 1e-9):,.0f} tokens/s"
        return f"{several}{self.tokens:,} token{'s' * (self.tokens != 1)} in {self.seconds:.2f} s, {pace}"

    def said(self) -> str:
        """The same of texts, why they ended, and what of proposals became of them."""
        reasons = [reason + f" ({n})" * (self.count > 1) for reason, n in self.reasons.most_common()]
        parts = [self.paced("texts"), f"ended by {', '.join(reasons)}"]
        if self.proposed:
            parts.append(f"{self.accepted / self.proposed:.0%} of {self.proposed:,} proposed tokens accepted")
        return "; ".join(parts)
