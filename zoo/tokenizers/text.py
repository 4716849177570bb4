"""Text as token ids: what all vocabularies share."""

# Shapes: B batch, T tokens, V vocabulary, D model width, N tokens taken from anywhere in a batch.

import difflib
import itertools
import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from zoo.nn import HeadFactory, Project, cross_entropy, plain_cross_entropy
from zoo.nn.cross_entropy import largest
from zoo.tokenizers.tokenizer import Embed, Scores, Tokenizer, Tokens

Pieces = list[tuple[str, str]]  # (text, mark), see zoo.pictures
EMPTY = "\N{EMPTY SET}"  # a token without text
LINE_END = "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}"
WORDS = re.compile(r"\s*(?:\w+|[^\w\s]|$)")  # with the spaces before them


class TextTokenizer(Tokenizer):
    """Base of the tokenizers whose tokens are ids below ``vocabulary``.

    Predictions are scored by cross-entropy.  ``stem`` builds the embedding as ``stem(dim, tokenizer)``; None for one
    trained vector a token.
    """

    modality = "text"
    vocabulary: int
    begins = False  # does ``encode`` put the "bos" token down by itself?
    names: dict[str, str | None] = {}  # the special tokens' texts, by their roles
    stem: Callable[..., Embed] | None = None

    def find(self, role: str) -> int | None:
        """The id of the "pad", "bos", "eos" or "mask" token, or None where there is none."""
        raise NotImplementedError

    def special(self, role: str) -> int:
        """The same, with a ValueError where there is none."""
        index = self.find(role)
        if index is None:
            name = f" {self.names[role]!r}" if self.names.get(role) else ""
            raise ValueError(
                f"the vocabulary has no {role} token{name}; give {type(self).__name__}({role}=...) its name"
            )
        return index

    @property
    def start(self) -> int | None:
        return self.find("bos")

    @property
    def nothing(self) -> Tensor:
        return torch.zeros(0, dtype=torch.long)

    def tokens(self) -> dict[str, int]:
        """The ids by their tokens, where these are known."""
        return {}

    def agrees(self, other: Tokenizer) -> bool:
        """Do the same ids mean the same tokens, whatever the files look like that say so?"""
        if not isinstance(other, TextTokenizer):
            return False
        return self.vocabulary == other.vocabulary and self.tokens() == other.tokens()

    @property
    def filler(self) -> int:
        return self.find("pad") or 0

    def embed(self, dim: int) -> Embed:
        return (self.stem or TextEmbed)(dim, self)

    def head(self, dim: int, tied: Embed | None = None, make: HeadFactory | None = None) -> nn.Module:
        make = make or partial(Project, bias=False)
        return make(dim, self.vocabulary, None if tied is None else tied.vectors())

    def written(self, tokens: Tokens) -> Tokens:
        if not self.begins:
            return tokens
        return Tokens(tokens.value[:, 1:], None if tokens.padding is None else tokens.padding[:, 1:])

    def score(self, prediction: Tensor, target: Tensor, smoothing: float = 0.0) -> Scores:
        """ "loss" in nats a token, "accuracy", and without smoothing "bits_per_byte" where bytes can be counted."""
        return self._scores(*plain_cross_entropy(prediction, target, smoothing), target, smoothing)

    def score_states(self, head: nn.Module, states: Tensor, target: Tensor, smoothing: float = 0.0) -> Scores:
        """The same scores, without all predictions in memory where the head allows it: see ``zoo.cross_entropy``."""
        return self._scores(*cross_entropy(head, states, target, smoothing), target, smoothing)

    def _scores(self, loss: Tensor, right: Tensor, target: Tensor, smoothing: float) -> Scores:
        count = torch.tensor(len(target), device=loss.device)
        scores = {"loss": (loss, count), "accuracy": (right, count)}
        sizes = self.sizes(target.device)
        if smoothing == 0 and sizes is not None:
            scores["bits_per_byte"] = (loss.detach() / math.log(2), sizes[target].sum())
        return scores

    def derive(self, means: dict[str, float]) -> dict[str, float]:
        return {"perplexity": math.exp(min(means["loss"], 700.0))} if "loss" in means else {}

    def choose(self, prediction: Tensor) -> Tensor:
        return largest(prediction)

    @property
    def ends(self) -> frozenset[int]:
        end = self.find("eos")
        return frozenset() if end is None else frozenset({end})

    def pieces(self, value: Tensor, marks: list[str]) -> Pieces:
        """(T,) ids and a mark for each -> the text, cut where the mark changes.  Marked tokens that have no text, such
        as the end of a sequence, are seen as one letter."""
        out: Pieces = []
        start, before = 0, ""
        for mark, group in itertools.groupby(marks):
            end = start + len(list(group))
            after = self.decode(value[:end])
            # what the run adds to the text before it, which its own decoding may lack: spaces between words
            text = after[len(before) :] if after.startswith(before) else self.decode(value[start:end])
            if text or mark:
                out.append((text or EMPTY, mark))
            start, before = end, after
        return out

    def guessed(self, truth: Tensor, guess: Tensor, hidden: Tensor) -> dict[str, Any]:
        right = (truth == guess).tolist()
        guesses = ["" if not h else "right" if r else "wrong" for h, r in zip(hidden.tolist(), right, strict=True)]
        columns = {
            "passage": self.pieces(truth, ["hidden" if h else "" for h in hidden.tolist()]),
            "with the guesses": self.pieces(guess, guesses),
        }
        return {
            heading: [(text.replace("\n", LINE_END) if mark else text, mark) for text, mark in pieces]
            for heading, pieces in columns.items()
        }

    def continued(self, truth: Tensor, written: Tensor, given: int) -> dict[str, Any]:
        def marked(value: Tensor, mark: str) -> Pieces:
            return self.pieces(value, [""] * given + [mark] * (len(value) - given))

        return {"original": marked(truth, "hidden"), "continued": marked(written, "new")}

    def against(self, value: Tensor, reference: Tensor) -> Pieces:
        """Words that do not stand in the reference, in its order, are marked "other"; where all is equal, "right"."""
        words, others = (WORDS.findall(self.decode(side)) for side in (value, reference))
        bare, wanted = ([word.strip() for word in side] for side in (words, others))
        if bare == wanted:
            return [("".join(words) or EMPTY, "right")]
        same: set[int] = set()
        for block in difflib.SequenceMatcher(None, bare, wanted, autojunk=False).get_matching_blocks():
            same |= set(range(block.a, block.a + block.size))
        pieces = [(word, "" if i in same else "other") for i, word in enumerate(words) if word]
        return pieces or [(EMPTY, "other")]

    def labels(self, value: Tensor) -> list[str]:
        return [self.decode(token[None]) or EMPTY for token in value]

    def sizes(self, device: torch.device) -> Tensor | None:
        """(V,) bytes that each token stands for, where tokens stand for bytes."""
        return None


class TextEmbed(Embed):
    """A table with one trained vector a token, and one for each of ``types`` texts in a sequence (BERT: 2)."""

    def __init__(self, dim: int, tokenizer: TextTokenizer, types: int = 0):
        super().__init__()
        self.table = nn.Embedding(tokenizer.vocabulary, dim)
        self.types = nn.Embedding(types, dim) if types else None
        self.tokenizer = tokenizer

    def forward(
        self,
        value: Tensor,
        hidden: Tensor | None = None,
        types: Tensor | None = None,
        padding: Tensor | None = None,
    ) -> Tensor:
        if hidden is not None:
            value = value.masked_fill(hidden, self.tokenizer.special("mask"))
        x = self.table(value)
        if self.types is None:
            return x
        return x + (self.types.weight[0] if types is None else self.types(types))

    def vectors(self) -> nn.Parameter:
        return self.table.weight

    def start(self, batch: int) -> Tensor:
        return self.table.weight[self.tokenizer.special("bos")].expand(batch, 1, -1)


class Ids(TextTokenizer):
    """Token ids without their texts: ``vocabulary`` of them, for models that come without a tokenizer's file."""

    def __init__(
        self,
        vocabulary: int,
        pad: int | None = None,
        bos: int | None = None,
        eos: int | None = None,
        mask: int | None = None,
        stem: Callable[[int, TextTokenizer], Embed] | None = None,
    ):
        self.vocabulary, self.stem = vocabulary, stem
        self.roles = {"pad": pad, "bos": bos, "eos": eos, "mask": mask}

    def find(self, role: str) -> int | None:
        return self.roles[role]

    def encode(self, raw: list[int]) -> Tensor:
        """Ids, as they are.  Raises ValueError for text."""
        if isinstance(raw, str):
            raise ValueError("there is no tokenizer.json beside this model, so it reads token ids but no text")
        return torch.as_tensor(raw)

    def decode(self, value: Tensor) -> str:
        return " ".join(map(str, value.tolist()))
