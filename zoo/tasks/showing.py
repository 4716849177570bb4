"""What tasks need to show what they do: a model that holds still, and columns made by tokenizers."""

# Shapes: T tokens, F features a token.

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from zoo.pictures import Column
from zoo.tasks.surface import evaluating
from zoo.tokenizers import Batch, Tokenizer, Tokens


@contextmanager
def still(module: nn.Module) -> Iterator[None]:
    """For a while the module is in evaluation mode, makes no gradients and uses no compiled code, which other shapes
    would have compiled anew; the random numbers that follow are those that would have followed."""
    with evaluating(module), torch.no_grad(), torch.random.fork_rng([]), torch.compiler.set_stance("force_eager"):
        yield


def keyed(batch: Batch) -> Batch:
    """A batch with keys, the same ones every time where it brings none."""
    if batch.key is not None:
        return batch
    return replace(batch, key=torch.arange(len(batch), device=batch.input.value.device))


def column(heading: str, tokenizer: Tokenizer, items: Sequence[Any], weights: Sequence[Tensor] | None = None) -> Column:
    """What ``tokenizer`` made of sequences, one a sample."""
    here = [item.detach().float().cpu() if isinstance(item, Tensor) else item for item in items]
    return Column(heading, tokenizer.modality, here, tokenizer.period, weights)


def columns(tokenizer: Tokenizer, rows: Sequence[dict[str, Any]]) -> list[Column]:
    """A column for each heading of the rows."""
    return [column(heading, tokenizer, [row[heading] for row in rows]) for heading in rows[0]]


def sequences(tokenizer: Tokenizer, tokens: Tokens) -> list[Tensor]:
    """Each sample's real tokens as ``decode`` takes them: (T,) or (T, F)."""
    return [tokenizer.unpadded(value, real) for value, real in zip(tokens.value, tokens.real, strict=True)]


def decoded(heading: str, tokenizer: Tokenizer, tokens: Tokens) -> Column:
    """A batch as it is."""
    return column(heading, tokenizer, [tokenizer.decode(value) for value in sequences(tokenizer, tokens)])
