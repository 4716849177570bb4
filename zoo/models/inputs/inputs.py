"""What a published model reads: the tokenizers that go with it, from and to the files beside its weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import nn

from zoo.convert import State

Config = dict[str, Any]
Files = dict[str, str]  # name -> content


class Inputs:
    """What ``Published``' ``inputs`` slot takes."""

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
    for name in ("preprocessor_config.json", "processor_config.json") if folder else ():
        file = folder / name  # type: ignore[operator]
        if not file.is_file():
            continue
        try:
            found = json.loads(file.read_text(encoding="utf8"))
            if name != "preprocessor_config.json":
                found = found.get(part, {})
            return dict(found)
        except (UnicodeDecodeError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{file} is no JSON object ({error})") from None
    return {}
