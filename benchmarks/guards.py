"""What the guards of a run cost: a training step with each of them, as a ratio of medians to a step without any.

python benchmarks/guards.py [--steps 60] [--rounds 5]
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable

import lightning.pytorch as pl
import torch
from machine import processor
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

import zoo

WARM = 10  # steps that do not count

TASKS: dict[str, Callable[[], tuple[pl.LightningModule, pl.LightningDataModule]]] = {
    "ViT 4 x 64, digits, batch 64": lambda: (
        zoo.Classify(
            zoo.ViT(dim=64, depth=4, heads=2, grid=4, prefix=0), zoo.Patches(size=8, patch=2, channels=1), classes=10
        ),
        zoo.Images(batch_size=64),
    ),
    "LLaMA 4 x 192, text, batch 8 x 128": lambda: (
        zoo.CausalLM(zoo.LLaMA(dim=192, depth=4, heads=6, hidden=512, dropout=0.1), zoo.BPE("docs-2048")),
        zoo.Text(length=128, batch_size=8),
    ),
}
GUARDS: dict[str, Callable[[], list[pl.Callback]]] = {
    "none": list,
    "ExactResume": lambda: [zoo.ExactResume()],
    "FiniteGuard": lambda: [zoo.FiniteGuard()],
    "SaveOnSignal": lambda: [zoo.SaveOnSignal()],
    "Watchdog": lambda: [zoo.Watchdog()],
    "all of them": lambda: [zoo.Watchdog(), zoo.ExactResume(), zoo.FiniteGuard(), zoo.SaveOnSignal()],
}


class Clock(pl.Callback):
    """Notes when each step has ended."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_train_batch_end(self, *rest: object) -> None:
        self.times.append(time.perf_counter())


def seconds(task: str, guard: str, steps: int) -> float:
    """The median time of a step of a new training."""
    torch.manual_seed(0)
    module, data = TASKS[task]()
    clock = Clock()
    trainer = pl.Trainer(
        accelerator="auto",
        devices=1,
        max_steps=WARM + steps,
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=1.0,
        use_distributed_sampler=False,
        callbacks=[*GUARDS[guard](), clock],
    )
    trainer.fit(module, data)
    return statistics.median(after - before for before, after in zip(clock.times[WARM:], clock.times[WARM + 1 :]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    found: dict[tuple[str, str], list[float]] = {}
    work = [(task, guard) for _ in range(options.rounds) for task in TASKS for guard in GUARDS]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for task, guard in tqdm(work, "trainings"):
            found.setdefault((task, guard), []).append(seconds(task, guard, options.steps))
    for task in TASKS:
        table = Table(
            "guard",
            "ms a step",
            "to none (median of rounds)",
            title=f"{task}; {processor()}, {torch.get_num_threads()} threads",
        )
        for guard in GUARDS:
            ratio = statistics.median(a / b for a, b in zip(found[task, guard], found[task, "none"]))
            table.add_row(guard, f"{1000 * statistics.median(found[task, guard]):.2f}", f"{ratio:.3f}")
        Console(width=120).print(table)


if __name__ == "__main__":
    main()
