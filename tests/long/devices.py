"""One process against two on the same global batches, and what must differ between processes, workers and epochs.

``python -m tests.long.devices``: 100 steps in fp32; evaluation of samples that do not divide; masks, crops and dropout.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import lightning.pytorch as pl
import torch
from lightning.pytorch.strategies import DDPStrategy

from tests.long.report import Report
from tests.long.resume import silent
from zoo.callbacks import ExactResume
from zoo.data import CropFlip, Images
from zoo.data.order import Loader, Order
from zoo.models import BERT, ViT
from zoo.rng import uniform
from zoo.tasks import Classify, MaskedLM
from zoo.tokenizers import Patches

GLOBAL_BATCH, STEPS_AN_EPOCH, HELD = 16, 10, 37  # the last is odd: one process validates a sample more


class Some(Images):
    """A part of the digits."""

    def read(self):
        source = super().read()
        train, test = source.splits["train"], source.splits["test"]
        source.splits = {"train": train.take(range(GLOBAL_BATCH * STEPS_AN_EPOCH)), "val": test.take(range(HELD))}
        return source


class Witness(pl.Callback):
    """What one process met, in a file of its own; it comes behind ``ExactResume``."""

    def on_fit_start(self, trainer, module):
        self.found = {"loss": [], "keys": [], "random": [], "val": [], "inputs": []}

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        before = torch.get_rng_state()
        self.found["random"].append(torch.rand(()).item())
        torch.set_rng_state(before)

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.found["loss"].append(outputs["loss"].item())
        self.found["keys"].append(batch.key.tolist())

    def on_validation_end(self, trainer, module):
        self.found["val"].append({name: float(v) for name, v in trainer.callback_metrics.items() if "val" in name})

    def on_fit_end(self, trainer, module):
        torch.save(self.found, Path(trainer.default_root_dir) / f"{trainer.world_size}-{trainer.global_rank}.pt")


def train(folder: Path, world: int, epochs: int, seed: int = 0) -> list[dict]:
    """The same training by so many processes; what each of them met."""
    process = multiprocessing.get_context("fork").Process(target=_train, args=(folder, world, epochs, seed))
    process.start()  # each training in a fresh process: Lightning forks no process that has trained
    process.join()
    assert process.exitcode == 0, f"{world} processes ended with {process.exitcode}"
    return [torch.load(folder / f"{world}-{rank}.pt") for rank in range(world)]


def _train(folder: Path, world: int, epochs: int, seed: int) -> None:
    silent()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    task = Classify(ViT(dim=16, depth=2, heads=2, grid=4, prefix=0), Patches(8, 2, 1), classes=10)
    strategy = DDPStrategy(start_method="fork", process_group_backend="gloo") if world > 1 else "auto"
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "num_sanity_val_steps": 0}
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=world,
        strategy=strategy,
        max_epochs=epochs,
        default_root_dir=folder,
        callbacks=[ExactResume(seed), Witness()],
        enable_checkpointing=False,
        use_distributed_sampler=False,
        **quiet,
    )
    trainer.fit(task, Some(batch_size=GLOBAL_BATCH // world, seed=seed))


def relative(one: float, other: float) -> float:
    return abs(one - other) / max(abs(one), abs(other))


def compare(report: Report, folder: Path, epochs: int) -> None:
    (alone,), both = train(folder, 1, epochs), train(folder, 2, epochs)
    losses = [sum(pair) / 2 for pair in zip(*(part["loss"] for part in both))]
    worst = max(map(relative, alone["loss"], losses))
    report.row(
        f"{len(losses)} steps, 1 and 2 processes: largest difference of the loss",
        f"{worst:.1e}",
        "<= 1e-5",
        worst <= 1e-5,
    )
    batches = [sorted(a + b) for a, b in zip(*(part["keys"] for part in both))]
    report.row("global batches are the same", batches == [sorted(keys) for keys in alone["keys"]], True)
    report.row("processes validate alike", both[0]["val"] == both[1]["val"], True)
    scores = [(one[name], two[name]) for one, two in zip(alone["val"], both[0]["val"]) for name in one]
    worst = max(relative(*pair) for pair in scores if pair[0] != pair[1]) if any(a != b for a, b in scores) else 0.0
    report.row(f"validation of {HELD} samples: largest difference of a score", f"{worst:.1e}", "<= 1e-5", worst <= 1e-5)
    drawn = {number for part in both for number in part["random"]}
    report.row("random numbers differ between processes and steps", len(drawn), 2 * len(losses))
    again = [part["random"] for part in train(folder, 2, 1)]
    steps = STEPS_AN_EPOCH
    report.row("and repeat for a seed", again == [part["random"][:steps] for part in both], True)


def samples(workers: int, rank: int, world: int, epoch: int, seed: int) -> Iterator[tuple[int, bytes, bytes]]:
    """(place in the data set, its crop, its mask) of a process in an epoch."""
    data = Some(tokenizer=Patches(8, 2, 1), batch_size=8, workers=workers, seed=seed, augment=CropFlip(2))
    ready = data.loader("train").dataset
    order = Order(len(ready), seed, rank, world)
    order.set_epoch(epoch)
    task = MaskedLM(BERT(dim=8, depth=1, heads=2, length=16), data.tokenizer)
    index = iter(order)
    for batch in Loader(ready, 8, sampler=order, collate_fn=_first, num_workers=workers):
        hidden = task.hide(batch)
        for value, mask in zip(batch.input.value, hidden):
            yield next(index)[1], value.numpy().tobytes(), mask.numpy().tobytes()


def _first(batch):
    return batch


def draws(report: Report) -> None:
    """Crops and masks."""
    whole = list(samples(0, 0, 1, 0, 0))
    report.row("crops and masks repeat for a seed", list(samples(0, 0, 1, 0, 0)) == whole, True)
    report.row("and are the same with 2 workers", list(samples(2, 0, 1, 0, 0)) == whole, True)
    parts = [list(samples(0, rank, 2, 0, 0)) for rank in (0, 1)]
    report.row("and in 2 processes, of which each has its half", sorted(parts[0] + parts[1]) == sorted(whole), True)
    for what, epoch, seed in (("another epoch", 1, 0), ("another seed", 0, 1)):
        other = {place: rest for place, *rest in samples(0, 0, 1, epoch, seed)}
        crops, masks = zip(*((other[place][0] == crop, other[place][1] == mask) for place, crop, mask in whole))
        same = max(sum(crops), sum(masks)) / len(whole)
        report.row(f"{what} has others: share that is the same", f"{same:.2f}", "< 0.1", same < 0.1)
    keys = torch.arange(8)
    report.row("samples of one batch differ", len({bytes(row.numpy()) for row in uniform(keys, 4)}), 8)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="steps")
    epochs = max(1, parser.parse_args().count // STEPS_AN_EPOCH)
    silent()
    torch.set_num_threads(1)
    report = Report("processes, workers and epochs")
    with tempfile.TemporaryDirectory() as name:
        compare(report, Path(name), epochs)
    draws(report)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
