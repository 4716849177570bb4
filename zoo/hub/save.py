"""Tasks of ours -> directories as published."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from zoo.convert import State
from zoo.files import write
from zoo.generation import settings
from zoo.hub.source import GENERATION, Source, kept
from zoo.models import PUBLISHED, Architecture, Published
from zoo.nn import GLU, MLP, Attention
from zoo.parts import differences
from zoo.precision import prepared
from zoo.precision.layers import unsaved
from zoo.settings import Config, merge


def save(task: nn.Module, path: str | os.PathLike) -> Path:
    """Write a task as its family is published: config.json, model.safetensors (in shards above 5 GB), its tokenizer's
    files.  ``transformers``' ``from_pretrained`` reads the directory, and ``zoo.load``.

    Raises ValueError, before anything is written, where the task has no published form: parts that the family's files
    have no word for.
    """
    if made := prepared(task):
        raise unsaved(made)
    path, reasons = Path(path), []
    for published, name, architecture in candidates(task):
        try:
            config, texts = words(task, published, name)
            table = published.table(config, architecture, architecture.prefix)
            state = table.save(tensors(task, published, architecture)) | published.constant(config)
            state |= task.unread if architecture.unread else {}
        except ValueError as error:
            reasons.append(f"{name}: {error}")
            continue
        write(path, config, texts, {key: value.detach().cpu() for key, value in state.items()})
        return path
    kind, family = type(task).__name__, type(getattr(task, "backbone", None)).__name__
    raise ValueError(
        f"a {kind} with the backbone {family} has no published form" + "".join(f"; {r}" for r in reasons[:1])
    )


def candidates(task: nn.Module) -> Iterator[tuple[Published, str, Architecture]]:
    """The published models that have this task and these backbones, the main one of a family first."""
    for published in PUBLISHED:
        if all(type(getattr(task, name, None)) is half.family for name, half in published.halves.items()):
            for name, architecture in published.architectures.items():
                if architecture.task == type(task).__name__:
                    yield published, name, architecture


def words(task: nn.Module, published: Published, name: str) -> tuple[Config, dict[str, str]]:
    """config.json and the files of the tokenizers.  Raises ValueError where a task built from them would differ."""
    architecture = published.architectures[name]
    config = published.config({half: settled(getattr(task, half)) for half in published.halves})
    more, texts = published.processor.write(task)
    config = merge(merge(config, more), {**architecture.write(task), "architectures": [name]})
    if architecture.tied:
        pairs = [(task.get_parameter(copy), task.get_parameter(original)) for copy, original in architecture.tied]
        config["tie_word_embeddings"] = all(copy is original for copy, original in pairs)
    tokenizers = {slot: getattr(task, slot) for slot in ("tokenizer", "target_tokenizer") if getattr(task, slot)}
    source = Source("the task", published, published.complete(config))
    with torch.device("meta"):
        again, whole = source.task(given=tokenizers), source.task()
    for part, ours, theirs in differences(task, again):
        raise ValueError(f"{part} is {ours or 'nothing'} and would be {theirs or 'nothing'}")
    source.check(tensors(task, published, architecture), whole)
    return config, texts | writing(task, config)


def writing(task: nn.Module, config: Config) -> dict[str, str]:
    """The file about how it writes, where it writes and wants anything."""
    generation = getattr(task, "generation", None)
    words = settings.write(generation, config.get("decoder_start_token_id")) if generation else {}
    if not words:
        return {}
    tokens = {
        key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id") if config.get(key) is not None
    }
    return {GENERATION: json.dumps(tokens | words, indent=2) + "\n"}


def settled(backbone: nn.Module) -> dict[str, Any]:
    """A backbone's arguments, those that were left to its class filled in."""
    arguments, modules = dict(backbone._arguments), list(backbone.modules())
    usual = {
        "hidden": lambda: next(part.up.out_features for part in modules if isinstance(part, (MLP, GLU))),
        "head_dim": lambda: next(part.head_dim for part in modules if isinstance(part, Attention)),
        "kv_heads": lambda: arguments["heads"],
        "decoder_depth": lambda: arguments["depth"],
        "decoder_hidden": lambda: next(part.up.out_features for part in modules if isinstance(part, (MLP, GLU))),
    }
    return {name: usual[name]() if value is None and name in usual else value for name, value in arguments.items()}


def tensors(task: nn.Module, published: Published, architecture: Architecture) -> State:
    """What the files of an architecture hold: all weights but those that they have no place for, a part that serves
    twice (the one tower of a sentence encoder) once, and what the task lacks."""
    seen: dict[int, str] = {}
    copies = {copy for copy, _ in architecture.tied}
    found = [(name, seen.setdefault(id(weight), name), weight) for name, weight in kept(task)]
    own = {name: w for name, first, w in found if name not in architecture.absent and (name == first or name in copies)}
    return {**own, **published.processor.lacking(task)}
