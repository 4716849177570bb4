"""nan and infinity in the loss, the gradient, the batch and the weights: each time training stops before the update, in
one line, and the checkpoint that is there is from before.

    python -m tests.long.finite
"""

from __future__ import annotations

import itertools
import math
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn

from tests.long.report import Report, bar
from zoo.callbacks import FiniteGuard
from zoo.tokenizers import Batch, Tokens

AT = 10  # the step that goes wrong
PLACES = ("loss", "gradient", "batch", "weights")
VALUES = (math.nan, math.inf, -math.inf)


class Wrong(torch.autograd.Function):
    """The identity, whose gradient is not finite."""

    @staticmethod
    def forward(ctx, x: Tensor, value: float) -> Tensor:
        ctx.value = value
        return x.clone()

    @staticmethod
    def backward(ctx, gradient: Tensor):
        return torch.full_like(gradient, ctx.value), None


class Regression(pl.LightningModule):
    """Two layers, and something wrong at one step: at ``place``, and ``value``."""

    def __init__(self, place: str = "", value: float = math.nan, at: int = AT):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 1)
        self.place, self.value, self.at = place, value, at
        self.changed = 0  # updates that changed a weight
        self.before: Tensor | None = None

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        x, wrong = batch.input.value, self.global_step + 1 == self.at
        if wrong and self.place == "weights":
            self.last.weight.data[0, 3] = self.value
        if wrong and self.place == "batch":
            x[0, 0] = self.value
        hidden = self.first(x).tanh()
        hidden = Wrong.apply(hidden, self.value) if wrong and self.place == "gradient" else hidden
        loss = self.last(hidden).square().mean()
        return loss + self.value if wrong and self.place == "loss" else loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self.log("val/loss", self.last(self.first(batch.input.value).tanh()).square().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


class Numbers(pl.LightningDataModule):
    """16 batches of four samples, whose keys are 0 to 63."""

    def train_dataloader(self):
        x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
        batches = [Batch(Tokens(x[i : i + 4].clone()), key=torch.arange(i, i + 4)) for i in range(0, 64, 4)]
        return torch.utils.data.DataLoader(batches, batch_size=None)

    val_dataloader = train_dataloader


def trainer(folder: Path, guard: FiniteGuard, **arguments) -> pl.Trainer:
    """One that saves after every step."""
    return pl.Trainer(
        **{
            "accelerator": "cpu",
            "max_epochs": 1,
            "logger": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "num_sanity_val_steps": 0,
            "gradient_clip_val": 1.0,
            "default_root_dir": folder,
            "callbacks": [guard, ModelCheckpoint(folder, "last", every_n_train_steps=1, enable_version_counter=False)],
            **arguments,
        }
    )


@dataclass
class Outcome:
    """What a training with something wrong left behind."""

    said: str
    steps: int  # of the last checkpoint
    clean: bool  # is all of it finite?


def attempt(place: str, value: float, folder: Path) -> Outcome:
    """Train until something is wrong."""
    pl.seed_everything(0, verbose=False)
    said = ""
    try:
        trainer(folder, FiniteGuard()).fit(Regression(place, value), Numbers())
    except ValueError as error:
        said = str(error)
    checkpoint = torch.load(folder / "last.ckpt", weights_only=True)
    moments = [part for state in checkpoint["optimizer_states"][0]["state"].values() for part in state.values()]
    clean = all(bool(part.isfinite().all()) for part in [*checkpoint["state_dict"].values(), *moments])
    return Outcome(said, checkpoint["global_step"], clean)


def good(outcome: Outcome, place: str) -> bool:
    """Was it the very step, in one line that names what is wrong, with a good checkpoint of the step before?"""
    words = {
        "loss": "the loss is",
        "gradient": "the gradient of",
        "batch": "and so is the input",
        "weights": "last.weight",
    }
    told = f"step {AT}: " in outcome.said and words[place] in outcome.said and "samples 36, 37, 38, 39" in outcome.said
    return told and "\n" not in outcome.said and outcome.steps == AT - 1 and outcome.clean


def main() -> int:
    report = Report("something that is not finite")
    cases = list(itertools.product(PLACES, VALUES))
    stopped = 0
    with tempfile.TemporaryDirectory() as name:
        for number, (place, value) in enumerate(bar(cases, "finite")):
            outcome = attempt(place, value, Path(name) / str(number))
            kept = good(outcome, place)
            stopped += kept
            report.row(f"{place}: {value}", f"checkpoint of step {outcome.steps}", f"stopped at step {AT}", kept)
            if not kept:
                print(outcome)
    report.row("stopped before the update", f"{stopped} of {len(cases)}", f"{len(cases)} of {len(cases)}")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
