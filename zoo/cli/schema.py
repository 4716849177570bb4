"""``schema``: a JSON schema of our YAML configs, with which an editor completes them and marks mistakes."""

from __future__ import annotations

import json
import typing
from dataclasses import replace
from typing import Literal, Union

from lightning.pytorch import LightningDataModule, Trainer
from lightning.pytorch.accelerators import AcceleratorRegistry
from lightning.pytorch.strategies import StrategyRegistry

from zoo.atomic import write_text
from zoo.cli.arguments import Arguments
from zoo.cli.errors import guarded, quiet
from zoo.cli.schema_classes import Argument, arguments, import_all
from zoo.cli.schema_nodes import Node
from zoo.cli.schema_types import Definitions
from zoo.cli.train import DEFAULTS
from zoo.tasks import Task

DRAFT = "http://json-schema.org/draft-07/schema#"  # the newest that the YAML extensions of editors know whole
LINE = "# yaml-language-server: $schema="
WORDS = {  # what the Trainer knows where its hints say ``str``
    "accelerator": ("auto", "gpu", *sorted(AcceleratorRegistry.available_accelerators())),
    "strategy": ("auto", *sorted(StrategyRegistry.available_strategies())),
    "profiler": ("simple", "advanced", "pytorch", "xla"),
    "gradient_clip_algorithm": ("norm", "value"),
}


def main(argv: list[str]) -> int:
    parser = Arguments(
        "schema",
        "A JSON schema of the YAML configs, with which an editor completes them and marks mistakes.",
        f"An editor finds it by the first line of a config:\n  {LINE}zoo.schema.json",
    )
    parser.add_argument("--out", metavar="FILE", help="where it is written, such as zoo.schema.json (default: printed)")
    options = parser.parse_args(argv[1:])
    quiet()
    return guarded(lambda: answer(options.out))


def answer(out: str | None) -> None:
    if out is None:
        print(text(), end="")
        return
    write_text(out, text())
    print(f"{out} is written; a config that begins with this line is checked by it: {LINE}{out}")


def text() -> str:
    """The same on every machine that has the same versions, a value a line."""
    return json.dumps(schema(), indent=0, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def schema() -> Node:
    """The schema of a config.  One that only changes another is a config too, so nothing is required."""
    import_all()
    definitions = Definitions()
    sections = {
        "$schema": {"type": "string"},
        "seed_everything": {"type": ["integer", "boolean", "null"], "default": 0},
        "trainer": definitions.members(trainer()),
        "model": definitions.slot(Task),
        "data": definitions.slot(LightningDataModule),
        "ckpt_path": {"type": ["string", "null"], "description": "The checkpoint to go on from."},
    }
    return {
        "$schema": DRAFT,
        "title": "A config of python -m zoo",
        "type": "object",
        "properties": sections,
        "additionalProperties": False,
        "definitions": definitions.found,
    }


def trainer() -> list[Argument]:
    """The Trainer's arguments, with our defaults."""
    found = {one.name: one for one in arguments(Trainer)}
    for name, words in WORDS.items():
        kinds = [Literal[words] if kind is str else kind for kind in typing.get_args(found[name].hint)]
        found[name] = replace(found[name], hint=Union[tuple(kinds)])  # noqa: UP007
    for name, default in DEFAULTS.items():
        found[name] = replace(found[name], default=default)
    return list(found.values())
