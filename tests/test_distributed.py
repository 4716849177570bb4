"""Two processes on one machine: every sample once an epoch, and the same scores as one process."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from zoo.cli.predictions import woven
from zoo.data import Images
from zoo.rng import sample_keys

WITNESS = """
import lightning.pytorch as pl, torch

class Witness(pl.Callback):
    '''Writes down the samples that this process was given.'''

    def on_fit_start(self, trainer, module):
        self.seen = {"train": [], "val": []}

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.seen["train"] += [(trainer.current_epoch, int(key)) for key in batch.key]

    def on_validation_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.seen["val"] += [int(key) for key in batch.key]

    def on_fit_end(self, trainer, module):
        torch.save(self.seen, f"seen-{trainer.world_size}-{trainer.global_rank}.pt")
"""

CONFIG = """
trainer:
  accelerator: cpu
  precision: bf16-mixed
  max_epochs: 2
  num_sanity_val_steps: 0
  enable_progress_bar: false
  callbacks: [{class_path: witness.Witness}]
model:
  class_path: Classify
  init_args:
    tokenizer: {class_path: Patches, init_args: {size: 8, patch: 4, channels: 1}}
    backbone: {class_path: ViT, init_args: {dim: 16, depth: 1, heads: 2, grid: 2, prefix: 0}}
    optimizer: {class_path: SGD, init_args: {lr: 0.0}}
data: {class_path: Images, init_args: {batch_size: 64, val: 0.1}}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same training with one process and with two, in one folder."""
    folder = tmp_path_factory.mktemp("distributed")
    (folder / "witness.py").write_text(WITNESS)
    (folder / "small.yaml").write_text(CONFIG)
    root = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join([str(folder), *([root] if (Path(root) / "zoo").is_dir() else [])])
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    for verb in ("fit", "predict"):
        for devices in ("1", "2"):
            words = [verb, "--config", "small.yaml", "--allow", "witness", "--seed_everything=0"]
            words += ["--config", "trainer/ddp"] if devices == "2" else []
            words += ["--trainer.devices", devices]
            done = subprocess.run(
                [sys.executable, "-m", "zoo", *words], cwd=folder, env=env, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr
    return folder


def seen(folder: Path, world: int) -> list[dict]:
    return [torch.load(folder / f"seen-{world}-{rank}.pt") for rank in range(world)]


def test_every_sample_is_seen_once_an_epoch(runs):
    count = len(Images().source.splits["train"].input)
    for epoch in range(2):
        expected = sorted(sample_keys(0, epoch, torch.arange(count)).tolist())
        alone = [key for e, key in seen(runs, 1)[0]["train"] if e == epoch]
        first, second = ([key for e, key in part["train"] if e == epoch] for part in seen(runs, 2))
        assert sorted(alone) == expected
        assert not set(first) & set(second) and abs(len(first) - len(second)) <= 1
        assert sorted(first + second) == expected


def test_validation_meets_each_sample_once_and_scores_the_same(runs):
    one, two = seen(runs, 1), seen(runs, 2)
    assert sorted(one[0]["val"]) == sorted(two[0]["val"] + two[1]["val"])
    losses = []
    for metrics in sorted((runs / "runs").glob("small-*/metrics.csv")):
        with open(metrics) as file:
            losses.append([float(row["val/loss"]) for row in csv.DictReader(file) if row["val/loss"]])
    assert len(losses) == 2 and losses[0] == pytest.approx(losses[1], rel=1e-3)  # bfloat16, and other batches


def test_two_processes_share_one_run_directory(runs):
    assert len(list((runs / "runs").glob("small-2*"))) == 2
    assert len(list((runs / "runs").glob("small-predict-2*"))) == 2


def test_predictions_come_from_all_processes_in_the_order_of_the_samples(runs):
    one, two = (torch.load(file) for file in sorted((runs / "runs").glob("small-predict-*/predictions.pt")))
    assert len(one) > len(two) and len(two[0]) == 2 * len(one[0])
    torch.testing.assert_close(torch.cat(two), torch.cat(one), rtol=0.05, atol=0.02)  # bfloat16, and other batches


def test_uneven_shares_are_woven_together():
    assert woven([["a", "c", "e"], ["b", "d"]]) == list("abcde") and woven([["a"]]) == ["a"]
    whole = woven([{"x": torch.tensor([0, 2])}, {"x": torch.tensor([1])}])
    assert whole["x"].tolist() == [0, 1, 2]
