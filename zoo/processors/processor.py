"""What a published model reads: the tokenizers that go with it, from and to the files beside its weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import nn

from zoo.convert import State
from zoo.settings import Config
from zoo.tokenizers.reading import read_json

Files = dict[str, str]  # name -> content

PREPROCESSOR = "preprocessor_config.json"


class Processor:
    """What ``Published``' ``processor`` slot takes."""

    def read(self, config: Config, folder: Path | None) -> dict[str, Any]:
        """A complete config.json and the folder it lies in (None: there is none) -> the task's tokenizers, by the names
        of its arguments.  Raises ValueError where a file cannot be read."""
        raise NotImplementedError

    def write(self, task: nn.Module) -> tuple[Config, Files]:
        """The inverse: what config.json says about the tokenizers, and the files beside it."""
        raise NotImplementedError

    def lacking(self, task: nn.Module) -> State:
        """Tensors, by our names, that the family's files must have and this task has not: zeros that change nothing."""
        return {}


def preprocessing(folder: Path | None, part: str) -> Config:
    """What ``preprocessor_config.json`` says, or ``part`` of the newer ``processor_config.json``; {} without either.
    Raises ValueError for a damaged file."""
    if folder and (folder / PREPROCESSOR).is_file():
        return read_json(folder / PREPROCESSOR)
    file = folder / "processor_config.json" if folder else None
    found = read_json(file).get(part, {}) if file and file.is_file() else {}
    if not isinstance(found, dict):
        raise ValueError(f"{file}: {part}={found!r} is no object")
    return found


def written(words: Config) -> Files:
    """The inverse: the file."""
    return {PREPROCESSOR: json.dumps(words, indent=2) + "\n"}
