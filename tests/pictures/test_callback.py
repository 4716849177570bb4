"""The callback: when it draws, where the files are, that loggers get them, and that training stays as it was."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import TensorBoardLogger, WandbLogger
from lightning.pytorch.strategies import DDPStrategy, FSDPStrategy, ModelParallelStrategy
from PIL import Image

from tests.tasks.conftest import TOKENIZERS, Repeat, backbone, batch
from zoo.callbacks import Pictures
from zoo.callbacks.pictures import send, wanted
from zoo.data import Images
from zoo.models import ViT
from zoo.tasks import Classify, MaskedLM
from zoo.tokenizers import Patches

QUIET = {"num_sanity_val_steps": 2}


def masked() -> MaskedLM:
    return MaskedLM(backbone(), TOKENIZERS["image"])


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("pictures/*"))


def test_every_second_validation_is_drawn_once(trainer, tmp_path):
    fitting = trainer(callbacks=[Pictures(every=2, samples=3)], max_epochs=5, **QUIET)
    fitting.fit(masked(), Repeat(batch("image"), 3))
    assert files(tmp_path) == ["masked-step000006.png", "masked-step000012.png"]
    with Image.open(tmp_path / "pictures" / "masked-step000006.png") as image:
        assert image.mode == "RGB" and image.width > 300


def test_so_many_samples_of_the_first_batch_are_shown(trainer, monkeypatch):
    shown = []
    task = masked()
    monkeypatch.setattr(task, "show", lambda data: shown.append(data) or [])
    trainer(callbacks=[Pictures(samples=3)], max_epochs=1).fit(task, Repeat(batch("image"), 2))
    (data,) = shown
    assert torch.equal(data.input.value, batch("image").input.value[:3]) and len(data.key) == len(data.label) == 3


def test_the_samples_of_our_data_come_from_all_over_the_set_and_stay_the_same(trainer, monkeypatch):
    """Class folders are sorted: the first ones would all be of one class."""
    shown = []
    task = Classify(ViT(dim=16, depth=1, heads=2, grid=2, prefix=0), Patches(8, 4, channels=1), classes=10)
    monkeypatch.setattr(task, "show", lambda data: shown.append(data) or [])
    data = Images(batch_size=32)
    trainer(callbacks=[Pictures(samples=5)], max_epochs=2).fit(task, data)
    labels = data.source.splits["val"].label
    assert [batch.label.tolist() for batch in shown] == [labels[[0, 18, 36, 54, 72]].tolist()] * 2
    assert torch.equal(shown[0].key, shown[1].key)


@pytest.mark.parametrize("why", ["fast_dev_run", "validations"])
def test_nothing_is_drawn_in_a_rehearsal_and_without_validations(why, trainer, tmp_path):
    words = {"fast_dev_run": True} if why == "fast_dev_run" else {"limit_val_batches": 0, "max_epochs": 1}
    trainer(callbacks=[Pictures()], **words).fit(masked(), Repeat(batch("image"), 2))
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    "strategy, expected", [(DDPStrategy, True), (FSDPStrategy, False), (ModelParallelStrategy, False)]
)
def test_sharded_models_are_not_drawn_since_one_process_alone_would_wait(strategy, expected):
    trainer = SimpleNamespace(sanity_checking=False, fast_dev_run=False, strategy=strategy())
    assert wanted(trainer, masked()) == expected


def test_attention_is_drawn_when_asked_for(trainer, tmp_path):
    trainer(callbacks=[Pictures(attention=True)], max_epochs=1).fit(masked(), Repeat(batch("image"), 2))
    assert files(tmp_path) == ["attention-step000002.png", "masked-step000002.png"]


def test_training_is_bit_equal_with_and_without_pictures(trainer):
    weights = []
    for callbacks in ([], [Pictures(attention=True)]):
        torch.manual_seed(3)
        task = MaskedLM(ViT(dim=16, depth=2, heads=2, grid=4, prefix=0, dropout=0.2), TOKENIZERS["image"])
        data = batch("image")
        data.key = None  # masks from the global random numbers
        trainer(callbacks=callbacks, max_epochs=2, num_sanity_val_steps=0).fit(task, Repeat(data, 3))
        weights.append(task.state_dict())
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name]), name


class Modes(Callback):
    def on_train_batch_start(self, trainer, module, data, index):
        assert module.training and all(part.training for part in module.modules())


def test_the_model_is_in_training_mode_afterwards(trainer):
    trainer(callbacks=[Pictures(), Modes()], max_epochs=2).fit(masked(), Repeat(batch("image"), 2))


def test_a_picture_that_fails_is_warned_of_and_training_goes_on(trainer, tmp_path, monkeypatch, caplog):
    def broken(*args):
        raise RuntimeError("no ink\nin the printer")

    task = Classify(backbone(), TOKENIZERS["image"], 3)
    monkeypatch.setattr("zoo.pictures.draw.confusion", broken)
    with caplog.at_level(logging.WARNING, "zoo"):
        trainer(callbacks=[Pictures()], max_epochs=2).fit(task, Repeat(batch("image"), 2))
    assert files(tmp_path) == ["samples-step000002.png", "samples-step000004.png"]
    said = [record.getMessage() for record in caplog.records if record.name.startswith("zoo")]
    assert said == ["the picture confusion was not drawn: RuntimeError: no ink"] * 2
    monkeypatch.setattr(task, "show", broken)
    trainer(callbacks=[Pictures()], max_epochs=1).fit(task, Repeat(batch("image"), 2))
    assert "no pictures were made: RuntimeError: no ink" in caplog.text


def test_a_task_that_cannot_show_its_attention_shows_the_rest(trainer, tmp_path, monkeypatch):
    task = masked()
    monkeypatch.setattr(task, "observe", lambda data: 1 / 0)
    trainer(callbacks=[Pictures(attention=True)], max_epochs=1).fit(task, Repeat(batch("image"), 2))
    assert files(tmp_path) == ["masked-step000002.png"]


def test_a_resumed_run_counts_on():
    first, second = Pictures(every=3), Pictures(every=3)
    first.validations = 2
    second.load_state_dict(first.state_dict())
    assert second.validations == 2


def test_counts_below_one_are_refused():
    with pytest.raises(ValueError, match="every=0"):
        Pictures(every=0)


def test_weights_and_biases_gets_the_pictures(trainer, tmp_path):
    pytest.importorskip("wandb")
    logger = WandbLogger(save_dir=str(tmp_path), offline=True)
    fitting = trainer(callbacks=[Pictures()], max_epochs=1, logger=logger)
    fitting.fit(masked(), Repeat(batch("image"), 2))
    logger.experiment.finish()
    (media,) = tmp_path.glob("wandb/offline-run-*/files/media/images/pictures/masked*.png")
    with Image.open(media) as sent, Image.open(tmp_path / "pictures" / "masked-step000002.png") as kept:
        assert sent.tobytes() == kept.tobytes()


def test_tensorboard_gets_an_image_of_bytes(monkeypatch):
    got = []
    board = SimpleNamespace(add_image=lambda *words, **more: got.append((words, more)))
    monkeypatch.setattr(TensorBoardLogger, "experiment", board)
    send(TensorBoardLogger.__new__(TensorBoardLogger), "pictures/a", Image.new("RGB", (5, 3), "red"), 7)
    (((key, pixels, step), more),) = got
    assert (key, step, pixels.shape, more) == ("pictures/a", 7, (3, 5, 3), {"dataformats": "HWC"})


SCRIPT = """
import lightning.pytorch as pl, torch
from zoo.callbacks import Pictures
from zoo.data import Images
from zoo.models import ViT
from zoo.tasks import Classify
from zoo.tokenizers import Patches


class Count(pl.Callback):
    def on_fit_end(self, trainer, module):
        torch.save(module.confusion, f"confusion-{trainer.global_rank}.pt")


task = Classify(ViT(dim=16, depth=1, heads=2, grid=2, prefix=0), Patches(size=8, patch=4, channels=1), classes=10)
trainer = pl.Trainer(
    accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, limit_train_batches=2, logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False,
    callbacks=[Pictures(attention=True), Count()],
)
trainer.fit(task, Images(batch_size=16))
"""


def test_one_of_two_processes_draws_what_both_have_seen(tmp_path):
    root = Path(__file__).resolve().parent.parent.parent
    (tmp_path / "two.py").write_text(SCRIPT)
    path = {"PYTHONPATH": str(root)} if (root / "zoo").is_dir() else {}
    done = subprocess.run(
        [sys.executable, "two.py"],
        cwd=tmp_path,
        env={**os.environ, **path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    names = ("attention", "confusion", "samples")
    assert files(tmp_path) == [f"{name}-step{step:06d}.png" for name in names for step in (2, 4)]
    first, second = (torch.load(tmp_path / f"confusion-{rank}.pt") for rank in (0, 1))
    assert torch.equal(first, second) and first.sum() == 90  # every validation sample, once
