"""Text as byte-level BPE tokens (Sennrich et al. 2016; bytes: Radford et al. 2019), on the tokenizers library."""

# Shapes: T tokens, V vocabulary.

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor

from zoo.atomic import write_text
from zoo.tokenizers.checked import checked
from zoo.tokenizers.reading import read_utf8
from zoo.tokenizers.text import TextTokenizer

SPECIAL = ("<pad>", "<bos>", "<eos>", "<mask>")
SHIPPED = Path(__file__).parent / "files"


class BPE(TextTokenizer):
    """Byte-level BPE: any text, in any language, comes back exactly.

    ``file`` is a ``tokenizer.json`` of the tokenizers library, or the name of a shipped one ("docs-2048"); without one,
    every byte is a token.  ``content`` is such a file's text, which is how a checkpoint carries its tokenizer.
    ``pad``, ``bos``, ``eos`` and ``mask`` name the special tokens; a sequence ends in ``eos``.
    Raises ValueError where the file is not a tokenizer.  For published tokenizers of any kind there is ``Subword``.
    """

    def __init__(
        self,
        file: str | None = None,
        content: str | None = None,
        pad: str = "<pad>",
        bos: str = "<bos>",
        eos: str = "<eos>",
        mask: str = "<mask>",
    ):
        self.content = content or (read(file) if file else bytes_only())
        self.backend = checked(self.content, file or "the content")
        self.backend.no_padding()
        self.backend.no_truncation()
        self.backend.encode_special_tokens = True  # a document may speak of "<eos>" without ending there
        self.names = {"pad": pad, "bos": bos, "eos": eos, "mask": mask}
        self._arguments = {"content": self.content, **self.names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.backend.encode_special_tokens = True  # the library forgets it on the way

    @property
    def vocabulary(self) -> int:
        return self.backend.get_vocab_size()

    def find(self, role: str) -> int | None:
        name = self.names[role]
        return None if name is None else self.backend.token_to_id(name)

    def tokens(self) -> dict[str, int]:
        return self.backend.get_vocab()

    def encode(self, raw: str) -> Tensor:
        return torch.tensor([*self.backend.encode(raw, add_special_tokens=False).ids, self.special("eos")])

    def prompt(self, raw: str) -> Tensor:
        return self.encode(raw)[:-1]

    def plain(self, raw: str) -> Tensor:
        return self.prompt(raw)

    def decode(self, value: Tensor) -> str:
        special = {self.backend.token_to_id(name) for name in self.names.values() if name}
        return self.backend.decode([i for i in value.tolist() if i not in special], skip_special_tokens=False)

    def sizes(self, device: torch.device) -> Tensor:
        """(V,) bytes that each token stands for; special tokens stand for none."""
        cache = self.__dict__.setdefault("_sizes", {})
        if device not in cache:
            names = set(self.names.values())
            tokens = (self.backend.id_to_token(i) or "" for i in range(self.vocabulary))
            cache[device] = torch.tensor([0 if t in names else len(t) for t in tokens], device=device)
        return cache[device]

    def published(self) -> str:
        """A ``tokenizer.json`` that adds the end of a sequence by itself, as ``encode`` does."""
        changed, end = Backend.from_str(self.content), self.names["eos"]
        changed.post_processor = processors.TemplateProcessing(
            single=f"$A {end}", pair=f"$A {end} $B {end}", special_tokens=[(end, self.special("eos"))]
        )
        return changed.to_str()

    def save(self, file: str) -> None:
        """Write a ``tokenizer.json``."""
        write_text(file, self.content)

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary: int, progress: bool = False) -> "BPE":
        """A new vocabulary of that size from ``texts``.  Raises ValueError below 256 bytes and the special tokens."""
        if vocabulary < 256 + len(SPECIAL):
            raise ValueError(
                f"vocabulary={vocabulary} is too small for the 256 bytes and {len(SPECIAL)} special tokens"
            )
        backend = Backend(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=list(SPECIAL),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=progress,
        )
        backend.train_from_iterator(texts, trainer)
        return cls(content=backend.to_str())

    @classmethod
    def train_files(cls, files: Sequence[str], vocabulary: int, out: str) -> "BPE":
        """Train on text files, a line at a time, with a progress bar, and write ``out``.  Raises ValueError where a
        file is missing or not UTF-8."""
        tokenizer = cls.train(lines(files), vocabulary, progress=sys.stderr.isatty())
        tokenizer.save(out)
        return tokenizer


def bytes_only() -> str:
    """The ``tokenizer.json`` in which every byte is a token."""
    symbols = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    backend = Backend(models.BPE(vocab={symbol: i for i, symbol in enumerate(symbols)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(list(SPECIAL))
    return backend.to_str()


def read(file: str) -> str:
    """The text of a ``tokenizer.json``, or of a shipped one by name."""
    path = Path(file) if Path(file).is_file() else SHIPPED / f"{file}.json"
    if not path.is_file():
        shipped = ", ".join(sorted(p.stem for p in SHIPPED.glob("*.json")))
        raise ValueError(f"no tokenizer file {file!r}, and no shipped one of that name (there are: {shipped})")
    try:
        content = read_utf8(path)
        if json.loads(content)["model"]["type"] == "BPE":
            return content
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise ValueError(f"{file} is not a BPE tokenizer.json of the tokenizers library")


def lines(files: Sequence[str]) -> Iterable[str]:
    for file in files:
        try:
            with open(file, encoding="utf8", newline="") as text:
                yield from text
        except FileNotFoundError:
            raise ValueError(f"no file {file!r} to train on") from None
        except UnicodeDecodeError as error:
            raise ValueError(f"{file} is not UTF-8: byte {error.start} cannot be read") from None
