"""A published checkpoint: its family recognised from config.json, its tensors translated and checked."""

from __future__ import annotations

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
from zoo.hub.files import Weights, folder, read_json, read_weights
from zoo.models import PUBLISHED, Architecture, Published
from zoo.models.published import Config
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
        return cls(str(source), published, config, place, found or read_weights(Path(weights) if weights else place))

    @property
    def architecture(self) -> Architecture | None:
        """The published model that the weights are of, or None for one whose head is not known here."""
        return self.published.architectures.get(self.architecture_name)

    @property
    def architecture_name(self) -> str:
        names = self.config.get("architectures") or list(self.published.architectures)
        return str(names[0])

    def backbones(self, changes: Mapping[str, Any] | None) -> dict[str, nn.Module]:
        """New ones, by the names of the task's arguments."""
        built = {}
        for name, half in self.published.halves.items():
            try:
                arguments = half.arguments(self.config)
            except ValueError as error:
                raise ValueError(f"{self.name}/config.json: {error}") from None
            unknown = set(changes or ()) - set(arguments) - set(inspect.signature(half.family).parameters)
            if unknown:
                raise ValueError(f"{half.name} has no argument {min(unknown)!r} to change{near(min(unknown), arguments)}")
            built[name] = half.family(**{**arguments, **(changes or {})})
        return built

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
        parts = architecture.parts(self.config)
        if architecture.tied:
            parts = {"tie": bool(self.config.get("tie_word_embeddings", True)), **parts}
        tokenizers = tokenizers or self.published.inputs.read(self.config, self.place)
        return getattr(zoo, architecture.task)(**self.backbones(changes), **tokenizers, **parts)

    # ---- tensors

    def table(self) -> Table:
        architectures = self.published.architectures.values()
        prefixes = [item.prefix for item in architectures if item.prefix]
        prefix = next((p for p in prefixes if any(name.startswith(p) for name in self.weights.state)), "")
        return self.published.table(self.config, self.architecture or Architecture(None), prefix)

    def translate(self) -> State:
        """All tensors by our names.  Those that belong to another head of the family are left out, with a note."""
        table, state = self.table(), dict(modern(self.weights.state))
        for name, value in self.published.constant(self.config).items():
            if name in state and not same(state.pop(name), value):
                raise ValueError(f"{self.file(name)}: the tensor {name!r} is not the constant that {self.published.name} computes")
        others = [Table(*item.rules, drop=item.drop, alias=item.alias) for item in self.published.architectures.values()]
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
        table, expected = self.table(), dict(model.named_parameters(remove_duplicate=False))
        for name, value in state.items():
            theirs = table.published(name) or name
            if name not in expected:
                raise ValueError(f"{self.file(theirs)}: the tensor {theirs!r} has no place, for the model has no {name!r}")
            if value.shape != expected[name].shape:
                found, wanted = tuple(value.shape), tuple(expected[name].shape)
                raise ValueError(
                    f"{self.file(theirs)}: the tensor {theirs!r} makes {name!r} of shape {found}, "
                    f"but config.json and the changes ask for {wanted}"
                )
        absent = self.architecture.absent if self.architecture else ()
        for name in expected:
            if name not in state and name not in absent:
                raise ValueError(f"{self.name}: the weights lack {table.published(name) or name!r}, which {name!r} needs")


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


def near(word: str, known: Any) -> str:
    found = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {found[0]!r}?" if found else f"; it has {', '.join(known)}"


def listed(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(repr, names[:3])) + more
