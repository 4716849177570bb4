"""A published checkpoint: its family recognised from config.json, its tensors translated and checked."""

from __future__ import annotations

import difflib
import inspect
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import zoo
from zoo.convert import State, Table, pattern
from zoo.files import Weights, folder, read_weights
from zoo.generation import Generation, settings
from zoo.hub import timm
from zoo.models import PUBLISHED, Architecture, Published
from zoo.models.published import Half
from zoo.nn import Learned2d, resize_grid
from zoo.settings import Config, at, merge
from zoo.tokenizers.reading import read_json

log = logging.getLogger(__name__)

GENERATION = "generation_config.json"
OLDER = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}  # as old files call them -> as new


@dataclass
class Source:
    """What a checkpoint says about itself."""

    name: str  # as the user gave it
    published: Published
    config: Config  # complete
    place: Path | None = None  # its directory
    weights: Weights = field(default_factory=lambda: Weights({}, {}))
    unread: State = field(default_factory=dict)  # of the weights, what no task of ours reads

    @classmethod
    def describe(cls, source: str | os.PathLike, revision: str | None = None, weights: str | None = None) -> Source:
        """Without its weights, unless they come along.  Raises ValueError or OSError, in one sentence, for what is not
        there, damaged or unknown."""
        found = Weights({}, {})
        if str(source).startswith(timm.SCHEME):
            place, config, found = timm.read(str(source).removeprefix(timm.SCHEME), weights)
        else:
            place = folder(source, revision)
            config = read_json(place / "config.json")
        with at(f"{source}/config.json"):
            published = recognise(config)
            return cls(str(source), published, published.complete(config), place, found)

    @classmethod
    def read(cls, source: str | os.PathLike, revision: str | None = None, weights: str | None = None) -> Source:
        """The whole, or with a file of other ``weights``.  Raises as ``describe`` does."""
        found = cls.describe(source, revision, weights)
        if not found.weights.state:
            found.weights = read_weights(Path(weights or found.place or ""))
        with at(str(source)):
            found.config = merge(found.config, found.published.told(found.config, found.weights.state))
        return found

    @property
    def architecture_name(self) -> str:
        names = self.config.get("architectures") or list(self.published.architectures)
        if not isinstance(names, list) or not isinstance(names[0], str):
            raise ValueError(f"architectures={names!r} is no list of names")
        return names[0]

    @property
    def architecture(self) -> Architecture | None:
        """The published model that the weights are of, or None for one whose head is not known here."""
        return self.published.architectures.get(self.architecture_name)

    # ---- new models of this description; what they raise is about config.json

    def backbones(self, changes: Mapping[str, Any] | None, asked: str = "backbone") -> dict[str, nn.Module]:
        """By the names of the task's arguments; each takes the changes that it has, and those under its own name.
        Raises ValueError where ``asked`` is none of them."""
        changes, halves = changes or {}, self.published.halves
        if asked not in halves:
            raise ValueError(f"{self.name} has no {asked!r}; it has {', '.join(halves)}")
        common = set(changes).difference(halves, *(parameters(half) for half in halves.values()))
        for name, half in halves.items():
            for word in common.union(changes.get(name, ())).difference(parameters(half)):
                raise ValueError(f"{half.name} has no argument {word!r} to change{near(word, parameters(half))}")
        return {name: half.family(**self.arguments(name, changes)) for name, half in halves.items()}

    def arguments(self, name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        half, changes = self.published.halves[name], {**changes, **changes.get(name, {})}
        arguments = half.arguments(self.config)
        arguments |= {word: value for word, value in changes.items() if word in parameters(half)}
        depth, tensors = arguments.get("depth"), len(self.weights.state)
        if isinstance(depth, int) and depth > tensors > 0:
            raise ValueError(f"{depth} layers, and the weights are {tensors} tensors")
        return arguments

    def task(self, changes: Mapping[str, Any] | None = None, given: Mapping[str, Any] | None = None) -> nn.Module:
        """With its own arguments of the task, or those ``given``.  Raises ValueError for what is no task here."""
        architecture, name = self.architecture, self.architecture_name
        if architecture is None or architecture.task is None:
            known = ", ".join(other for other, item in self.published.architectures.items() if item.task)
            raise ValueError(f"{name} is no task here ({known} are); zoo.load_backbone loads its backbone")
        parts = architecture.parts(self.config)
        if architecture.tied:
            parts = {"tie": self.config.get("tie_word_embeddings", True), **parts}
            if not isinstance(parts["tie"], bool):
                raise ValueError(f"tie_word_embeddings={parts['tie']!r} is neither true nor false")
        backbones, config = self.backbones(changes), merge(self.config, {})
        for name, half in self.published.halves.items() if changes else ():
            half.write(self.arguments(name, changes or {}), config)  # another grid is another size of image
        task = getattr(zoo, architecture.task)
        if "generation" in inspect.signature(task).parameters:
            parts["generation"] = self.generation()
        parts |= self.published.processor.read(config, self.place) | dict(given or {})
        return task(**backbones, **parts)

    def generation(self) -> Generation:
        """How it is published to write.  Raises ValueError for a damaged file."""
        file = self.place / GENERATION if self.place else None
        words = read_json(file) if file and file.is_file() else None
        with at(str(file if words else self.name)):
            return settings.read(self.config, words)

    # ---- tensors

    def table(self, architecture: Architecture | None = None) -> Table:
        """The names in this file: those of its own architecture, or of another of the family."""
        prefixes = [item.prefix for item in self.published.architectures.values() if item.prefix]
        prefix = next((p for p in prefixes if any(name.startswith(p) for name in self.weights.state)), "")
        return self.published.table(self.config, architecture or self.architecture or Architecture(None), prefix)

    def translate(self) -> State:
        """All tensors by our names.  Those that belong to another head of the family are left out, with a note."""
        table, state = self.table(), dict(modern(self.weights.state))
        for name, value in self.published.constant(self.config).items():
            if name in state and not close(state.pop(name), value):
                raise ValueError(f"{self.file(name)}: {name!r} is not the constant that {self.published.name} computes")
        unread = [pattern(path) for path in self.architecture.unread] if self.architecture else []
        self.unread = {name: state.pop(name) for name in [*state] if any(path.fullmatch(name) for path in unread)}
        strangers = [name for name in state if not table.knows(name)]
        others = [self.table(item) for item in self.published.architectures.values()] if strangers else []
        for name in strangers:
            if self.architecture is not None and not any(other.knows(name) for other in others):
                raise ValueError(
                    f"{self.file(name)}: no rule for the tensor {name!r}; {self.published.name} has no such part"
                )
            del state[name]
        if strangers:
            log.warning("%s: %s left out: no part of %s", self.name, listed(strangers), self.architecture_name)
        with at(self.name):
            return table.load(state)

    def settle_ties(self) -> None:
        """Where a file has a head of its own beside the embedding, they are not tied, whatever config.json says."""
        table, state = self.table(), self.weights.state
        for pair in self.architecture.tied if self.architecture else ():
            copy, original = (state.get(table.published(name) or "") for name in pair)
            if copy is not None and original is not None and not torch.equal(copy, original):
                self.config["tie_word_embeddings"] = False

    def fit_grid(self, state: State, name: str, backbone: nn.Module) -> None:
        """Resize a position table to the backbone's grid (Dosovitskiy et al. 2020, section 3.2)."""
        position = getattr(backbone, "position", None)
        if not isinstance(position, Learned2d):
            return
        key, new = f"{name}.position.weight", (position.height, position.width)
        grid = self.published.halves[name].arguments(self.config)["grid"]
        old = (grid, grid) if isinstance(grid, int) else tuple(grid)
        if key in state and old != new and len(state[key]) == position.prefix + old[0] * old[1]:
            state[key] = resize_grid(state[key], old, new, position.prefix)
            log.warning("%s: its position table of %s x %s cells is resized to %s x %s", self.name, *old, *new)

    def check(self, state: State, model: nn.Module) -> None:
        """Every tensor has a place, every place a tensor, and the shapes agree; else ValueError names one."""
        table, expected = self.table(), dict(kept(model))
        for name, value in state.items():
            theirs = table.published(name) or name
            where = f"{self.file(theirs)}: the tensor {theirs!r}"
            if name not in expected:
                raise ValueError(f"{where} has no place, for the model has no {name!r}")
            if not value.is_floating_point() and expected[name].is_floating_point():
                raise ValueError(f"{where} holds {value.dtype} and no real numbers")
            if value.shape != expected[name].shape:
                made, asked = tuple(value.shape), tuple(expected[name].shape)
                raise ValueError(
                    f"{where} makes {name!r} of shape {made}, but config.json and the changes ask for {asked}"
                )
        absent = self.architecture.absent if self.architecture else ()
        filled = {id(expected[name]) for name in state}  # one that serves twice is named once
        for name, weight in expected.items():
            if id(weight) not in filled and name not in absent:
                raise ValueError(
                    f"{self.name}: the weights lack {table.published(name) or name!r}, which {name!r} needs"
                )

    def file(self, tensor: str) -> str:
        return str(self.weights.files.get(tensor, self.name))


def recognise(config: Config) -> Published:
    """The family of a config.json.  Raises ValueError."""
    kind = config.get("model_type", "timm" if "architecture" in config else None)
    found = [published for published in PUBLISHED if published.model_type == kind]
    if not found:
        raise ValueError(f"no family has the model_type {kind!r}{near(str(kind), {p.model_type for p in PUBLISHED})}")
    for published in found[:-1]:  # several forms of one type: the first that fits
        try:
            published.complete(config)
            return published
        except ValueError:
            continue
    return found[-1]


def modern(state: State) -> Iterator[tuple[str, Tensor]]:
    """TensorFlow's names of a norm's weights, which old files have, as they are called today."""
    for name, value in state.items():
        old = next((ending for ending in OLDER if name.endswith(ending)), "")
        yield name.removesuffix(old) + OLDER.get(old, ""), value


def close(a: Tensor, b: Tensor) -> bool:
    """Is a table of a file the one that is computed here?  Other orders of the arithmetic differ by 1e-4."""
    half = min(a.element_size(), b.element_size()) < 4
    return a.shape == b.shape and torch.allclose(a.float(), b.float(), atol=5e-3 if half else 5e-4)


def kept(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """What a file holds of a model: its parameters, and the buffers that are saved; shared ones under each name."""
    yield from model.named_parameters(remove_duplicate=False)
    for path, part in model.named_modules(remove_duplicate=False):
        for name, value in part._buffers.items():
            if value is not None and name not in part._non_persistent_buffers_set:
                yield f"{path}.{name}" if path else name, value


def parameters(half: Half) -> list[str]:
    return list(inspect.signature(half.family).parameters)


def near(word: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(word, sorted(known), n=1)
    return f"; did you mean {found[0]!r}?" if found else f"; there are {', '.join(sorted(known))}"


def listed(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(repr, names[:3])) + more
