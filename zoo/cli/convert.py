"""``convert``: a checkpoint of any kind -> a directory as its family is published."""

from __future__ import annotations

import importlib
from pathlib import Path

from torch import nn

import zoo
from zoo.allowed import refuse_foreign
from zoo.checkpoints import read_checkpoint
from zoo.checkpoints.module import restored
from zoo.cli import allow
from zoo.cli.arguments import PACKAGES, PACKAGES_HELP, Arguments
from zoo.cli.configs import checkpoint
from zoo.cli.errors import UserError, guarded, quiet
from zoo.tasks import Task

EPILOG = """\
python -m zoo convert runs/NAME my-model              a run of one's own, for from_pretrained
python -m zoo convert timm:vit_base_patch16_224 vit   timm's weights in the hub's form
python -m zoo convert old-directory new-directory     pickles to safetensors, vocab.txt to tokenizer.json"""


def main(argv: list[str]) -> int:
    parser = Arguments(
        "convert",
        "Write a checkpoint as its family is published: config.json, model.safetensors, tokenizer.",
        EPILOG,
    )
    parser.add_argument("source", help="a directory, a model of the hub, timm:NAME, a run, or a .ckpt of a run")
    parser.add_argument("destination", type=Path)
    parser.add_argument(PACKAGES, action="append", metavar="PACKAGE", help=PACKAGES_HELP)
    options = parser.parse_args(argv[1:])
    quiet()
    return guarded(lambda: convert(options.source, options.destination, options.allow))


def convert(source: str, destination: Path, packages: list[str] | None = None) -> None:
    allow.begin(packages)
    task = read(source)
    zoo.save(task, destination)
    size = sum(weight.numel() for weight in task.parameters())
    print(f"{type(task).__name__} of {type(task.backbone).__name__}, {size:,} parameters: {destination}")


def read(source: str) -> nn.Module:
    """A task from anything that holds one."""
    path = Path(source)
    if (path / "config.yaml").is_file() and not (path / "config.json").is_file():
        found = checkpoint(path, "best", "last")
        if found is None:
            raise UserError(f"the run {source} has no checkpoint yet")
        path = found
    if path.suffix == ".ckpt" and path.is_file():
        return from_checkpoint(path)
    return zoo.load(source)


def from_checkpoint(path: Path) -> Task:
    """The task that Lightning saved, by the class that is written in its checkpoint.  Raises ValueError for one that is
    damaged or names other code, and UserError for one of another library."""
    checkpoint = read_checkpoint(path)
    kept = checkpoint.get("hyper_parameters", {})
    refuse_foreign(kept, str(path))
    module, _, name = str(kept.get("_class_path")).rpartition(".")
    kind = getattr(importlib.import_module(module), name, None) if module else None
    if not (isinstance(kind, type) and issubclass(kind, Task)):
        raise UserError(f"{path} is no checkpoint of a task of this library")
    return restored(kind, checkpoint)
