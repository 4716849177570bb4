"""Training that is stopped and gone on with, once, twice and three times, against training that was not: bit for bit.

``python -m tests.long.resume``: 12 points x 3 objectives x workers {0, 2} x accumulation {1, 2}.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import warnings
from functools import partial
from itertools import product
from pathlib import Path

import torch

from tests.long.report import Report, bar
from tests.long.stopping import Point, Seen, Training
from zoo.data import CropFlip, Images, Mixup, Text
from zoo.models import BERT, GPT2, ViT
from zoo.tasks import CausalLM, Classify, MaskedLM
from zoo.tokenizers import BPE, Patches

BATCHES = 6  # an epoch; the last is smaller
WORDS = "a run that is stopped is gone on with from the very step and sample where it was stopped\n"
FIRST, MIDDLE, LAST = BATCHES + 1, BATCHES + 3, 2 * BATCHES  # of the second epoch


class Few(Images):
    """A few images: six batches an epoch, two of validation."""

    def read(self):
        source = super().read()
        train = source.splits["train"]
        source.splits = {"train": train.take(range(53)), "val": train.take(range(14))}
        return source


def text(folder: Path, workers: int) -> Text:
    for name, count in (("train", 7), ("val", 2)):
        (folder / f"{name}.txt").write_text(WORDS * count)
    return Text(str(folder), length=12, batch_size=9, workers=workers, seed=3)


def causal() -> CausalLM:
    torch.manual_seed(0)
    return CausalLM(GPT2(dim=8, depth=1, heads=2, length=12, dropout=0.2), BPE())


def masked() -> MaskedLM:
    torch.manual_seed(0)
    return MaskedLM(BERT(dim=8, depth=1, heads=2, length=12, dropout=0.2), BPE())


def classify() -> Classify:
    torch.manual_seed(0)
    return Classify(ViT(dim=8, depth=1, heads=2, grid=4, prefix=0, dropout=0.2), Patches(8, 2, 1), classes=10)


def training(objective: str, folder: Path, workers: int, accumulate: int) -> Training:
    arguments = {"accumulate_grad_batches": accumulate}
    if objective == "classify":
        augment = [CropFlip(1), Mixup()]
        return Training(classify, partial(Few, batch_size=9, workers=workers, seed=3, augment=augment), arguments)
    return Training({"masked": masked, "causal": causal}[objective], partial(text, folder, workers), arguments)


POINTS: dict[str, tuple[Point, ...]] = {  # name: where each run is stopped, one after the other
    "first batch": (Point("on_train_batch_end", FIRST),),
    "middle of an epoch": (Point("on_train_batch_end", MIDDLE),),
    "last batch, validation due": (Point("on_train_batch_end", LAST),),
    "first batch of a validation": (Point("on_validation_batch_end", LAST, 0),),
    "last batch of a validation": (Point("on_validation_batch_end", LAST, 1),),
    "end of a validation": (Point("on_validation_end", LAST),),
    "end of an epoch": (Point("on_train_epoch_end", LAST),),
    "start of an epoch": (Point("on_train_epoch_start", LAST),),
    "a batch read, not trained": (Point("on_train_batch_start", MIDDLE),),
    "between two steps": (Point("between", FIRST + 1),),
    "between two epochs": (Point("between", LAST),),
    "the very last validation": (Point("on_validation_batch_end", 3 * BATCHES, 0),),
}


def chain(points: tuple[Point, ...]) -> list[tuple[Point, ...]]:
    """Stopped there alone; before that in the first epoch too; and once more at the next batch, and in the last epoch:
    each resume is also a second and a third one."""
    (point,) = points
    earlier, later = Point("on_train_batch_end", BATCHES), Point("on_train_batch_end", 3 * BATCHES - 1)
    again = [later] if point.trained < later.trained else []
    return [(point,), (earlier, point, *again), (Point("on_validation_batch_end", BATCHES, 0), point, *again)]


def compare(objective: str, workers: int, accumulate: int, names: list[str]) -> dict[str, list[str]]:
    """For each point, what differs from the training that was not stopped."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = training(objective, folder, workers, accumulate)
        whole = made.run(folder)
        assert len(whole.losses) == 3 * BATCHES and len(whole.calls) == 9, (objective, len(whole.losses))
        found: dict[str, list[str]] = {}
        for point in names:
            tried: list[Seen] = [made.run(folder, *stops) for stops in chain(POINTS[point])]
            found[point] = [f"{number}: {word}" for number, seen in enumerate(tried) for word in whole.same(seen)]
        return found


def silent() -> None:
    warnings.simplefilter("ignore")
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=len(POINTS), help="how many of the points")
    names = list(POINTS)[: parser.parse_args().count]
    silent()
    torch.set_num_threads(1)
    os.chdir(tempfile.mkdtemp())  # savers without a directory take the current one
    report = Report("stopped and gone on with: losses, samples, rows, validations, weights, optimizer")
    cases = list(product(("masked", "causal", "classify"), (0, 2), (1, 2)))
    for objective, workers, accumulate in bar(cases, "cases"):
        for point, differ in compare(objective, workers, accumulate, names).items():
            what = f"{objective}, workers {workers}, accumulation {accumulate}: {point}"
            report.row(what, ", ".join(differ) or "equal", "equal")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
