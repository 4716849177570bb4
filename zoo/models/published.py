"""How a family is published: the words of its config.json, the names in its files, and the tasks that its heads are."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union, cast

from torch import Tensor, nn

from zoo.convert import Rule, Same, Table
from zoo.nn import Activation, Head, Mean, Pool, Project
from zoo.nn.ffn import ACTIVATIONS
from zoo.processors import Processor
from zoo.settings import Config, fits, look, merge, put, same_kinds, sensible

AnyRule = Union[Rule, tuple[str, str]]  # noqa: UP007
AnyKey = Union["Key", "Derived", str]


def same(value: Any) -> Any:
    return value


def nothing(config: Config) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Key:
    """An argument of ours in their config: the paths (with dots between levels) that hold it and must agree, and how
    its value changes on the way."""

    paths: tuple[str, ...]
    load: Callable[[Any], Any] = same
    save: Callable[[Any], Any] = same


@dataclass(frozen=True)
class Derived:
    """An argument of ours that follows from several words of their config, such as a ViT's grid from the sizes of image
    and patch: ``load(config)`` is its value, ``save(value, config)`` changes the config so that it is."""

    load: Callable[[Config], Any]
    save: Callable[[Any, Config], None]


class Size:
    """A published size: the parameters of the whole main model, what its config.json says that no argument does (such
    as ``vocab_size``), and the arguments that differ from the class's defaults; a second backbone's stand in a
    dictionary under its name."""

    def __init__(self, parameters: int, config: Config | None = None, **arguments: Any):
        self.parameters, self.config, self.arguments = parameters, config or {}, arguments


@dataclass(frozen=True)
class Architecture:
    """One published model: the task it is (None: none here), the task's arguments beside backbone and tokenizers, and
    the names of its own tensors.

    ``prefix`` stands before the trunk's names, and before those of ``inner``.  ``tied`` lists (copy, original) pairs of
    ours, ``alias`` those of theirs (see ``Table``), ``drop`` paths of theirs that are no weights, ``unread`` those that
    no task reads and ``save`` writes again, ``absent`` weights of ours that no file has.  ``write`` says what
    config.json holds about the task.
    """

    task: str | None
    parts: Callable[[Config], dict[str, Any]] = nothing
    rules: tuple[AnyRule, ...] = ()
    inner: tuple[AnyRule, ...] = ()
    prefix: str = ""
    tied: tuple[tuple[str, str], ...] = ()
    drop: tuple[str, ...] = ()
    alias: tuple[tuple[str, str], ...] = ()
    absent: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    write: Callable[[nn.Module], Config] = nothing


@dataclass(frozen=True)
class Half:
    """One backbone of a family, and where its class's arguments stand in config.json."""

    family: Callable[..., nn.Module]
    keys: Mapping[str, AnyKey]

    @property
    def name(self) -> str:
        return self.family.__name__

    def arguments(self, config: Config) -> dict[str, Any]:
        """A complete config -> the class's arguments.  Raises ValueError for a key that is missing, or for keys that
        should agree and do not."""
        found, hints = {}, typing.get_type_hints(self.family.__init__)
        for name, place in self._places():
            if isinstance(place, Derived):
                with sensible(f"what makes {name}"):
                    found[name] = place.load(config)
                continue
            values = [look(config, path) for path in place.paths]
            if any(value != values[0] for value in values):
                pairs = ", ".join(f"{path}={value!r}" for path, value in zip(place.paths, values))
                raise ValueError(f"{pairs}: {self.name} has one value for them, {name}")
            with sensible(f"{place.paths[0]}={values[0]!r}"):
                found[name] = place.load(values[0])
            if not fits(found[name], hints[name]):
                raise ValueError(f"{place.paths[0]}={values[0]!r} cannot be the {name} of a {self.name}")
        return found

    def defaults(self) -> dict[str, Any]:
        """The arguments that the class has by itself."""
        parameters = inspect.signature(self.family).parameters
        return {name: parameters[name].default for name in self.keys}

    def write(self, arguments: Mapping[str, Any], config: Config) -> None:
        """The inverse of ``arguments``: put them into a config."""
        for name, place in self._places():
            if isinstance(place, Derived):
                place.save(arguments[name], config)
                continue
            for path in place.paths:
                put(config, path, place.save(arguments[name]))

    def _places(self) -> Iterator[tuple[str, Key | Derived]]:
        for name, place in self.keys.items():
            yield name, Key((place,)) if isinstance(place, str) else place


@dataclass(frozen=True)
class Published:
    """The published form of one family.

    ``keys`` says where an argument of the class stands in config.json, ``fixed`` what else must stand there (the first
    of a tuple is written), ``base`` what holds where a config says nothing, beside the class's own defaults.
    ``trunk`` names the tensors that all architectures share, without the prefix that most put before them.  The first
    architecture is the main one.  ``also`` are further backbones, by the names of the task's arguments.  ``clean``
    brings older configs into today's words, and ``older`` adds those words to a new one; ``constant`` are the tensors
    of a file that are computed here.
    ``told`` is what the tensors themselves say and config.json does not.
    """

    model_type: str
    family: Callable[..., nn.Module]
    keys: Mapping[str, AnyKey]
    architectures: Mapping[str, Architecture]
    trunk: Callable[[Config], Sequence[AnyRule]] | Sequence[AnyRule]
    processor: Processor
    base: Config = field(default_factory=dict)
    fixed: Config = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    sizes: Mapping[str, Size] = field(default_factory=dict)
    also: Mapping[str, Half] = field(default_factory=dict)
    clean: Callable[[Config], Config] = same
    older: Callable[[Config], Config] = same
    constant: Callable[[Config], dict[str, Tensor]] = nothing
    told: Callable[[Config, dict[str, Tensor]], Config] = lambda config, state: {}

    @property
    def name(self) -> str:
        return self.family.__name__

    @property
    def halves(self) -> dict[str, Half]:
        return {"backbone": Half(self.family, self.keys), **self.also}

    def complete(self, config: Config) -> Config:
        """A config with what it leaves unsaid.  Raises ValueError where it asks for what this family is not."""
        usual = self.usual()
        with sensible("one of the values"):
            config = merge(usual, self.clean(config))
        same_kinds(config, usual)
        for path, allowed in self.fixed.items():
            allowed = allowed if isinstance(allowed, tuple) else (allowed,)
            value = look(config, path, allowed[0])
            if value not in allowed:
                raise ValueError(f"{path}={value!r} is not supported; {self.name} has {path}={allowed[0]!r}")
        return config

    def usual(self) -> Config:
        """What holds where a config says nothing: ``base``, then the classes' defaults."""
        return merge(self.config({name: half.defaults() for name, half in self.halves.items()}), self.base)

    def config(self, arguments: Mapping[str, Mapping[str, Any]]) -> Config:
        """Their config for the arguments of each backbone."""
        config: Config = {**merge(self.base, {}), "model_type": self.model_type}
        for path, allowed in self.fixed.items():
            put(config, path, allowed[0] if isinstance(allowed, tuple) else allowed)
        for name, half in self.halves.items():
            half.write(arguments[name], config)
        return self.older(config)

    def table(self, config: Config, architecture: Architecture, prefix: str) -> Table:
        """The names of all tensors of an architecture's file, the trunk's with ``prefix`` before them."""
        trunk = self.trunk(config) if callable(self.trunk) else self.trunk
        rules = [Same(*rule) if isinstance(rule, tuple) else rule for rule in (*trunk, *architecture.inner)]
        rules = [rule.after(prefix) for rule in rules]
        drop = (*(prefix + path for path in self.drop), *architecture.drop)
        return Table(*rules, *architecture.rules, drop=drop, tied=architecture.tied, alias=architecture.alias)


TIED = (("head.out.weight", "embed.table.weight"),)  # what most text models tie
SENTENCES = Architecture(  # encoders without a head
    "Contrastive", lambda config: {"pool": Mean}, absent=("scale",), unread=("pooler",)
)


OURS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "swish": "silu", "gelu_python": "gelu"}
THEIRS = {"gelu_tanh": "gelu_new"}


def load_act(name: str) -> Activation:
    """Their name of an activation -> ours.  Raises ValueError for one that we lack."""
    ours = OURS.get(name, name)
    if ours not in ACTIVATIONS:
        raise ValueError(f"no activation {name!r} here; there are {', '.join((*ACTIVATIONS, *OURS))}")
    return cast(Activation, ours)


def act(*paths: str) -> Key:
    """The key of an activation."""
    return Key(paths, load_act, lambda name: THEIRS.get(name, name))


def classifier(
    rules: tuple[AnyRule, ...],
    pool: Callable[..., Pool],
    head: Callable[[Config], Callable[..., Head]] = lambda config: Project,
    **more: Any,
) -> Architecture:
    """The architecture of a classifier, whose classes are named in config.json."""

    def parts(config: Config) -> dict[str, Any]:
        kind = config.get("problem_type")
        names = config.get("id2label") or dict.fromkeys(map(str, range(config.get("num_labels", 2))))
        if not isinstance(names, dict) or not all(str(index).isdecimal() for index in names):
            raise ValueError(f"id2label={names!r} numbers no labels")
        if kind not in (None, "single_label_classification") or len(names) < 2:
            problem = f"problem_type={kind!r} with {len(names)} labels is no choice between classes"
            raise ValueError(f"{problem}; zoo.load_backbone loads the backbone, for a Classify of your own")
        labels = [names[i] for i in sorted(names, key=int)]
        named = all(isinstance(name, str) and name != f"LABEL_{i}" for i, name in enumerate(labels))
        return {"classes": len(labels), "labels": labels if named else None, "pool": pool, "head": head(config)}

    def write(task: nn.Module) -> Config:
        names = task.labels or [f"LABEL_{i}" for i in range(task.classes)]
        labels = {str(i): name for i, name in enumerate(names)}
        return {"id2label": labels, "label2id": {name: int(i) for i, name in labels.items()}}

    return Architecture("Classify", parts, rules, write=write, **more)
