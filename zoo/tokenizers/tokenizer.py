"""What every tokenizer promises: raw data in, a sequence of tokens out, and what predicting one means."""

# Shapes: B batch, T tokens, F features a token, D model width, N tokens taken from anywhere in a batch.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from zoo.described import Described
from zoo.nn import HeadFactory

Scores = dict[
    str, tuple[Tensor, Tensor]
]  # name -> (sum, weight), which add up over batches; their quotient is the score


@dataclass
class Tokens:
    """A batch of sequences of one modality."""

    value: Tensor  # (B, T) ids, or (B, T, F) features
    padding: Tensor | None = None  # (B, T) True where a token is real; None where all are
    types: Tensor | None = None  # (B, T) which of several texts a token belongs to (BERT's sentence A and B)

    def __len__(self) -> int:
        return len(self.value)

    @property
    def real(self) -> Tensor:
        """(B, T) True where a token is real."""
        return self.value.new_ones(self.value.shape[:2], dtype=torch.bool) if self.padding is None else self.padding

    @property
    def broken(self) -> Tensor:
        """(B,) True where a real token comes after padding."""
        return (self.real[:, 1:] & ~self.real[:, :-1]).any(1)

    def take(self, count: int) -> Tokens:
        """The first ``count`` sequences."""
        return moved(self, "__getitem__", slice(count))

    def to(self, *args: Any, **kwargs: Any) -> Tokens:
        return moved(self, "to", *args, **kwargs)

    def pin_memory(self) -> Tokens:
        return moved(self, "pin_memory")


@dataclass
class Batch:
    """What a data module yields and a task takes, whatever the modality."""

    input: Tokens
    target: Tokens | None = None  # the other half of a pair
    label: Tensor | None = None  # (B,) class ids, or (B, C) class probabilities
    key: Tensor | None = None  # (B,) int64 random key of each sample, see zoo.rng
    skipped: tuple[str, ...] = ()  # a sentence for each sample that is not in it, since it cannot be read

    def __len__(self) -> int:
        return len(self.input)

    def take(self, count: int) -> Batch:
        """The first ``count`` samples."""
        target = None if self.target is None else self.target.take(count)
        label, key = (None if value is None else value[:count] for value in (self.label, self.key))
        return Batch(self.input.take(count), target, label, key)

    def to(self, *args: Any, **kwargs: Any) -> Batch:
        """As a tensor's; to a GPU while Python goes on, for which Lightning would wait where a batch is no tensor."""
        place = args[0] if args else kwargs.get("device")
        if isinstance(place, (str, torch.device)) and torch.device(place).type == "cuda":
            kwargs = {"non_blocking": True, **kwargs}
        return moved(self, "to", *args, **kwargs)

    def pin_memory(self) -> Batch:
        return moved(self, "pin_memory")


def moved(record: Any, method: str, *args: Any, **kwargs: Any) -> Any:
    """A copy of a dataclass with ``method`` called on each of its tensors."""
    fields = {name: value for name, value in vars(record).items() if isinstance(value, (Tensor, Tokens))}
    return replace(record, **{name: getattr(value, method)(*args, **kwargs) for name, value in fields.items()})


class Embed(nn.Module):
    """The learned half of a tokenizer: ``Tokens.value`` -> (B, T, D)."""

    stride = 1  # values to one token; objectives that predict each token need 1

    def forward(
        self,
        value: Tensor,
        hidden: Tensor | None = None,
        types: Tensor | None = None,
        padding: Tensor | None = None,
    ) -> Tensor:
        """``hidden`` (B, T) is True where a token's content must not be seen: a trained vector stands there instead.
        ``types`` and ``padding`` are those of ``Tokens``: who looks at a token's neighbours sees nothing behind the
        last one, as if the sequence stood alone."""
        raise NotImplementedError

    def vectors(self) -> nn.Parameter | None:
        """(V, D) the vectors of a vocabulary, which a head may share, where there is one."""
        return None

    def add_mask(self) -> None:
        """Make room for that vector, where the modality has no token for it; called by the tasks that hide tokens."""

    def start(self, batch: int) -> Tensor:
        """(B, 1, D): what a decoder reads before its first token."""
        raise NotImplementedError

    def add_start(self) -> None:
        """Make room for it, likewise."""

    def padding(self, padding: Tensor | None) -> Tensor | None:
        """(B, T) of the values -> (B, T / stride) of the tokens."""
        return padding


class Tokenizer(Described):
    """A value without parameters: picklable, and equal to another that was built from equal arguments.

    An instance knows its modality: how raw data becomes tokens and back, how tokens are embedded, what a prediction
    looks like and how it is scored.  So no task ever asks which modality it has.
    """

    modality = ""  # the name of the field that it reads in a data set: "text", "image" or "audio"
    length: int | None = None  # tokens of every sequence, where that is fixed
    start: int | None = None  # the id of the token that begins what a decoder writes, where tokens are ids
    unit = "tokens"  # what a token of it is called in a picture's title
    endless = False  # is there no token that ends a sequence?
    gaps = False  # may padding stand between real tokens, since each has a place of its own?
    period: float | None = None  # seconds from one frame of ``decode``'s spectrogram to the next, where it makes one

    def encode(self, raw: Any) -> Tensor:
        """One raw item -> (T,) ids or (T, F) features.  Raises ValueError for what it cannot read."""
        raise NotImplementedError

    def prompt(self, raw: Any) -> Tensor:
        """The same for an item that is to be gone on from: without the end of the sequence."""
        return self.encode(raw)

    def plain(self, raw: Any) -> Tensor:
        """The same with nothing put before or after it."""
        return self.encode(raw)

    @property
    def nothing(self) -> Tensor:
        """A sequence of no tokens: (0,) or (0, F)."""
        raise NotImplementedError

    def collate(self, items: Sequence[Tensor]) -> Tokens:
        """Sequences of different length, padded on the right to the longest."""
        if len({len(item) for item in items}) == 1:
            return self.batched(torch.stack(list(items)))
        value = nn.utils.rnn.pad_sequence(list(items), batch_first=True, padding_value=self.filler)
        length = torch.tensor([len(item) for item in items])
        return Tokens(value, torch.arange(value.size(1)) < length[:, None])

    def batched(self, value: Tensor) -> Tokens:
        """Encoded items of one length, (B, T) or (B, T, F)."""
        return Tokens(value)

    def unpadded(self, value: Tensor, real: Tensor) -> Tensor:
        """One sequence (T, ...) of a batch as ``decode`` takes it, without what is not ``real`` (T,)."""
        return value[real]

    @property
    def filler(self) -> float:
        """The value that padding has; it is never read."""
        return 0

    def __call__(self, raws: Sequence[Any]) -> Tokens:
        """A batch of raw items."""
        return self.collate([self.encode(raw) for raw in raws])

    def decode(self, value: Tensor) -> Any:
        """One sequence (T,) or (T, F), without padding -> text, image or spectrogram."""
        raise NotImplementedError

    def guessed(self, truth: Tensor, guess: Tensor, hidden: Tensor) -> dict[str, Any]:
        """What to compare where the tokens ``hidden`` (T,) of a sequence ``truth`` were guessed, as the sequence
        ``guess`` has them: heading -> what ``decode`` gives, or pieces of text (text, mark) as in ``zoo.pictures``."""
        raise NotImplementedError

    def continued(self, truth: Tensor, written: Tensor, given: int) -> dict[str, Any]:
        """The same where all after the first ``given`` tokens were ``written``."""
        raise NotImplementedError

    def against(self, value: Tensor, reference: Tensor) -> Any:
        """What ``decode`` gives of a written sequence, or pieces of text in which a difference to ``reference`` is
        marked."""
        return self.decode(value)

    def labels(self, value: Tensor) -> list[str] | None:
        """The text of each token, where tokens are text."""
        return None

    def regarded(self, value: Tensor, weights: Tensor) -> dict[str, tuple[Any, Tensor | None]]:
        """How much each head regards each token of a sequence, (H, T), to be seen over what ``decode`` gives where
        tokens are no text: heading -> (it, the weights that lie over it as in ``zoo.pictures.Column``, or None)."""
        raise NotImplementedError

    def embed(self, dim: int) -> Embed:
        """A new embedding."""
        raise NotImplementedError

    def head(self, dim: int, tied: Embed | None = None, make: HeadFactory | None = None) -> nn.Module:
        """A new head: (..., D) -> predictions (..., V) or (..., F); ``make`` builds another than the plain one.
        ``tied`` shares that embedding's weights, where the modality has weights to share."""
        raise NotImplementedError

    def written(self, tokens: Tokens) -> Tokens:
        """What a decoder writes after its start: without the start token, where ``encode`` puts it down as well."""
        return tokens

    def score(self, prediction: Tensor, target: Tensor, smoothing: float = 0.0) -> Scores:
        """(N, V) or (N, F) predictions against (N,) or (N, F) tokens; "loss" is among them, for training.
        ``smoothing`` is label smoothing, where there are labels."""
        raise NotImplementedError

    def score_states(self, head: nn.Module, states: Tensor, target: Tensor, smoothing: float = 0.0) -> Scores:
        """The same scores of what ``head`` predicts from states (N, D)."""
        return self.score(head(states), target, smoothing)

    def derive(self, means: dict[str, float]) -> dict[str, float]:
        """Scores that follow from the means of the others, such as perplexity from loss."""
        return {}

    def choose(self, prediction: Tensor) -> Tensor:
        """The likeliest next token: (B, V) -> (B,) ids, or (B, F) -> (B, F)."""
        raise NotImplementedError

    @property
    def ends(self) -> frozenset[int]:
        """The ids that end a sequence, where tokens are ids."""
        return frozenset()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._arguments == other._arguments

    def __hash__(self) -> int:
        return hash((type(self), repr(self._arguments)))
