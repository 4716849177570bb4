"""Tasks of ours -> directories as published."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from zoo.convert import State
from zoo.hub.anatomy import differences
from zoo.hub.files import write
from zoo.hub.source import Source, kept
from zoo.models import PUBLISHED, Architecture, Published
from zoo.models.published import Config, merge
from zoo.nn import GLU, MLP, Attention


def save(task: nn.Module, path: str | os.PathLike) -> Path:
    """Write a task as its family is published: config.json, model.safetensors (in shards above 5 GB), its tokenizer's
    files.  ``transformers``' ``from_pretrained`` reads the directory, and ``zoo.load``.

    Raises ValueError, before anything is written, where the task has no published form: parts that the family's files
    have no word for.
    """
    path, reasons = Path(path), []
    for published, name, architecture in candidates(task):
        try:
            config, texts = words(task, published, name)
            ours = {**tensors(task, architecture), **published.inputs.lacking(task)}
            complete(ours, published, config)
            state = published.table(config, architecture, architecture.prefix).save(ours)
            state |= published.constant(config)
        except ValueError as error:
            reasons.append(f"{name}: {error}")
            continue
        write(path, config, texts, {key: value.detach().cpu() for key, value in state.items()})
        return path
    kind, family = type(task).__name__, type(getattr(task, "backbone", None)).__name__
    raise ValueError(f"a {kind} with the backbone {family} has no published form" + "".join(f"; {r}" for r in reasons[:1]))


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
    more, texts = published.inputs.write(task)
    config = merge(merge(config, more), {**architecture.write(task), "architectures": [name]})
    if architecture.tied:
        config["tie_word_embeddings"] = all(
            task.get_parameter(copy) is task.get_parameter(original) for copy, original in architecture.tied
        )
    tokenizers = {slot: getattr(task, slot) for slot in ("tokenizer", "target_tokenizer") if getattr(task, slot)}
    with torch.device("meta"):
        again = Source("the new directory", published, published.complete(config)).task(tokenizers=tokenizers)
    for part, ours, theirs in differences(task, again):
        raise ValueError(f"{part} is {ours or 'nothing'} and would be {theirs or 'nothing'}")
    return config, texts


def complete(ours: State, published: Published, config: Config) -> None:
    """Raises ValueError where a model of this config has tensors that the task has not."""
    with torch.device("meta"):
        source = Source("the task", published, published.complete(config))
        source.check(ours, source.task())


def settled(backbone: nn.Module) -> dict[str, Any]:
    """A backbone's arguments, those that were left to its class filled in."""
    arguments = dict(backbone._arguments)
    modules = list(backbone.modules())
    if "hidden" in arguments and arguments["hidden"] is None:
        arguments["hidden"] = next(m.up.out_features for m in modules if isinstance(m, (MLP, GLU)))
    if "decoder_depth" in arguments and arguments["decoder_depth"] is None:
        arguments["decoder_depth"] = arguments["depth"]
    if "kv_heads" in arguments and arguments["kv_heads"] is None:
        arguments["kv_heads"] = arguments["heads"]
    if "head_dim" in arguments and arguments["head_dim"] is None:
        arguments["head_dim"] = next(m.head_dim for m in modules if isinstance(m, Attention))
    return arguments


def tensors(task: nn.Module, architecture: Architecture) -> State:
    """All weights but those that the files have no place for; a part that serves twice, such as the one tower of a
    sentence encoder, once."""
    seen: dict[int, str] = {}
    state: State = {}
    copies = {copy for copy, _ in architecture.tied}
    for name, weight in kept(task):
        if name not in architecture.absent and (seen.setdefault(id(weight), name) == name or name in copies):
            state[name] = weight
    return state
