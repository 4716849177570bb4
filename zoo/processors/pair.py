"""Two vocabularies beside a published model, one to read and one to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from zoo.processors.processor import Files, Processor
from zoo.processors.text import read_text, write_text
from zoo.settings import Config
from zoo.tokenizers import Ids

SIZES = {"tokenizer": "src_vocab_size", "target_tokenizer": "tgt_vocab_size"}


class TwoVocabularies(Processor):
    """FSMT's: ids of a source and of a target vocabulary, whose files want Moses' tokenization and are not read.

    ``begin`` is the key of the token with which a text begins.
    """

    def __init__(self, begin: str):
        self.begin = begin

    def read(self, config: Config, folder: Path | None) -> dict[str, Any]:
        found = {name: config | {"vocab_size": config[key]} for name, key in SIZES.items()}
        return {name: read_text(words, None, None, self.begin) for name, words in found.items()}

    def write(self, task: nn.Module) -> tuple[Config, Files]:
        found = {key: getattr(task, name) for name, key in SIZES.items()}
        for kind in (type(tokenizer) for tokenizer in found.values()):
            if not issubclass(kind, Ids):
                raise ValueError(f"two vocabularies are saved as Ids only, and one of this task's is a {kind.__name__}")
        config, files = write_text(task.target_tokenizer, self.begin)
        del config["vocab_size"]
        return config | {key: tokenizer.vocabulary for key, tokenizer in found.items()}, files
