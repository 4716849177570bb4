"""Batches that have the shapes of a config's data and no content: full rows, as long as they come."""

# Shapes: B batch, T tokens, F features a token.

from __future__ import annotations

from collections.abc import Callable

import torch
from lightning.pytorch import LightningDataModule

from zoo.data import Combined, DataModule, Text
from zoo.tasks import Multimodal, Task
from zoo.tokenizers import Batch, Tokenizer, Tokens

Maker = Callable[[], "Batch | dict[str, Batch]"]


class Shape:
    """The sizes of a batch for one task: ``size`` samples, ``input`` tokens of each, and ``target`` tokens where there
    are pairs."""

    def __init__(self, task: Task, size: int, input: int, target: int | None):
        self.task, self.size, self.input, self.target = task, size, input, target

    @property
    def tokens(self) -> int:
        """Of the whole batch, both halves."""
        return self.size * (self.input + (self.target or 0))

    def make(self) -> Batch:
        second = self.task.target_tokenizer
        target = None if self.target is None or second is None else self._tokens(second, self.target)
        label, key = torch.zeros(self.size, dtype=torch.long), torch.arange(self.size)
        return Batch(self._tokens(self.task.tokenizer, self.input), target, label, key)

    def _tokens(self, tokenizer: Tokenizer, length: int) -> Tokens:
        one = tokenizer.nothing  # (0,) ids or (0, F) features
        return Tokens(torch.zeros(self.size, length, *one.shape[1:], dtype=one.dtype))


def shapes(task: Task, data: LightningDataModule, size: int | None, length: int | None) -> dict[str, Shape]:
    """By the name of each task, "" for the only one, what its batches are: ``size`` samples or as many as the data
    module puts into one, of ``length`` tokens where the tokenizer does not fix it, or as long as the data are.

    Data are read only where nothing else says how long they are.  Raises ValueError where nobody does.
    """
    if isinstance(task, Multimodal):
        if not isinstance(data, Combined):
            raise ValueError(f"{type(task).__name__} needs Combined data, and these are {type(data).__name__}")
        return {name: _shape(part, data.modules[name], size, length) for name, part in task.tasks.items()}
    return {"": _shape(task, data, size, length)}


def maker(found: dict[str, Shape]) -> Maker:
    """What makes the batch, within a ledger."""
    if list(found) == [""]:
        return found[""].make
    return lambda: {name: shape.make() for name, shape in found.items()}


def _shape(task: Task, data: LightningDataModule, size: int | None, length: int | None) -> Shape:
    known = data if isinstance(data, DataModule) else None
    size = size or (known.batch_size if known else None)
    if size is None:
        raise ValueError(f"{type(data).__name__} does not say how large a batch is: give --batch_size")
    second = task.target_tokenizer
    blocks = data.length if isinstance(data, Text) and not data.label else None
    first = task.tokenizer.length or length or blocks
    other = None if second is None else second.length or length
    if first is None or (second is not None and other is None):
        if known is None:
            raise ValueError(f"{type(data).__name__} does not say how long its samples are: give --length")
        known.task = task
        read = known.sample("train", size)
        first = first or read.input.value.size(1)
        other = other or (None if read.target is None else read.target.value.size(1))
    return Shape(task, size, first, other)
