"""Text beside a published model: tokenizer.json or older files, and the special tokens."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from zoo.convert import State
from zoo.models.inputs.inputs import Config, Files, Inputs
from zoo.tokenizers import BPE, Embed, Ids, Subword, TextTokenizer
from zoo.tokenizers.vocabularies import backend_file

ROLES = ("pad", "bos", "eos", "mask")


class TextInputs(Inputs):
    """One vocabulary: tokenizer.json, or the older files, beside config.json.

    ``stem`` makes the embedding that goes with a config, None for the plain table.  ``begin`` is the key of the token
    with which a decoder begins.  ``types`` is true where the files have a table of sentence types.
    """

    def __init__(
        self,
        stem: Callable[[Config], Callable[..., Embed] | None] = lambda config: None,
        begin: str = "bos_token_id",
        types: bool = False,
    ):
        self.stem, self.begin, self.types = stem, begin, types

    def read(self, config: Config, folder: Path | None) -> dict[str, Any]:
        return {"tokenizer": read_text(config, folder, self.stem(config), self.begin)}

    def write(self, task: nn.Module) -> tuple[Config, Files]:
        config, files = write_text(task.tokenizer, self.begin)
        table = task.embed.types
        return config | ({"type_vocab_size": table.num_embeddings if table else 1} if self.types else {}), files

    def lacking(self, task: nn.Module) -> State:
        if not self.types or task.embed.types is not None:
            return {}
        return {"embed.types.weight": torch.zeros(1, task.backbone.dim)}


def read_text(
    config: Config, folder: Path | None, stem: Callable[..., Embed] | None, begin: str, prefix: str = ""
) -> TextTokenizer:
    """The text tokenizer of a checkpoint; without a tokenizer's file, one that knows ids only."""
    numbers = {role: config.get(f"{role}_token_id") for role in ROLES} | {"bos": config.get(begin)}
    numbers = {role: n[0] if isinstance(n, list) else n for role, n in numbers.items()}
    content = backend_file(folder, config["model_type"]) if folder else None
    if content is None:
        return Ids(config["vocab_size"], **numbers, stem=stem)
    found = json.loads((folder / "tokenizer_config.json").read_text("utf8")) if (folder / "tokenizer_config.json").is_file() else {}
    plain = Subword(content=content)
    names = {}
    for role in ROLES:
        name = found.get(f"{role}_token") if role != "bos" or begin == "bos_token_id" else None
        name = name.get("content") if isinstance(name, dict) else name
        if name is None and numbers[role] is not None:
            name = plain.backend.id_to_token(numbers[role])
        names[role] = name if name is not None and plain.backend.token_to_id(name) is not None else None
    return Subword(content=content, vocabulary=config["vocab_size"], **names, stem=stem)


def write_text(tokenizer: TextTokenizer, begin: str) -> tuple[Config, Files]:
    """What config.json says about a text tokenizer, and its files."""
    keys = {role: begin if role == "bos" else f"{role}_token_id" for role in ROLES if role != "mask"}
    config = {"vocab_size": tokenizer.vocabulary, **{key: tokenizer.find(role) for role, key in keys.items()}}
    if isinstance(tokenizer, Ids):
        return config, {}
    assert isinstance(tokenizer, (BPE, Subword))
    names = {f"{role}_token": name for role, name in tokenizer.names.items() if name is not None}
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **names}
    return config, {"tokenizer.json": tokenizer.published(), "tokenizer_config.json": json.dumps(about, indent=2) + "\n"}
