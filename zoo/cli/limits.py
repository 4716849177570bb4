"""What a config may not do: exhaust memory, write outside its directories, read a checkpoint from an address."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

import yaml
from jsonargparse import Namespace, set_loader
from jsonargparse._loaders_dumpers import get_yaml_default_loader
from lightning.fabric.utilities.exceptions import MisconfigurationException

from zoo import documents
from zoo.cli import allow, configs
from zoo.cli.errors import USAGE, UserError, unwrapped
from zoo.cli.explain import SECTIONS, Places, hint

SHAPE = "a config has the sections trainer, model and data"
RAISED = (ValueError, MisconfigurationException)
KEYS = re.compile(r"`(?:Trainer\()?([a-z_]+)|\b([a-z_]+)=|\b([a-z]+_[a-z_]+)")  # in what libraries say of a value
VALUES = re.compile(r"'([^']+)'")
WORD = "tag:yaml.org,2002:str"
POSITIVE = ("accumulate_grad_batches", "check_val_every_n_epoch", "val_check_interval")  # Lightning divides by them
NAMES = ("filename", "id", "name", "prefix", "sub_dir", "version")  # become parts of paths below a directory


def begin(argv: list[str]) -> None:
    """Before a command line is parsed: what it may name is settled, and its values are within the limits of YAML.
    Raises UserError."""
    allow.begin(allow.given(argv))
    set_loader("yaml", load, (yaml.YAMLError,))
    for word in argv:
        flag, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
        try:
            documents.check(value)
        except documents.Limit as error:
            raise UserError(f"{flag + ': ' if equals else ''}{error}", USAGE) from None
        except ValueError:
            continue  # no YAML but a plain word, or for the parser to explain


def load(text: str) -> Any:
    """A document, or a value that the parser takes for one, with the parser's own idea of numbers."""
    documents.check(text)
    return documents.load(text, loader=get_yaml_default_loader())


def config(value: str) -> str:
    """The path of a config that is within the limits, or its text.  Raises UserError."""
    try:
        path = configs.resolve(value)
        file = Path(path).is_file()
        text, name = (documents.read_text(path), Path(path).name) if file else (path, "--config")
        documents.check(text, name)
        documents.load(text, name, get_yaml_default_loader())
        sections(yaml.compose(text, documents.LOADER), name)
    except (ValueError, OSError) as error:
        raise UserError(str(error), USAGE) from None
    return path


def sections(root: yaml.Node | None, name: str) -> None:
    """Raises ValueError for what is no config, and for a flag that no config may give."""
    if not isinstance(root, yaml.MappingNode) or not root.value:
        raise ValueError(f"{name}: {'nothing is said here' if not root else 'no keys with values'}: {SHAPE}")
    for key, value in root.value:
        place = f"{name}:{key.start_mark.line + 1}"
        if f"--{key.value}" in allow.HELP:
            raise ValueError(f"{place}: '{key.value}' is for whoever types the command, and no config may say it")
        words(key, place)
        if key.value not in SECTIONS and not value.value:  # the parser would pass over it
            raise ValueError(f"{place}: there is no section '{key.value}'{hint(key.value, SECTIONS)}")
        if key.value == "trainer" and isinstance(value, yaml.MappingNode):
            for inner, _ in value.value:
                words(inner, f"{name}:{inner.start_mark.line + 1}")
        elif key.value == "trainer" and (isinstance(value, yaml.SequenceNode) or value.tag != WORD):
            said = f"is {value.value[:60]!r}" if value.value else "is empty"
            raise ValueError(f"{place}: trainer {said}; it must be keys with values, or be left out")


def words(key: yaml.ScalarNode, place: str) -> None:
    if key.tag != WORD or not key.value.strip():
        raise ValueError(f"{place}: the key {key.value!r} is no word")


def places(trainer: Namespace, checkpoint: str | None, argv: list[str]) -> None:
    """Raises UserError for a name that leaves the directory which it is below, and for a checkpoint at an address,
    unless the command line allows it."""
    for part in ("logger", "callbacks", "profiler"):
        for key, value in named(trainer.get(part)):
            if PurePath(value).is_absolute() or ".." in re.split(r"[/\\]", value):
                place = f"{Places(argv).value(value)}trainer.{part}"
                raise UserError(f"{place}: {key}={value!r} leaves its directory; give a name below it", USAGE)
    for key in POSITIVE:
        if (value := trainer.get(key)) is not None and isinstance(value, (int, float)) and value <= 0:
            raise UserError(f"{Places(argv).key(key)}trainer.{key}={value} must be above 0", USAGE)
    if checkpoint and allow.REMOTE not in argv and ("://" in checkpoint or checkpoint.startswith("registry")):
        place = Places(argv).value(checkpoint)
        raise UserError(f"{place}ckpt_path={checkpoint} is no file here; to read it from there: {allow.REMOTE}", USAGE)


@contextmanager
def located(argv: list[str], *keys: str, kinds: tuple[type[Exception], ...] = RAISED) -> Iterator[None]:
    """Puts the file and the line before what is raised about a value: of one of ``keys``, or of a key or a value that
    the message names."""
    try:
        yield
    except kinds as error:
        cause = unwrapped(error)
        message, where = str(cause).strip(), Places(argv)
        if not message or isinstance(cause, UserError) or not isinstance(cause, RAISED):
            raise
        named = [*keys, *(word for found in KEYS.findall(message) for word in found if word)]
        places = [where.key(word) for word in named] + [where.values.get(word, "") for word in VALUES.findall(message)]
        raise ValueError(next(filter(None, places), "") + message) from None


@contextmanager
def made() -> Iterator[None]:
    """Parts of other libraries, made of arguments that their hints did not rule out.  Raises UserError."""
    try:
        yield
    except (TypeError, AttributeError, LookupError, ArithmeticError) as error:
        raise ValueError(f"the trainer cannot be made as the config says: {str(error).splitlines()[0]}") from error


def named(value: Any) -> Iterator[tuple[str, str]]:
    """The arguments, at any depth, that become parts of paths."""
    if isinstance(value, (Namespace, dict)):
        for key, item in vars(value).items() if isinstance(value, Namespace) else value.items():
            if key in NAMES and isinstance(item, str):
                yield key, item
            yield from named(item)
    elif isinstance(value, list):
        for item in value:
            yield from named(item)
