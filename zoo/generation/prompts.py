"""What is written on from: raw items or ids made ready, and those that cannot be told in a sentence."""

# Shapes: B prompts, T tokens, F features a token, V vocabulary.

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from zoo.generation.writer import Writer
from zoo.tokenizers import TextTokenizer, Tokenizer, Tokens


def begun(tokenizer: Tokenizer, x: Tokens | Iterable[Any], read: Callable[[Any], Tensor]) -> list[Tensor]:
    """Each item as the beginning of a sequence, (T,) ids or (T, F) features, where it is raw by ``read`` of the
    tokenizer; a tensor (B, T) of ids is taken as it is.  Raises ValueError for an empty one, and for ids that the
    vocabulary has not."""
    if isinstance(x, Tensor) and isinstance(tokenizer, TextTokenizer):
        x = Tokens(x)
    if isinstance(x, Tokens):
        if tokenizer.gaps and bool(x.broken.any()):
            raise ValueError("an image that is narrower than its grid cannot be gone on from; give one of its width")
        items = [value[real] for value, real in zip(x.value, x.real, strict=True)]
    else:
        if isinstance(x, str):
            raise ValueError(f"{x!r} is one prompt; give a list of them, such as [{x!r}]")
        items = [read(raw) for raw in x]
    for item in items:
        require_known(tokenizer, item)
        if not len(item):
            raise ValueError("the prompt is empty; give at least one token to go on from")
    return items


def require_known(tokenizer: Tokenizer, ids: Tensor) -> None:
    """Raise ValueError where ids are not below the vocabulary."""
    if isinstance(tokenizer, TextTokenizer) and len(ids):
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= tokenizer.vocabulary:
            wrong = low if low < 0 else high
            raise ValueError(f"there is no token {wrong}: the vocabulary has the ids 0 to {tokenizer.vocabulary - 1}")


def padded_left(items: Sequence[Tensor], filler: float) -> Tokens:
    """A batch whose rows end together: (B, T) or (B, T, F)."""
    longest = max(len(item) for item in items)
    if all(len(item) == longest for item in items):
        return Tokens(torch.stack(list(items)))
    rows = [torch.cat((item.new_full((longest - len(item), *item.shape[1:]), filler), item)) for item in items]
    lengths = torch.tensor([len(item) for item in items], device=items[0].device)
    return Tokens(torch.stack(rows), torch.arange(longest, device=lengths.device) >= longest - lengths[:, None])


def room(writer: Writer, tokens: Tokens) -> float:
    """How many tokens can be written after a prompt; the last of them is not read.  Raises ValueError where the prompt
    itself is too long."""
    left = writer.room
    if left is None:
        return math.inf
    given = tokens.value.size(1) + (writer.starts is not None)
    if given > left:
        raise ValueError(f"the prompt has {given} tokens, and the model positions for {left}; give a shorter one")
    return left - given + 1


def continued(
    tokenizer: Tokenizer, x: Tokens | Iterable[Any], prompts: Sequence[Tensor], continuation: Tokens | Iterable[Any]
) -> list[Tensor]:
    """The ids of each continuation of a text, read as it would stand there.  Raises ValueError as ``begun`` does."""
    if isinstance(x, Tokens) or isinstance(continuation, Tokens):
        return begun(tokenizer, continuation, tokenizer.plain)
    rows = []
    for text, prompt, more in zip(x, prompts, continuation, strict=True):
        whole = tokenizer.prompt(text + more)
        across = not torch.equal(whole[: len(prompt)], prompt)  # a token that stands on both sides of the border
        rows.append(tokenizer.plain(more) if across else whole[len(prompt) :])
    return rows
