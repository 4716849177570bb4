"""The samples of one split as a data set for torch's DataLoader, which makes a whole batch at once."""

# Shapes: B batch, C channels, H height, W width.

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from zoo.data.augment import Augment
from zoo.data.bad import DAMAGE, sentence
from zoo.data.field import Samples
from zoo.data.sizes import image_tokens
from zoo.rng import sample_keys
from zoo.tokenizers import Batch, Tokenizer, Tokens

Pair = tuple[int, int]  # (epoch, index)
Raw: TypeAlias = "list | Tensor | Tokens"  # what ``Field.raw`` gives


@dataclass
class Split:
    """What the workers get.

    ``bad`` has the samples that are known not to be readable, and why; None where such a sample stops the run.  They
    are left out of their batch; where none is left, ``refill`` says whether the next sample in the data set that can
    be read takes their place, so that all processes train for equally many steps, or the batch is empty.
    """

    samples: Samples
    tokenizer: Tokenizer
    target_tokenizer: Tokenizer | None
    seed: int
    augment: list[Augment]
    classes: int
    bad: dict[int, str] | None = None
    refill: bool = False

    def __len__(self) -> int:
        return len(self.samples.input)

    def __getitems__(self, keys: list[Pair] | list[int]) -> Batch:
        """``keys`` are the (epoch, index) pairs of an Order; plain indices, of other samplers, are of epoch 0."""
        pairs = [(0, key) if isinstance(key, int) else key for key in keys]
        if self.bad is None:
            return self._batch(pairs, self._raw(pairs))
        good, raw = self._readable(pairs, self.bad)
        if not good and self.refill:
            good, raw = self._next(pairs[0], self.bad)
        skipped = tuple(self.bad[index] for _, index in pairs if index in self.bad)
        return self._batch(good, raw, skipped) if good else Batch(Tokens(torch.zeros(0, 0)), skipped=skipped)

    def batch(self, epoch: Tensor, index: Tensor, key: Tensor) -> Batch:
        """The same of (B,) epochs and indices whose keys, see ``keys``, are known already."""
        if self.bad is None:
            places = index.tolist()
            return self._made([field.raw(places) for field in self.samples.fields], index, key)
        return self.__getitems__(list(zip(epoch.tolist(), index.tolist())))

    def keys(self, epoch: Tensor, index: Tensor) -> Tensor:
        """(B,) the random keys of samples."""
        return sample_keys(self.seed, epoch, index)

    def _raw(self, pairs: list[Pair]) -> list[Raw]:
        """What each field has for the samples."""
        index = [index for _, index in pairs]
        return [field.raw(index) for field in self.samples.fields]

    def _readable(self, pairs: list[Pair], bad: dict[int, str]) -> tuple[list[Pair], list[Raw]]:
        """The samples that can be read, and what is read; where one cannot be, each is tried by itself, once."""
        good = [pair for pair in pairs if pair[1] not in bad]
        try:
            return good, self._raw(good) if good else []
        except DAMAGE:
            before = len(bad)
            for pair in good:
                try:
                    self._raw([pair])
                except DAMAGE as error:
                    bad[pair[1]] = sentence(error)
            if len(bad) == before:  # each can be read, and all together cannot
                raise
        return self._readable(good, bad)

    def _next(self, pair: Pair, bad: dict[int, str]) -> tuple[list[Pair], list[Raw]]:
        """The first sample behind one that can be read.  ValueError where there is none in all of the data."""
        epoch, index = pair
        for step in range(1, len(self)):
            good, raw = self._readable([(epoch, (index + step) % len(self))], bad)
            if good:
                return good, raw
        raise ValueError(f"no sample can be read; the first: {bad[index]}")

    def _batch(self, pairs: list[Pair], raw: list[Raw], skipped: tuple[str, ...] = ()) -> Batch:
        epoch, index = torch.tensor(pairs).unbind(1)
        return self._made(raw, index, self.keys(epoch, index), skipped)

    def _made(self, raw: list[Raw], index: Tensor, key: Tensor, skipped: tuple[str, ...] = ()) -> Batch:
        label = None if self.samples.label is None else self.samples.label[index]
        value, target = raw[0], None
        if not isinstance(value, Tokens):
            value, label = image_tokens(value, label, key, self.augment, self.classes, self.tokenizer)
        for augment in self.augment:
            value = augment.tokens(value, key)
        if self.target_tokenizer is not None:
            target = raw[1]
            if not isinstance(target, Tokens):
                target, _ = image_tokens(target, None, key, [], 0, self.target_tokenizer)
        return Batch(value, target, label, key, skipped)
