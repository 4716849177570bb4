"""Text by a published vocabulary of any kind, on the tokenizers library."""

# Shapes: B batch, T tokens.

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer as Backend
from torch import Tensor

from zoo.tokenizers.text import TextTokenizer
from zoo.tokenizers.tokenizer import Embed, Tokens


class Subword(TextTokenizer):
    """A ``tokenizer.json`` of the tokenizers library: BPE, WordPiece, Unigram or words, with the special tokens that it
    adds by itself.

    ``file`` is the file, ``content`` its text, which is how a checkpoint carries it.  ``pad``, ``bos``, ``eos`` and
    ``mask`` name its special tokens, None where it has none; a decoder begins with ``bos``.  ``vocabulary`` is the
    number of ids where a model has more than the file.  Raises ValueError where the file is not a tokenizer or has no
    token of a name.
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
        stem: Callable[[int, TextTokenizer], Embed] | None = None,
    ):
        if content is None and file is None:
            raise ValueError("Subword needs a tokenizer.json; BPE.train makes a new one")
        self.content = content if content is not None else _text(Path(str(file)))
        try:
            self.backend = Backend.from_str(self.content)
        except Exception as error:  # the library raises plain Exceptions
            raise ValueError(f"{file or 'the content'} is no tokenizer.json of the tokenizers library ({error})") from None
        self.backend.no_padding()
        self.backend.no_truncation()
        self.names = {"pad": pad, "bos": bos, "eos": eos, "mask": mask}
        for role, name in self.names.items():
            if name is not None and self.backend.token_to_id(name) is None:
                raise ValueError(f"{file or 'the tokenizer'} has no token {name!r} to be its {role}")
        self.vocabulary, self.stem = vocabulary or self.backend.get_vocab_size(), stem
        if self._arguments is not None:
            self._arguments |= {"file": None, "content": self.content}

    def find(self, role: str) -> int | None:
        name = self.names[role]
        return None if name is None else self.backend.token_to_id(name)

    def encode(self, raw: str | tuple[str, str]) -> Tensor:
        """A text, or a pair of texts in one sequence -> (T,) ids."""
        return torch.tensor(self._encoding(raw).ids)

    def decode(self, value: Tensor) -> str:
        return self.backend.decode(value.tolist(), skip_special_tokens=True)

    def published(self) -> str:
        """The ``tokenizer.json``."""
        return self.content

    def pairs(self, first: Sequence[str], second: Sequence[str]) -> Tokens:
        """Pairs of texts -> Tokens whose ``types`` are 0 in the first text and 1 in the second."""
        encodings = [self._encoding(pair) for pair in zip(first, second, strict=True)]
        tokens = self.collate([torch.tensor(encoding.ids) for encoding in encodings])
        types = [torch.tensor(encoding.type_ids) for encoding in encodings]
        tokens.types = torch.nn.utils.rnn.pad_sequence(types, batch_first=True)
        return tokens

    def _encoding(self, raw: str | tuple[str, str]):
        return self.backend.encode(raw) if isinstance(raw, str) else self.backend.encode(*raw)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf8")
    except FileNotFoundError:
        raise ValueError(f"no tokenizer file {str(file)!r}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8: byte {error.start} cannot be read") from None
