"""Averaged weights: what is validated, saved and loaded is the average; what goes on is what was trained."""

from functools import partial
from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch
import yaml
from lightning.pytorch.callbacks import EMAWeightAveraging, ModelCheckpoint

from tests.tasks.conftest import TOKENIZERS, Repeat, backbone, batch
from zoo.listing import shipped
from zoo.tasks import Classify

pytestmark = pytest.mark.filterwarnings("ignore")

DECAY = 0.8


class Average(pl.Callback):
    """The formula, spelled out: the first step's weights, then a share of what was and the rest of what is."""

    def __init__(self):
        self.average, self.scores = {}, []

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        for name, weight in module.named_parameters():
            old = self.average.get(name, weight.detach())
            self.average[name] = DECAY * old + (1 - DECAY) * weight.detach()

    def on_validation_epoch_end(self, trainer, module):
        if self.average:
            self.scores.append(all(torch.allclose(w, self.average[n], atol=1e-6) for n, w in module.named_parameters()))


def test_the_average_is_validated_saved_and_loaded(tmp_path):
    task = Classify(backbone(), TOKENIZERS["image"], 3, optimizer=partial(torch.optim.AdamW, lr=5e-3))
    (words,) = yaml.safe_load(shipped()["trainer/ema"].read_text())["trainer"]["callbacks+"]
    assert words["class_path"] == "EMAWeightAveraging"
    average = Average()
    saver = ModelCheckpoint(tmp_path, "best", monitor="val/loss")
    callbacks = [average, EMAWeightAveraging(**{**words["init_args"], "decay": DECAY}), saver]
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "num_sanity_val_steps": 0}
    fitting = pl.Trainer(max_epochs=3, accelerator="cpu", callbacks=callbacks, default_root_dir=tmp_path, **quiet)
    fitting.fit(task, Repeat(batch("image"), 4))
    assert average.scores == [True] * 3
    saved = torch.load(tmp_path / "best.ckpt", weights_only=True)
    loaded = Classify.load_from_checkpoint(tmp_path / "best.ckpt")
    for name, weight in loaded.named_parameters():
        assert torch.allclose(weight, average.average[name], atol=1e-6), name
        assert not torch.allclose(weight, saved["current_model_state"][name], atol=1e-6), name


def test_from_a_config_and_on(command):
    """A run is gone on with, and tested, without a word about averaging."""
    words = ("fit", "--config", "digits", "--config", "trainer/ema", "--trainer.callbacks.init_args.decay=0.5")
    assert command(*words).code == 0
    (run,) = Path("runs").iterdir()
    for verb, more in (("fit", ("--trainer.max_epochs=2",)), ("test", ())):
        answer = command(verb, str(run), *more)
        assert answer.code == 0 and "Averaging" not in answer.err, answer.err
    kept = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    assert kept["global_step"] == 4 and kept["averaging_state"]["n_averaged"] == 4
