"""Text by a published vocabulary of any kind, on the tokenizers library."""

# Shapes: B batch, T tokens.

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Encoding, Regex, decoders
from tokenizers import Tokenizer as Backend
from torch import Tensor

from zoo.tokenizers.checked import checked, survived
from zoo.tokenizers.reading import read_utf8
from zoo.tokenizers.text import TextTokenizer
from zoo.tokenizers.tokenizer import Embed, Tokens


class Subword(TextTokenizer):
    """A ``tokenizer.json`` of the tokenizers library: BPE, WordPiece, Unigram or words, with the special tokens that it
    adds by itself.

    ``file`` is the file, ``content`` its text, which is how a checkpoint carries it.  ``pad``, ``bos``, ``eos`` and
    ``mask`` name its special tokens, None where it has none; a decoder begins with ``bos``.  ``vocabulary`` is the
    number of ids where a model has others than the file.  With ``literal``, the name of a special token in a text is a
    text like any other.  Raises ValueError where the file is not a tokenizer or has no token of a name.
    """

    def __init__(
        self,
        file: str | None = None,
        content: str | None = None,
        vocabulary: int | None = None,
        pad: str | None = None,
        bos: str | None = None,
        eos: str | None = None,
        mask: str | None = None,
        literal: bool = False,
        stem: Callable[[int, TextTokenizer], Embed] | None = None,
    ):
        if content is None and file is None:
            raise ValueError("Subword needs a tokenizer.json; BPE.train makes a new one")
        self.content = content if content is not None else read_utf8(Path(str(file)))
        self.backend = checked(self.content, file or "the content")
        self.backend.no_padding()
        self.backend.no_truncation()
        self.backend.encode_special_tokens = literal
        self.names = {"pad": pad, "bos": bos, "eos": eos, "mask": mask}
        for role, name in self.names.items():
            if name is not None and self.backend.token_to_id(name) is None:
                raise ValueError(f"{file or 'the tokenizer'} has no token {name!r} to be its {role}")
        self.vocabulary = vocabulary or size(self.backend)
        self.literal, self.stem = literal, stem
        self.begins = bos is not None and self.backend.encode("").ids[:1] == [self.backend.token_to_id(bos)]
        if self._arguments is not None:
            self._arguments |= {"file": None, "content": self.content}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.backend.encode_special_tokens = self.literal  # the library forgets it on the way

    def find(self, role: str) -> int | None:
        name = self.names[role]
        return None if name is None else self.backend.token_to_id(name)

    def tokens(self) -> dict[str, int]:
        return self.backend.get_vocab()

    def encode(self, raw: str | tuple[str, str]) -> Tensor:
        """A text, or a pair of texts in one sequence -> (T,) ids."""
        return self._ids(self._encoding(raw))

    def prompt(self, raw: str) -> Tensor:
        ids, end = self.encode(raw), self.find("eos")
        return ids[:-1] if end is not None and len(ids) and ids[-1] == end else ids

    def plain(self, raw: str) -> Tensor:
        return self._ids(self._encoding(raw, special=False))

    def decode(self, value: Tensor) -> str:
        text = self.backend.decode(value.tolist(), skip_special_tokens=True)
        end = self.word_end
        return text.replace(end, " ").strip() if end else text

    @functools.cached_property
    def word_end(self) -> str | None:
        """The mark at the end of a word, which the library's decoder of bytes leaves standing (CLIP)."""
        decoder = self.backend.decoder
        bytes_only = decoder is not None and json.loads(decoder.__getstate__())["type"] == "ByteLevel"
        return getattr(self.backend.model, "end_of_word_suffix", None) if bytes_only else None

    def published(self) -> str:
        """The ``tokenizer.json``; where it left the marks at the ends of words standing, it takes them away."""
        end = self.word_end
        if not end:
            return self.content
        backend = Backend.from_str(self.content)
        last = Regex(re.escape(end) + r"\z")  # decoders.Strip would panic on a sequence without text
        steps = [decoders.ByteLevel(), decoders.Replace(last, ""), decoders.Replace(end, " ")]
        backend.decoder = decoders.Sequence(steps)
        return backend.to_str()

    def pairs(self, first: Sequence[str], second: Sequence[str]) -> Tokens:
        """Pairs of texts -> Tokens whose ``types`` are 0 in the first text and 1 in the second."""
        encodings = [self._encoding(pair) for pair in zip(first, second, strict=True)]
        tokens = self.collate([self._ids(encoding) for encoding in encodings])
        types = [torch.tensor(encoding.type_ids, dtype=torch.long) for encoding in encodings]
        tokens.types = torch.nn.utils.rnn.pad_sequence(types, batch_first=True)
        return tokens

    def _encoding(self, raw: str | tuple[str, str], special: bool = True) -> Encoding:
        pair = (raw, None) if isinstance(raw, str) else raw
        try:
            return survived(lambda: self.backend.encode(*pair, add_special_tokens=special))
        except ValueError as error:
            raise ValueError(f"the tokenizer cannot read {str(raw)[:60]!r} ({error})") from None

    def _ids(self, encoding: Encoding) -> Tensor:
        ids = torch.tensor(encoding.ids, dtype=torch.long)
        if len(ids) and ids.max() >= self.vocabulary:
            token = encoding.tokens[int(ids.argmax())]
            raise ValueError(
                f"the token {token!r} has the id {int(ids.max())}, and the model has {self.vocabulary} ids"
            )
        return ids


def size(backend: Backend) -> int:
    """The number of ids up to the last; a file may leave some out."""
    return max(backend.get_vocab().values(), default=-1) + 1
