"""What a config says, for the benchmarks: its task and its data, built as ``python -m zoo`` builds them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import lightning.pytorch as pl
from jsonargparse import ActionConfigFile, ArgumentError, ArgumentParser, Namespace

from zoo import EXPORTS
from zoo.cli import configs
from zoo.data import DataModule
from zoo.tasks import Task


def load(names: Sequence[str], *changes: str) -> tuple[Namespace, pl.LightningModule, pl.LightningDataModule]:
    """Configs by path or name, the later over the earlier, with ``changes`` as on the command line -> (what they say
    in full, the task, the data).  Raises ValueError."""
    for module in EXPORTS:  # so that short class names are found
        importlib.import_module(module)
    parser = ArgumentParser(exit_on_error=False, allow_abbrev=False)
    parser.add_argument("--config", action=ActionConfigFile)
    parser.add_class_arguments(pl.Trainer, "trainer", instantiate=False)
    parser.add_subclass_arguments(Task, "model")
    parser.add_subclass_arguments(pl.LightningDataModule, "data")
    parser.link_arguments("data", "model.init_args.classes", compute_fn=_classes, apply_on="instantiate")
    try:
        given = parser.parse_args([*(f"--config={configs.resolve(name)}" for name in names), *changes])
    except ArgumentError:
        words = " ".join(f"--config {name}" for name in names)
        raise ValueError(f"not a whole config; 'python -m zoo validate {words}' says why") from None
    built = parser.instantiate_classes(given)
    if isinstance(built.data, DataModule):
        built.data.task = built.model  # whose tokenizers the data are read with
    return given, built.model, built.data


def _classes(data: Any) -> int | None:
    return len(getattr(data, "classes", ())) or None
