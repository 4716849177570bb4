"""What is wrong with a config or a flag, in one line: file, line, name, and the nearest name that exists."""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

import zoo
from zoo import allowed, documents
from zoo.cli.configs import named, resolve

SECTIONS = ("trainer", "model", "data", "seed_everything", "ckpt_path")
WORDS = {  # our word -> what other libraries call it
    "lr": "learning_rate",
    "weight_decay": "wd",
    "schedule": "lr_scheduler scheduler",
    "warmup": "warmup_steps num_warmup_steps warmup_ratio",
    "max_epochs": "epochs num_epochs num_train_epochs",
    "max_steps": "steps num_steps max_iters",
    "devices": "gpus num_gpus",
    "precision": "amp mixed_precision dtype",
    "gradient_clip_val": "grad_clip max_grad_norm",
    "accumulate_grad_batches": "gradient_accumulation_steps grad_accum",
    "dim": "hidden_size d_model embed_dim n_embd hidden_dim",
    "depth": "layers num_layers n_layer num_hidden_layers",
    "heads": "num_heads n_head nhead num_attention_heads",
    "hidden": "mlp_dim ffn_dim d_ff intermediate_size dim_feedforward",
    "dropout": "drop_rate hidden_dropout_prob",
    "size": "image_size img_size",
    "patch": "patch_size",
    "channels": "in_chans num_channels",
    "classes": "num_classes num_labels",
    "root": "path data_dir folder",
    "workers": "num_workers",
    "batch_size": "batch per_device_train_batch_size",
    "length": "max_length block_size context_length",
}
ALIASES = {other: word for word, others in WORDS.items() for other in others.split()}
NAMESPACES = ("lightning.pytorch.callbacks", "lightning.pytorch.loggers", "lightning.pytorch.strategies", "torch.optim")

# jsonargparse's own words; tests/test_cli.py fails if a release changes them
NO_FLAG = re.compile(r"unrecognized arguments: --([\w.]+)")
NO_WORD = re.compile(r"unrecognized arguments: ([^-]\S*)")
NO_OPTION = re.compile(r"does not accept option '([^']+)'")
NO_ARGUMENT = re.compile(r"Option '([^']+)' is not accepted(?:\. Got value: Namespace\(class_path='([^']+)')?")
NO_CLASS = re.compile(
    r"Expected a dot import path string: ([\w.]+)|callable class: module .*? has no attribute '(\w+)'"
)
DENIED = re.compile(r"Importing '([\w.]+)' is not allowed")
NO_MODULE = re.compile(r"No module named '([\w.]+)'")
IN_CLASS = re.compile(r"given class_path '([^']+)'")
REQUIRED = re.compile(r"arguments are required: (.*)")
NEEDED = re.compile(r"Key '?\"?([\w.]+)'?\"? is required|missing required .*?([\w.]+)")
KEY = re.compile(r'Parser key "([^"]+)"')
EXPECTED = re.compile(r"Expected an? (?:<class '(\w+)'>|typing\.Literal\[(.*)\])(?:\. Got value: (.*))?")
GIVEN = re.compile(r"Given value: (?:NestedArg\(key='[^']*', val=)?(.*?)\)?$", re.MULTILINE)


def explain(argv: list[str], message: str) -> str:
    """One sentence for what jsonargparse says in fifty lines."""
    where = Places(argv)
    if found := DENIED.search(message):
        return denied(found[1], where)
    if found := NO_FLAG.search(message) or NO_OPTION.search(message):
        section, _, rest = found[1].partition(".")
        if section not in SECTIONS:
            return f"{where.key(section)}there is no section '{section}'{hint(section, SECTIONS)}"
        name = rest.split(".")[0] if section == "trainer" else rest
        return f"{where.key(name)}{section} has no argument '{name}'{hint(name, accepted('lightning.pytorch.Trainer'))}"
    if found := NO_ARGUMENT.search(message):
        owner = found[2] or (IN_CLASS.findall(message[: found.start()]) or [""])[-1]
        name = found[1].split(".")[0]
        return f"{where.key(name)}{owner.split('.')[-1]} has no argument '{name}'{hint(name, accepted(owner))}"
    if found := NO_CLASS.search(message):
        name = found[1] or found[2]
        return f"{where.value(name)}there is no class '{name}'{hint(name.split('.')[-1], classes())}"
    if found := NO_MODULE.search(message):
        path = (IN_CLASS.findall(message[: found.start()]) or [found[1]])[-1]
        why = "" if path.startswith(found[1]) else f"; it imports '{found[1]}', which is not installed"
        return f"{where.value(path)}there is no class '{path}'{why or hint(path.split('.')[-1], classes())}"
    if found := REQUIRED.search(message):
        names = found[1].split(", ")
        if owner := IN_CLASS.findall(message[: found.start()]):
            slot = "--" + ".".join(KEY.findall(message[: found.start()]))
            flags = " ".join(f"{slot}.{name}=..." for name in names)
            return f"{owner[-1].split('.')[-1]} also needs {' and '.join(names)}: {flags}"
        flags = " and ".join(sorted(("--" + name.split(".", 1)[-1] for name in names), reverse=True))
        place = where.key(names[0].split(".")[-1])
        known = "'python -m zoo list configs' shows them"
        return f"{place}{flags} must be given; a config does that: --config NAME ({known})."
    if found := NEEDED.search(message):
        owner = (IN_CLASS.findall(message[: found.start()]) or ["the config"])[-1].split(".")[-1]
        return f"{owner} also needs '{found[1] or found[2]}'"
    key = ".".join(KEY.findall(message))
    given = (GIVEN.findall(message) or [""])[-1].strip("'")
    if expected := EXPECTED.findall(message):
        kinds = [kind for kind, *_ in expected if kind not in ("", "NoneType")]
        choices = {str(ast.literal_eval(word)) for _, words, _ in expected if words for word in words.split(", ")}
        given = next((got for *_, got in expected if got), given).strip("'")
        place = f"{where.key(key.split('.')[-1])}{key}: "
        if choices:
            return f"{place}{given[:60]!r} is none of its choices{hint(given, choices) or ': ' + ', '.join(choices)}"
        if kinds:
            return f"{place}expected {' or '.join(kinds)}, got {given[:60]!r}"
    if found := NO_WORD.search(message):
        if "/" in found[1] and not Path(found[1]).suffix:
            return f"there is no run '{found[1]}' here: a run is a directory that has a config.yaml"
        return f"'{found[1]}' is neither an option nor the directory of a run; a config is given as --config {found[1]}"
    lines = [line.strip(" -") for line in message.splitlines() if line.strip(" -")]
    if not key:
        return lines[0]
    return f"{where.key(key.split('.')[-1])}{key}: " + (f"cannot use {given[:100]}" if given else lines[-1])


def denied(path: str, where: Places) -> str:
    """A class of a package that may be named is one that does not exist; another must be allowed."""
    place, name = where.value(path), path.rpartition(".")[2]
    if path.startswith("zoo.") and name not in classes():
        return f"{place}there is no class '{path}'{hint(name, classes())}"
    return place + allowed.refusal(path)


def hint(name: str, known: Iterator[str] | tuple[str, ...] | set[str]) -> str:
    known = set(known)
    lower = {word.lower(): word for word in known}
    alias = [ALIASES[name]] if ALIASES.get(name) in known else []
    close = alias or [lower[word] for word in difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.6)]
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; it has {', '.join(sorted(known))}" if 0 < len(known) <= 12 else ""


def accepted(path: str) -> set[str]:
    """The names of a function's arguments, or of a class's, with those that it hands on to its base.  Nothing is
    imported: a message may quote any name."""
    module, _, name = path.rpartition(".")
    cls = getattr(sys.modules.get(module), name, None)
    if inspect.isfunction(cls):
        return set(inspect.signature(cls).parameters)
    if not inspect.isclass(cls):
        return set()
    names: set[str] = set()
    for base in cls.__mro__[:-1]:
        if "__init__" not in vars(base):
            continue
        parameters = list(inspect.signature(base.__init__).parameters.values())[1:]
        names |= {one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)}
        if all(one.kind is not one.VAR_KEYWORD for one in parameters):
            break
    return names


def classes() -> set[str]:
    """Every class that a config may name without its module."""
    found = {name for names in zoo.EXPORTS.values() for name in names if name[0].isupper()}
    for namespace in NAMESPACES:
        found |= {name for name, value in vars(importlib.import_module(namespace)).items() if inspect.isclass(value)}
    return found


class Places:
    """Where keys and values stand in the config files of a command line, and in the files that those name."""

    def __init__(self, argv: list[str]):
        self.keys: dict[str, str] = {}
        self.values: dict[str, str] = {}
        self.files: set[str] = set()
        for name in named(argv):
            try:
                self.read(resolve(name))
            except ValueError:
                continue

    def read(self, path: str) -> None:
        try:
            root = yaml.compose(documents.read_text(path), documents.LOADER)
        except (OSError, ValueError, yaml.YAMLError):
            return
        self.files.add(path)
        for node, is_key in documents.scalars(root):
            place = f"{Path(path).name}:{node.start_mark.line + 1}: "
            if is_key:
                self.keys[node.value.removesuffix("+")] = place
                continue
            self.values[node.value] = place
            if node.value.endswith((".yaml", ".yml", ".json")) and node.value not in self.files:
                self.read(node.value)

    def key(self, name: str) -> str:
        return self.keys.get(name, "")

    def value(self, text: str) -> str:
        """Of a value, or else of one that holds it, or names the same thing by another path."""
        last = text.rpartition(".")[2]
        near = (place for value, place in self.values.items() if text in value or last in value.split(".")[1:])
        return self.values.get(text) or next(near, "")
