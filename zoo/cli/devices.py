"""Checks what a config asks of the machine, before anything is built."""

from __future__ import annotations

import os
from typing import Any

import torch
from lightning.pytorch.accelerators import AcceleratorRegistry, CUDAAccelerator, MPSAccelerator
from lightning.pytorch.strategies import StrategyRegistry

from zoo.cli.errors import UserError
from zoo.cli.explain import Places, hint

ANY = ("auto", "gpu")  # what Lightning takes besides the accelerators' own names


def check(trainer: Any, argv: list[str]) -> None:
    """Raises UserError for a strategy or an accelerator that does not exist, and for a GPU where there is none."""
    where = Places(argv)
    known = {"auto", *StrategyRegistry.available_strategies()}
    if isinstance(trainer.strategy, str) and trainer.strategy not in known:
        said = f"there is no strategy '{trainer.strategy}'{hint(trainer.strategy, known)}"
        raise UserError(where.value(trainer.strategy) + said)
    named, known = trainer.accelerator, {*ANY, *AcceleratorRegistry.available_accelerators()}
    if isinstance(named, str) and named not in known:
        raise UserError(f"{where.value(named)}there is no accelerator '{named}'{hint(named, known)}")
    present = {"cuda": CUDAAccelerator.is_available(), "mps": MPSAccelerator.is_available()}
    if (named == "gpu" and not any(present.values())) or not present.get(named, True):
        raise UserError(f"{where.value(named)}no GPU is available here; --trainer.accelerator=auto takes what there is")


def ask_quickly() -> None:
    """Where there is no GPU, let torch say so at once: its optimizers ask before each step.  Lightning has it ask
    NVIDIA's own library first, which is looked for on the disk each time where there is none: 0.04 ms and more."""
    if not torch.cuda.is_available():
        os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)
