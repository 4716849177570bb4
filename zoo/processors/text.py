"""Text beside a published model: tokenizer.json or older files, and the special tokens."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer as Backend
from torch import nn

from zoo.convert import State
from zoo.processors.processor import Files, Processor
from zoo.settings import Config
from zoo.tokenizers import BPE, Embed, Ids, Subword, TextTokenizer
from zoo.tokenizers.vocabularies import backend_file, settings, stated, usual

log = logging.getLogger(__name__)

ROLES = ("pad", "bos", "eos", "mask")


class TextProcessor(Processor):
    """One vocabulary: tokenizer.json, or the older files, beside config.json.

    ``stem`` makes the embedding that goes with a config, None for the plain table.  ``begin`` is the key of the token
    with which a decoder begins.  ``types`` is the least number of sentence types that the family's files tell apart
    (BERT: 1), None where they have no such table.
    """

    def __init__(
        self,
        stem: Callable[[Config], Callable[..., Embed] | None] = lambda config: None,
        begin: str = "bos_token_id",
        types: int | None = None,
    ):
        self.stem, self.begin, self.types = stem, begin, types

    def read(self, config: Config, folder: Path | None) -> dict[str, Any]:
        return {"tokenizer": read_text(config, folder, self.stem(config), self.begin)}

    def write(self, task: nn.Module) -> tuple[Config, Files]:
        if self.types is None:
            return write_text(task.tokenizer, self.begin)
        table = task.embed.types
        types = self.types if table is None else table.num_embeddings
        config, files = write_text(task.tokenizer, self.begin, types > 1)
        return config | {"type_vocab_size": types}, files

    def lacking(self, task: nn.Module) -> State:
        if not self.types or task.embed.types is not None:
            return {}
        return {"embed.types.weight": torch.zeros(self.types, task.backbone.dim)}


def read_text(config: Config, folder: Path | None, stem: Callable[..., Embed] | None, begin: str) -> TextTokenizer:
    """The text tokenizer of a checkpoint; without a tokenizer's file, one that knows ids only.

    Special tokens are those that the tokenizer's files name, else those of config.json's ids (``begin`` is the key of
    the one that begins a text), else the usual ones of the kind.  Raises ValueError for damaged files and values.
    """
    try:
        size, numbers = count(config), {role: number(config, key) for role, key in keys(begin).items()}
    except ValueError as error:
        raise ValueError(f"{folder}/config.json: {error}" if folder else str(error)) from None
    content = backend_file(folder, config["model_type"]) if folder else None
    if content is None or folder is None:
        return Ids(size, **numbers, stem=stem)
    about, backend = settings(folder), Backend.from_str(content)
    named, common = stated(about), usual(about, config["model_type"])
    if begin != "bos_token_id":
        named.pop("bos", None)
    names = {}
    for role, index in numbers.items():
        choices = (named.get(role), None if index is None else backend.id_to_token(index), common.get(role))
        names[role] = next((name for name in choices if name and backend.token_to_id(name) is not None), None)
    found = max(backend.get_vocab().values(), default=-1) + 1
    if found > size:
        log.warning(
            "%s: its tokenizer has %s tokens and the model %s, so some texts cannot be read", folder, found, size
        )
    return Subword(None, content, size, **names, literal=about.get("split_special_tokens") is True, stem=stem)


def keys(begin: str) -> dict[str, str]:
    return {role: begin if role == "bos" else f"{role}_token_id" for role in ROLES}


def count(config: Config) -> int:
    size = config["vocab_size"]
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(f"vocab_size={size!r} is no number of tokens")
    return size


def number(config: Config, key: str) -> int | None:
    """The id at a key, or the first of several; None where there is none, or none in the vocabulary."""
    value = config.get(key)
    index = (value[0] if value else None) if isinstance(value, list) else value
    if index is not None and (isinstance(index, bool) or not isinstance(index, int)):
        raise ValueError(f"{key}={value!r} is no token id")
    if index is not None and index >= config["vocab_size"]:
        log.warning("%s=%s is not below vocab_size=%s, so there is no such token", key, index, config["vocab_size"])
    return index if index is not None and 0 <= index < config["vocab_size"] else None


def write_text(tokenizer: TextTokenizer, begin: str, types: bool = False) -> tuple[Config, Files]:
    """What config.json says about a text tokenizer, and its files; ``types`` where the model tells sentences apart."""
    config = {"vocab_size": tokenizer.vocabulary}
    found = {key: tokenizer.find(role) for role, key in keys(begin).items()}
    config |= {key: index for key, index in found.items() if key != "mask_token_id" or index is not None}
    if isinstance(tokenizer, Ids):
        return config, {}
    if not isinstance(tokenizer, (BPE, Subword)):
        raise ValueError(f"a {type(tokenizer).__name__} has no tokenizer.json; Subword, BPE and Ids are saved")
    names = {f"{role}_token": name for role, name in tokenizer.names.items() if name is not None}
    if begin != "bos_token_id":
        names.pop("bos_token", None)
    about = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", *(["token_type_ids"] if types else []), "attention_mask"],
        **names,
    }
    if isinstance(tokenizer, BPE) or tokenizer.literal:
        about["split_special_tokens"] = True
    return config, {
        "tokenizer.json": tokenizer.published(),
        "tokenizer_config.json": json.dumps(about, indent=2) + "\n",
    }
