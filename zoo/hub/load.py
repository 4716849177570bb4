"""Published checkpoints -> tasks, backbones and tokenizers of ours."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from zoo.convert import State
from zoo.hub.source import Source, kept
from zoo.nn import Backbone, EncoderDecoder, Init
from zoo.precision import Precision, for_inference
from zoo.settings import at
from zoo.tokenizers import Tokenizer

log = logging.getLogger(__name__)

BESIDE = ("head", "pool", "projection")  # what a task may have otherwise than the checkpoint


class AnyBackbone(Backbone, EncoderDecoder):  # type: ignore[misc]
    """Either of the two, for configs that ask what ``load_backbone`` returns; there is no such object."""


def load(
    source: str | os.PathLike,
    *,
    changes: dict[str, Any] | None = None,
    revision: str | None = None,
    precision: Precision | None = None,
) -> nn.Module:
    """A published checkpoint -> its task with its tokenizer, in float32 and evaluation mode (``fit`` trains it).

    ``source`` is a directory as published (config.json beside model.safetensors, shards with an index, or
    pytorch_model.bin), the id of a repository on the hub, or "timm:" and the name of one of timm's ViTs.  ``changes``
    to the backbone's arguments, such as ``{"dropout": 0.1}`` or ``{"grid": 24}``.  With a ``precision``, which may be
    "fp32", "bf16", "int8" or "int4", it is for inference alone, as ``for_inference`` says.

    Raises ValueError, naming file and tensor or key, for what is missing, damaged or of another shape; OSError where a
    download fails.
    """
    found = Source.read(source, revision)
    found.settle_ties()
    with at(f"{source}/config.json" + " with the changes" * bool(changes)), torch.device("meta"):
        task = found.task(changes)
    state = found.translate()
    for name in found.published.halves:
        found.fit_grid(state, name, getattr(task, name))
    found.check(state, task)
    fill(task, state)
    task.to("cpu")  # all is there already; Lightning takes note of it
    task.unread = found.unread
    return task.eval() if precision is None else for_inference(task, precision)


def load_backbone(
    source: str,
    changes: dict[str, Any] | None = None,
    name: str = "backbone",
    weights: str | None = None,
    revision: str | None = None,
) -> AnyBackbone:
    """A published checkpoint -> its backbone alone, ready to be trained, for a task or a LightningModule of your own.

    ``source`` and ``changes`` are those of ``load``; ``name`` is "target_backbone" for the second of two towers;
    ``weights`` is a file to read in place of the published one.  What else the checkpoint holds (embedding, pool, head)
    goes into the parts of the task that it fits; a head for other classes stays new.

    Raises as ``load`` does.
    """
    found = Source.read(source, revision, weights)
    with at(f"{source}/config.json" + " with the changes" * bool(changes)), torch.device("meta"):
        built = found.backbones(changes, name)
    state, backbone = found.translate(), built[name]
    found.fit_grid(state, name, backbone)
    own = {key: value for key, value in state.items() if key.startswith(name + ".")}
    found.check(own, nn.ModuleDict({name: backbone}))
    fill(backbone, {key.removeprefix(name + "."): value for key, value in own.items()})
    side = name.removesuffix("backbone")  # "target_" for the second tower
    trunks = tuple(f"{half}." for half in built)
    rest = {key: value for key, value in state.items() if key.startswith(side) and not key.startswith(trunks)}
    rest = {key.removeprefix(side): value for key, value in rest.items()}
    backbone.init = Pretrained(found.name, rest, backbone.init)
    return backbone


def load_tokenizer(source: str, target: bool = False, revision: str | None = None) -> Tokenizer:
    """The tokenizer of a published checkpoint, or that of its ``target`` where it writes another modality or language
    than it reads.  Raises as ``load`` does."""
    found = Source.describe(source, revision)
    tokenizers = found.published.processor.read(found.config, found.place)
    return tokenizers["target_tokenizer" if target and "target_tokenizer" in tokenizers else "tokenizer"]


class Pretrained(Init):
    """First values from a checkpoint, for the parts that a task puts around a loaded backbone."""

    def __init__(self, source: str, state: State, fallback: Init):
        super().__init__(fallback.std)
        self.source, self.state, self.fallback = source, state, fallback
        self.filled: dict[nn.Parameter, Tensor] = {}

    def __call__(self, module: nn.Module, depth: int = 0, name: str = "backbone") -> None:
        if not any(key.startswith(name + ".") for key in self.state):
            name = name.removeprefix("target_")
        own = {key.removeprefix(name + "."): v for key, v in self.state.items() if key.startswith(name + ".")}
        places = dict(kept(module))
        self.fallback(module, depth, name)
        with torch.no_grad():
            for weight, value in self.filled.items():  # a head that shares the embedding's table was just begun anew
                weight.copy_(value)
            for key, value in own.items():
                if key not in places:
                    self.differ(name, f"{name}.{key} has no place in {type(module).__name__}")
                elif places[key].shape != value.shape:
                    here, there = tuple(places[key].shape), tuple(value.shape)
                    self.differ(name, f"{name}.{key} has the shape {there} and the task's has {here}")
                else:
                    places[key].copy_(value)
                    self.filled[places[key]] = value

    def differ(self, name: str, what: str) -> None:
        if name not in BESIDE:
            raise ValueError(f"{self.source}: {what}; zoo.load_tokenizer gives the tokenizer of the weights")
        log.warning("%s: %s, so the task's own stays new", self.source, what)


def fill(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Make a module's parameters and buffers those of ``state``; shared ones stay shared."""
    made: dict[int, nn.Parameter] = {}
    for path, part in module.named_modules():
        for name, old in [*part._parameters.items(), *part._buffers.items()]:
            key = f"{path}.{name}" if path else name
            if old is None or (key not in state and not old.is_meta):
                continue
            value = state[key].to(torch.float32) if state[key].is_floating_point() else state[key]
            if name in part._buffers:
                part._buffers[name] = value
            else:
                part._parameters[name] = made.setdefault(id(old), nn.Parameter(value, old.requires_grad))
