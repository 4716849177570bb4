"""Fields: the raw values that one column of a data set has for all samples, whatever they are stored as."""

# Shapes: N samples, B batch, C channels, H height, W width, T tokens.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from zoo.tokenizers import Tokenizer, Tokens

ROOM = 2**30  # bytes of encoded items that each process keeps


class Field:
    """One column of a data set."""

    modality = ""  # of the tokenizer that reads it: "text", "image", "audio"; empty for any
    bad: Mapping[int, str] = MappingProxyType({})  # of those known not to be readable: place -> why

    def __len__(self) -> int:
        raise NotImplementedError

    def take(self, index: list[int]) -> Field:
        """The field of these samples alone."""
        raise NotImplementedError

    def ready(self, tokenizer: Tokenizer) -> Field:
        """The field as training reads it, for this tokenizer: images are decoded, long text is cut into blocks."""
        return Encoded(self, tokenizer)

    def raw(self, index: list[int]) -> list | Tensor | Tokens:
        """A batch: a list of raw items; of a field that is ready, (B, C, H, W) images, a list of images of different
        sizes, or tokens.  Raises ValueError or FileNotFoundError for one that cannot be read."""
        raise NotImplementedError

    def name(self, i: int) -> str:
        """What an error calls a sample: its file, where it has one."""
        return f"sample {i}"

    @property
    def lengths(self) -> Tensor | None:
        """(N,) figures that grow with the tokens of each sample, such as characters or bytes, as far as they are known
        without reading; None where all samples are of one length."""
        return None

    @property
    def size(self) -> int:
        """A figure that changes when the data do: characters, bytes or values."""
        raise NotImplementedError


class Texts(Field):
    """One string a sample."""

    modality = "text"

    def __init__(self, values: Sequence[str]):
        self.values = list(values)

    def __len__(self) -> int:
        return len(self.values)

    def take(self, index: list[int]) -> Field:
        return Texts([self.values[i] for i in index])

    def raw(self, index: list[int]) -> list[str]:
        return [self.values[i] for i in index]

    @property
    def lengths(self) -> Tensor | None:
        return torch.tensor([len(text) for text in self.values])

    @property
    def size(self) -> int:
        return sum(map(len, self.values))


class Documents(Texts):
    """Long texts, which become blocks of ``length`` ids, one document after the other."""

    def __init__(self, values: Sequence[str], length: int):
        super().__init__(values)
        self.length = length

    @property
    def lengths(self) -> Tensor | None:
        return None

    def ready(self, tokenizer: Tokenizer) -> Field:
        ids = torch.cat([tokenizer.encode(text).int() for text in self.values])
        blocks = len(ids) // self.length
        if not blocks:
            raise ValueError(
                f"a text of {len(ids)} ids is shorter than one block of length={self.length}: "
                "give a smaller length, more text, or another val"
            )
        return Blocks(ids[: blocks * self.length].view(blocks, self.length))


class Encoded(Field):
    """Items that are encoded one by one when they are first needed, and kept encoded while there is room."""

    def __init__(self, field: Field, tokenizer: Tokenizer):
        self.field, self.tokenizer = field, tokenizer
        self.kept: dict[int, Tensor] = {}
        self.room = ROOM

    def __len__(self) -> int:
        return len(self.field)

    def take(self, index: list[int]) -> Field:
        return Encoded(self.field.take(index), self.tokenizer)

    def raw(self, index: list[int]) -> Tokens:
        missing = [i for i in index if i not in self.kept]
        new = {i: self._encode(i, item) for i, item in zip(missing, self.field.raw(missing))}
        items = [new[i] if i in new else self.kept[i] for i in index]
        for i, value in new.items():
            if value.nbytes <= self.room:
                self.kept[i] = value
                self.room -= value.nbytes
        return self.tokenizer.collate(items)

    def _encode(self, i: int, item: Any) -> Tensor:
        try:
            return self.tokenizer.encode(item)
        except ValueError as error:
            raise ValueError(f"{self.field.name(i)}: {error}") from None

    @property
    def lengths(self) -> Tensor | None:
        return self.field.lengths

    @property
    def size(self) -> int:
        return self.field.size


class Blocks(Field):
    """(N, T) ids that were encoded beforehand."""

    def __init__(self, ids: Tensor):
        self.ids = ids

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, index: list[int]) -> Field:
        return Blocks(self.ids[index])

    def raw(self, index: list[int]) -> Tokens:
        return Tokens(self.ids[index].long())

    @property
    def size(self) -> int:
        return self.ids.numel()


@dataclass
class Samples:
    """The samples of one split."""

    input: Field
    target: Field | None = None
    label: Tensor | None = None  # (N,) class ids

    def take(self, index: list[int]) -> Samples:
        target = None if self.target is None else self.target.take(index)
        return Samples(self.input.take(index), target, None if self.label is None else self.label[index])

    @property
    def fields(self) -> list[Field]:
        return [self.input] if self.target is None else [self.input, self.target]


@dataclass
class Source:
    """What a data module reads: "train", also "val" and "test" where they exist; and the classes' names, if any."""

    splits: dict[str, Samples]
    classes: list[str]
