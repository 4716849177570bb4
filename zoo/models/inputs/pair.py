"""Two vocabularies beside a published model, one to read and one to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from zoo.models.inputs.inputs import Config, Files, Inputs
from zoo.models.inputs.text import read_text, write_text
from zoo.tokenizers import Ids


class TwoVocabularies(Inputs):
    """FSMT's: ids of a source and of a target vocabulary, whose files want Moses' tokenization and are not read.

    ``begin`` is the key of the token with which a text begins.
    """

    def __init__(self, begin: str):
        self.begin = begin

    def read(self, config: Config, folder: Path | None) -> dict[str, Any]:
        return {
            name: read_text(config | {"vocab_size": config[key]}, None, None, self.begin)
            for name, key in (("tokenizer", "src_vocab_size"), ("target_tokenizer", "tgt_vocab_size"))
        }

    def write(self, task: nn.Module) -> tuple[Config, Files]:
        for tokenizer in (task.tokenizer, task.target_tokenizer):
            if not isinstance(tokenizer, Ids):
                raise ValueError(
                    f"two vocabularies are saved as Ids only, and one of this task's is a {type(tokenizer).__name__}"
                )
        config, files = write_text(task.target_tokenizer, self.begin)
        sizes = {"src_vocab_size": task.tokenizer.vocabulary, "tgt_vocab_size": config.pop("vocab_size")}
        return config | sizes, files
