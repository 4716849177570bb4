"""A run whose checkpoints could not be kept does not begin: no directory, no room, values that could not be read."""

import os
from collections import namedtuple
from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from zoo.callbacks import CheckSpace, space
from zoo.checkpoints import AtomicCheckpointIO
from zoo.data import Images
from zoo.models import ViT
from zoo.tasks import Classify
from zoo.tokenizers import Patches

Usage = namedtuple("Usage", "total used free")


def task() -> Classify:
    return Classify(ViT(dim=8, depth=1, heads=2, grid=2, prefix=0), Patches(size=8, patch=4, channels=1), classes=10)


def trainer(*savers: ModelCheckpoint, **more) -> pl.Trainer:
    rest = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    plugins = [AtomicCheckpointIO()]
    return pl.Trainer(
        max_steps=1, callbacks=[CheckSpace(), *savers], plugins=plugins, limit_val_batches=0, **rest, **more
    )


def free(monkeypatch, count: int) -> None:
    monkeypatch.setattr(space.shutil, "disk_usage", lambda path: Usage(10**12, 0, count))


pytestmark = pytest.mark.filterwarnings("ignore")
BYTES = 3 * sum(weight.nbytes for weight in task().parameters())  # weights, and two moments of AdamW


@pytest.mark.parametrize(
    ("saver", "needed"),
    [
        ({}, 2 * BYTES),
        ({"save_top_k": 3}, 4 * BYTES),
        ({"save_top_k": 3, "save_last": True}, 5 * BYTES),
        ({"save_top_k": 2, "save_weights_only": True}, 3 * BYTES // 3),
        ({"save_top_k": 0, "save_last": True}, 2 * BYTES),
    ],
)
def test_the_room_for_all_checkpoints_and_one_in_the_making(saver, needed, tmp_path, monkeypatch):
    if saver.get("save_top_k", 1) > 1:
        saver = {**saver, "monitor": "train/loss"}
    free(monkeypatch, needed - 1)
    with pytest.raises(OSError, match=f"{needed - 1:,} bytes .* free, and .* need {needed:,} ") as caught:
        trainer(ModelCheckpoint(tmp_path / "c", **saver)).fit(task(), Images())
    assert str(caught.value).startswith(str(tmp_path / "c")) and not list((tmp_path / "c").iterdir())
    free(monkeypatch, needed)
    trainer(ModelCheckpoint(tmp_path / "d", **saver)).fit(task(), Images())


def test_checkpoints_that_will_be_replaced_count_as_room(tmp_path, monkeypatch):
    trainer(ModelCheckpoint(tmp_path, filename="last")).fit(task(), Images())
    there = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert there > BYTES
    free(monkeypatch, BYTES)
    trainer(ModelCheckpoint(tmp_path, filename="last")).fit(task(), Images())


def test_a_directory_that_cannot_be_written_ends_the_run_before_it_begins(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    begun = []
    monkeypatch.setattr(Classify, "training_step", lambda *words: begun.append(words))
    with pytest.raises(OSError, match=r"cannot write in .*file/c: not a directory; name another"):
        trainer(ModelCheckpoint(tmp_path / "file" / "c")).fit(task(), Images())
    assert not begun


def test_a_disk_that_takes_no_bytes(tmp_path, monkeypatch):
    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("zoo.atomic.os.fsync", full)
    with pytest.raises(OSError, match=r"cannot write in .*c: no space left on device; name another directory with"):
        trainer(ModelCheckpoint(tmp_path / "c")).fit(task(), Images())
    assert not list((tmp_path / "c").iterdir())


def test_hyper_parameters_that_could_not_be_read_back(tmp_path):
    odd = task()
    odd.save_hyperparameters({"where": Path("x")})
    with pytest.raises(ValueError, match=r"hyper_parameters\.where is a pathlib\.PosixPath"):
        trainer(ModelCheckpoint(tmp_path)).fit(odd, Images())


def test_nothing_is_left_and_nothing_is_asked_of_runs_that_save_nothing(tmp_path, monkeypatch):
    free(monkeypatch, 0)
    trainer(fast_dev_run=True).fit(task(), Images())
    trainer(enable_checkpointing=False).fit(task(), Images())
    space.require_writable(tmp_path / "new" / "c")
    assert os.listdir(tmp_path / "new" / "c") == []


def test_what_an_optimizer_keeps_is_what_it_keeps():
    model = task()
    optimizer = torch.optim.AdamW(model.parameters())
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    kept = sum(value.nbytes for state in optimizer.state.values() for value in state.values() if value.dim())
    assert kept + sum(weight.nbytes for weight in model.parameters()) == BYTES
