"""What Lightning's loop, our callbacks and our logging add to a training step, on models whose own step is tiny.

python benchmarks/loop.py [--steps 300] [--rounds 5] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import logging
import pstats
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from machine import processor
from rich.console import Console
from rich.table import Table
from torch import Tensor
from tqdm import tqdm

import zoo
from zoo.cli import run
from zoo.cli.train import DEFAULTS

WARM = 50  # steps that do not count

TASKS: dict[str, Callable[[], tuple[zoo.Task, zoo.DataModule]]] = {
    "ViT 1 x 32, digits, batch 2": lambda: (
        zoo.Classify(
            zoo.ViT(dim=32, depth=1, heads=2, grid=2, prefix=0), zoo.Patches(size=8, patch=4, channels=1), classes=10
        ),
        zoo.Images(batch_size=2),
    ),
    "GPT 1 x 32, text, batch 4 x 16": lambda: (
        zoo.CausalLM(zoo.GPT(dim=32, depth=1, heads=2), zoo.BPE("docs-2048")),
        zoo.Text(length=16, batch_size=4),
    ),
}


class Clock(pl.Callback):
    """Notes when training was where."""

    def __init__(self, steps: int):
        self.last, self.begun, self.ended = WARM + steps, 0.0, 0.0

    def on_train_batch_end(self, trainer: pl.Trainer, *rest: Any) -> None:
        if trainer.global_step == WARM:
            self.begun = time.perf_counter()
        elif trainer.global_step == self.last:
            self.ended = time.perf_counter()


class Bare(pl.LightningModule):
    """A task's step in a LightningModule that does nothing else."""

    def __init__(self, task: zoo.Task):
        super().__init__()
        self.task = task

    def training_step(self, batch: zoo.Batch, batch_idx: int) -> Tensor:
        total, weight = self.task.step(batch, training=True)["loss"]
        return total / weight

    def configure_optimizers(self) -> dict:
        self.task._trainer = self.trainer
        return self.task.configure_optimizers()


def plain(task: zoo.Task, data: zoo.DataModule, steps: int, folder: Path) -> float:
    """Seconds of so many steps of a loop as one writes it by hand."""
    data.task = task
    data.setup("fit")
    optimizer = torch.optim.AdamW(task.parameters(), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    begun = 0.0
    for number, batch in enumerate(endless(data), 1):
        total, weight = task.step(batch, training=True)["loss"]
        optimizer.zero_grad()
        (total / weight).backward()
        torch.nn.utils.clip_grad_norm_(task.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if number == WARM:
            begun = time.perf_counter()
        elif number == WARM + steps:
            break
    return time.perf_counter() - begun


def endless(data: zoo.DataModule) -> Iterator[zoo.Batch]:
    while True:
        yield from data.train_dataloader()


def bare(task: zoo.Task, data: zoo.DataModule, steps: int, folder: Path) -> float:
    """Seconds of so many steps of a Trainer that logs nothing and has no callbacks."""
    data.task = task
    return fitted(Bare(task), data, steps, {"enable_progress_bar": False, "logger": False, "callbacks": []})


def ours(task: zoo.Task, data: zoo.DataModule, steps: int, folder: Path) -> float:
    """Seconds of so many steps of ``python -m zoo fit``."""
    given = dict.fromkeys(("callbacks", "plugins", "enable_checkpointing", "enable_progress_bar", "logger", "profiler"))
    given |= {"enable_model_summary": False, "val_check_interval": None}
    arguments = run.trainer_arguments(given, folder, task.monitor, training=True)
    return fitted(task, data, steps, {**DEFAULTS, **arguments, "enable_checkpointing": True})


def fitted(module: pl.LightningModule, data: zoo.DataModule, steps: int, arguments: dict[str, Any]) -> float:
    clock = Clock(steps)
    given = {"enable_checkpointing": False, "gradient_clip_val": 1.0, "use_distributed_sampler": False, **arguments}
    given["callbacks"] = [*given["callbacks"], clock]
    trainer = pl.Trainer(
        accelerator="cpu", max_steps=WARM + steps, limit_val_batches=0, enable_model_summary=False, **given
    )
    trainer.fit(module, data)
    return clock.ended - clock.begun


LOOPS = {"plain loop": plain, "Lightning, bare": bare, "python -m zoo fit": ours}


def seconds(task: str, loop: str, steps: int) -> float:
    """The mean time of a step of a new training."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        return LOOPS[loop](*TASKS[task](), steps, Path(folder)) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300, help="up to 300: they stay within an epoch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="says where the time of our loop goes instead")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    if options.profile:
        with cProfile.Profile() as profile:
            seconds(next(iter(TASKS)), "python -m zoo fit", options.steps)
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)
        return
    found: dict[tuple[str, str], list[float]] = {}
    work = [(task, loop) for _ in range(options.rounds) for task in TASKS for loop in LOOPS]
    for task, loop in tqdm(work, "trainings"):
        found.setdefault((task, loop), []).append(seconds(task, loop, options.steps))
    for task in TASKS:
        title = f"{task}; {processor()}, {torch.get_num_threads()} threads"
        table = Table("loop", "ms a step", "over the plain loop (median of rounds)", title=title)
        for loop in LOOPS:
            over = statistics.median(a - b for a, b in zip(found[task, loop], found[task, "plain loop"]))
            table.add_row(loop, f"{1000 * statistics.median(found[task, loop]):.3f}", f"{1000 * over:.3f}")
        Console(width=120).print(table)


if __name__ == "__main__":
    main()
