"""What the tasks that write have in common: generate, stream, and score a given continuation."""

# Shapes: B batch, T tokens, F features a token, V vocabulary.

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from zoo.generation import Generation, Search, Writer, Written
from zoo.generation.prompts import padded_left, room
from zoo.generation.search import require_choice
from zoo.nn import Cache
from zoo.tasks.surface import Raw, evaluating
from zoo.tasks.task import Task
from zoo.tokenizers import Tokenizer


class WritingTask(Task):
    """Base of the tasks that write a sequence token by token."""

    generation: Generation  # how, where it is not said

    # ---- what a task says

    @property
    def pen(self) -> Tokenizer:
        """The tokenizer of what is written."""
        raise NotImplementedError

    def prompts(self, x: Raw, prompt: Raw | None) -> list[Tensor]:
        """(T,) ids or (T, F) features that each row begins with.  Raises ValueError where they cannot be read."""
        raise NotImplementedError

    def writer(self, x: Raw, cache: Cache | None) -> Writer:
        """Ready to read them."""
        raise NotImplementedError

    def scored(self, x: Raw, continuation: Raw) -> Iterator[tuple[Tensor, Tensor]]:
        """For each row the states (T, D) that predict its continuation, and its ids (T,)."""
        raise NotImplementedError

    def here(self, items: Sequence[Tensor]) -> list[Tensor]:
        """Tensors on the task's device."""
        device = next(self.parameters()).device
        return [item.to(device) for item in items]

    # ---- writing

    def generate(
        self,
        x: Raw,
        length: int | None = None,
        search: Search | None = None,
        stops: Sequence[str] | None = None,
        prompt: Raw | None = None,
        cache: Cache | None = None,
        first: int = 0,
    ) -> Written:
        """Write on from each of ``x``, or write about it where the task reads one thing and writes another; ``prompt``
        is then how each begins.  What is not given is as ``self.generation`` says; an image is written to its end.

        ``cache`` may be one of a fixed capacity, or what an earlier call filled: then ``x`` follows what that has read,
        which is all but the last token written.  ``first`` is the number of the first row in a larger job, on which
        random draws depend.  Evaluation mode, no gradients.

        Raises ValueError for an empty prompt, ids out of the vocabulary, a prompt longer than the positions, and a
        search that does not fit what is written or the cache.
        """
        (written,) = deque(self.steps(x, length, search, stops, prompt, cache, first), maxlen=1)
        return written

    def stream(
        self,
        x: Any,
        length: int | None = None,
        search: Search | None = None,
        stops: Sequence[str] | None = None,
        prompt: Any = None,
        cache: Cache | None = None,
    ) -> Iterator[str]:
        """The text that goes on from one raw item ``x``, piece by piece as it is decided; else as ``generate``."""
        begin = None if prompt is None else [prompt]
        for written in self.steps([x], length, search, stops, begin, cache, 0):
            news = written.news(0)
            if news:
                yield news

    @torch.inference_mode()
    def steps(
        self,
        x: Raw,
        length: int | None = None,
        search: Search | None = None,
        stops: Sequence[str] | None = None,
        prompt: Raw | None = None,
        cache: Cache | None = None,
        first: int = 0,
    ) -> Iterator[Written]:
        """What is written so far, whenever tokens were decided; else as ``generate``."""
        how, pen = self.generation, self.pen
        search, stops = search or how.search, how.stops if stops is None else stops
        with evaluating(self):
            prompts = self.prompts(x, prompt)
            tokens = padded_left(prompts, pen.filler)
            writer = self.writer(x, spared(cache, search))
            wanted = length or (pen.length - tokens.value.size(1) if pen.length else how.length)
            most = room(writer, tokens)
            ends = {*pen.ends, *how.ends}
            written = Written(pen, prompts, int(min(wanted, most)), ends, stops, first, most < wanted, x)
            rules = how.rules_for(written.length, begun=prompt is not None)
            for _ in search.run(writer, written, writer.read(tokens), rules):
                yield written

    @torch.inference_mode()
    def log_probabilities(self, x: Raw, continuation: Raw) -> list[Tensor]:
        """(T,) the natural logarithm of the probability of each token of each continuation, given ``x`` and the tokens
        before it.  Raises ValueError where tokens are features, which have none."""
        require_choice(self.pen, "log_probabilities")
        found = []
        with evaluating(self):
            for states, ids in self.scored(x, continuation):
                logits = self.head(states).float()
                found.append(logits.log_softmax(-1).gather(-1, ids[:, None])[:, 0])
        return found


def spared(cache: Cache | None, search: Search) -> Cache:
    """A cache that the search can go back in.  Raises ValueError where a given one does not let it."""
    if cache is None:
        return Cache(spare=search.spare)
    if cache.spare < search.spare:
        raise ValueError(
            f"{type(search).__name__} takes back up to {search.spare} tokens, the cache lets it {cache.spare}; "
            f"make it with Cache(spare={search.spare})"
        )
    return cache
