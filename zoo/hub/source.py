"""A published checkpoint: its family recognised from config.json, its tensors translated and checked."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import zoo
from zoo.convert import State, Table
from zoo.hub import timm
from zoo.hub.files import Weights, first_line, folder, read_json, read_weights
from zoo.models import PUBLISHED, Architecture, Published
from zoo.models.published import Config, Half, merge
from zoo.models.values import sensible
from zoo.nn import Learned2d, resize_grid
from zoo.tokenizers import Tokenizer

log = logging.getLogger(__name__)


@dataclass
class Source:
    """What a checkpoint says about itself."""

    name: str  # as the user gave it
    published: Published
    config: Config  # complete
    place: Path | None = None  # its directory
    weights: Weights = field(default_factory=lambda: Weights({}, {}))

    @classmethod
    def read(cls, source: str | os.PathLike, revision: str | None = None, weights: str | None = None) -> Source:
        """Raises ValueError or OSError, in one sentence, for what is not there, damaged or unknown."""
        if str(source).startswith(timm.SCHEME):
            place, config, found = timm.read(str(source).removeprefix(timm.SCHEME), weights)
        else:
            place = folder(source, revision)
            config, found = read_json(place / "config.json"), None
        try:
            published = recognise(config)
            config = published.complete(config)
        except ValueError as error:
            raise ValueError(f"{source}/config.json: {error}") from None
        found = found or read_weights(Path(str(weights or place)))
        try:
            config = merge(config, published.told(config, found.state))
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from None
        return cls(str(source), published, config, place, found)

    @property
    def architecture(self) -> Architecture | None:
        """The published model that the weights are of, or None for one whose head is not known here."""
        return self.published.architectures.get(self.architecture_name)

    @property
    def architecture_name(self) -> str:
        names = self.config.get("architectures") or list(self.published.architectures)
        if not isinstance(names, list) or not isinstance(names[0], str):
            raise ValueError(f"{self.name}/config.json: architectures={names!r} is no list of names")
        return names[0]

    def backbones(self, changes: Mapping[str, Any] | None) -> dict[str, nn.Module]:
        """New ones, by the names of the task's arguments.  Of two towers, each takes the changes that it has."""
        halves = self.published.halves
        unknown = set(changes or ()).difference(*(inspect.signature(half.family).parameters for half in halves.values()))
        if unknown:
            half = halves["backbone"]
            raise ValueError(f"{half.name} has no argument {min(unknown)!r} to change{near(min(unknown), half.keys)}")
        changed = self.changed(changes)
        with possible(f"{self.name}/config.json" + (" with the changes" if changes else "")):
            return {name: half.family(**arguments) for name, (half, arguments) in changed.items()}

    def changed(self, changes: Mapping[str, Any] | None) -> dict[str, tuple[Half, dict[str, Any]]]:
        """Each half and the arguments of its class, changed where it has such an argument."""
        found = {}
        for name, half in self.published.halves.items():
            try:
                arguments = half.arguments(self.config)
            except ValueError as error:
                raise ValueError(f"{self.name}/config.json: {error}") from None
            known = inspect.signature(half.family).parameters
            arguments |= {key: v for key, v in (changes or {}).items() if key in known}
            tensors = len(self.weights.state)
            for depth in (arguments.get("depth"), arguments.get("decoder_depth")):
                if isinstance(depth, int) and depth > tensors > 0:  # do not build a billion layers to find out
                    raise ValueError(f"{self.name}/config.json: {depth} layers, and the weights are {tensors} tensors")
            found[name] = half, arguments
        return found

    def task(
        self, changes: Mapping[str, Any] | None = None, tokenizers: Mapping[str, Tokenizer] | None = None
    ) -> nn.Module:
        """A new task of this composition, with its own tokenizers or with others.  Raises ValueError for an
        architecture that is no task here."""
        architecture, name = self.architecture, self.architecture_name
        if architecture is None or architecture.task is None:
            known = [other for other, item in self.published.architectures.items() if item.task]
            raise ValueError(
                f"{self.name}: {name} is no task here ({', '.join(known)} are); zoo.load_backbone loads its backbone"
            )
        try:
            with sensible("the description of the head"):
                parts = architecture.parts(self.config)
        except ValueError as error:
            raise ValueError(f"{self.name}/config.json: {error}") from None
        if architecture.tied:
            parts = {"tie": bool(self.config.get("tie_word_embeddings", True)), **parts}
        if tokenizers is None:
            config = merge(self.config, {})
            for half, arguments in self.changed(changes).values() if changes else ():
                half.write(arguments, config)  # another grid is another size of image
            tokenizers = self.published.inputs.read(config, self.place)
        backbones = self.backbones(changes)
        with possible(f"{self.name}/config.json"):
            return getattr(zoo, architecture.task)(**backbones, **tokenizers, **parts)

    # ---- tensors

    def table(self, architecture: Architecture | None = None) -> Table:
        """The names in this file: those of its own architecture, or of another of the family."""
        architectures = self.published.architectures.values()
        prefixes = [item.prefix for item in architectures if item.prefix]
        prefix = next((p for p in prefixes if any(name.startswith(p) for name in self.weights.state)), "")
        return self.published.table(self.config, architecture or self.architecture or Architecture(None), prefix)

    def translate(self) -> State:
        """All tensors by our names.  Those that belong to another head of the family are left out, with a note."""
        table, state = self.table(), dict(modern(self.weights.state))
        for name, value in self.published.constant(self.config).items():
            if name in state and not close(state.pop(name), value):
                raise ValueError(f"{self.file(name)}: the tensor {name!r} is not the constant that {self.published.name} computes")
        others = [self.table(item) for item in self.published.architectures.values()]
        strangers = [name for name in state if not table.knows(name)]
        for name in strangers:
            if self.architecture is not None and not any(other.knows(name) for other in others):
                raise ValueError(f"{self.file(name)}: no rule for the tensor {name!r}; {self.published.name} has no such part")
            del state[name]
        if strangers:
            log.warning("%s: %s left out: no part of %s", self.name, listed(strangers), self.architecture_name)
        try:
            return table.load(state)
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from None

    def settle_ties(self) -> None:
        """Where a file has a head of its own beside the embedding, they are not tied, whatever config.json says."""
        if self.architecture is None:
            return
        table, state = self.table(), self.weights.state
        for pair in self.architecture.tied:
            copy, original = (state.get(table.published(name) or "") for name in pair)
            if copy is not None and original is not None and not same(copy, original):
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

    def file(self, tensor: str) -> str:
        return str(self.weights.files.get(tensor, self.name))

    def check(self, state: State, model: nn.Module) -> None:
        """Every tensor has a place, every place a tensor, and the shapes agree; else ValueError names one."""
        table, expected = self.table(), dict(kept(model))
        for name, value in state.items():
            theirs = table.published(name) or name
            if name not in expected:
                raise ValueError(f"{self.file(theirs)}: the tensor {theirs!r} has no place, for the model has no {name!r}")
            if not value.is_floating_point() and expected[name].is_floating_point():
                raise ValueError(f"{self.file(theirs)}: the tensor {theirs!r} holds {value.dtype} and no real numbers")
            if value.shape != expected[name].shape:
                found, wanted = tuple(value.shape), tuple(expected[name].shape)
                raise ValueError(
                    f"{self.file(theirs)}: the tensor {theirs!r} makes {name!r} of shape {found}, "
                    f"but config.json and the changes ask for {wanted}"
                )
        absent = self.architecture.absent if self.architecture else ()
        found_weights = {id(expected[name]) for name in state}  # one that serves twice is named once
        for name, weight in expected.items():
            if id(weight) not in found_weights and name not in absent:
                raise ValueError(f"{self.name}: the weights lack {table.published(name) or name!r}, which {name!r} needs")


@contextlib.contextmanager
def possible(file: str) -> Iterator[None]:
    """Puts the file before what is said about sizes that no model can have."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    except (ArithmeticError, RuntimeError, TypeError) as error:
        raise ValueError(f"{file}: no model has these sizes ({first_line(error)})") from error


def recognise(config: Config) -> Published:
    """The family of a config.json.  Raises ValueError."""
    kind = config.get("model_type", "timm" if "architecture" in config else None)
    found = [published for published in PUBLISHED if published.model_type == kind]
    if not found:
        known = sorted({published.model_type for published in PUBLISHED})
        near_ = difflib.get_close_matches(str(kind), known, n=1)
        hint = f"did you mean {near_[0]!r}?" if near_ else f"there are {', '.join(known)}"
        raise ValueError(f"no family has the model_type {kind!r}; {hint}")
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
        if name.endswith("LayerNorm.gamma"):
            name = name.removesuffix("gamma") + "weight"
        elif name.endswith("LayerNorm.beta"):
            name = name.removesuffix("beta") + "bias"
        yield name, value


def same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a.float(), b.float(), atol=1e-6)


def close(a: Tensor, b: Tensor) -> bool:
    """Is a constant of a file, perhaps in half precision, the one that is computed here?"""
    return a.shape == b.shape and torch.allclose(a.float(), b.float(), atol=5e-3)


def kept(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """What a file holds of a model: its parameters, and the buffers that are saved; shared ones under each name."""
    yield from model.named_parameters(remove_duplicate=False)
    for path, part in model.named_modules(remove_duplicate=False):
        for name, value in part._buffers.items():
            if value is not None and name not in part._non_persistent_buffers_set:
                yield f"{path}.{name}" if path else name, value


def near(word: str, known: Any) -> str:
    found = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {found[0]!r}?" if found else f"; it has {', '.join(known)}"


def listed(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(repr, names[:3])) + more
