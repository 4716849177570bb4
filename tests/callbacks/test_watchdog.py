"""The watchdog notes where training is, watches only what it knows, and ends a process that no longer goes on."""

import subprocess
import sys
import time

import lightning.pytorch as pl
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from zoo.callbacks import Watchdog
from zoo.heartbeat import Pulse, heart


class Small(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch[0]).square().mean()

    def validation_step(self, batch, batch_idx):
        self.layer(batch[0])

    predict_step = validation_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def loader() -> DataLoader:
    return DataLoader(TensorDataset(torch.zeros(8, 2)), batch_size=2)


@pytest.fixture
def notes(monkeypatch):
    """All that this process says of itself."""
    said: list[Pulse] = []
    step = heart.step

    def overheard(phase: str, limit: float) -> None:
        step(phase, limit)
        said.append(heart.pulse)

    monkeypatch.setattr(heart, "step", overheard)
    return said


def trained(watchdog: Watchdog, tmp_path, **given) -> None:
    usual = {"max_epochs": 2, "logger": False, "enable_checkpointing": False, "num_sanity_val_steps": 0}
    usual |= {"enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    trainer = pl.Trainer(**{**usual, **given}, default_root_dir=tmp_path, callbacks=[watchdog])
    trainer.fit(Small(), loader(), loader())


def limits(notes: list[Pulse], phase: str) -> list[float]:
    return [pulse.limit for pulse in notes if pulse.phase == phase]


def test_a_stretch_is_watched_once_it_was_passed_before(notes, tmp_path):
    trained(Watchdog(limit=50.0), tmp_path)
    for phase in ("forward", "backward", "after backward", "optimizer"):
        assert limits(notes, f"training: {phase}") == [0.0] + [50.0] * 7
    assert limits(notes, "validation 0") == [0.0] + [50.0] * 7
    steps = [pulse.steps for pulse in notes]
    assert steps == [*range(steps[0], steps[0] + len(steps))]


def test_what_may_take_any_time_is_not_watched(notes, tmp_path):
    trained(Watchdog(limit=50.0), tmp_path)
    # the fourth batch is the last of an epoch, and a validation comes then
    assert limits(notes, "training: the next batch") == [0.0, 50.0, 50.0, 0.0, 50.0, 50.0, 50.0, 0.0]
    assert limits(notes, "validation: the next batch") == [0.0, 50.0, 50.0, 0.0, 50.0, 50.0, 50.0, 0.0]
    for phase in ("setup", "the end of an epoch", "the start of validation", "the end of validation", "teardown"):
        found = limits(notes, phase)
        assert found and not any(found)


def test_a_validation_within_an_epoch_may_begin_slowly(notes, tmp_path):
    trained(Watchdog(limit=50.0), tmp_path, val_check_interval=2, max_epochs=1)
    assert limits(notes, "training: the next batch") == [0.0, 0.0, 50.0, 0.0]


def test_writing_a_checkpoint_is_not_watched(notes, tmp_path):
    trained(Watchdog(limit=50.0), tmp_path, enable_checkpointing=True, max_epochs=1)
    place = [pulse.phase for pulse in notes].index("writing a checkpoint")
    assert notes[place].limit == 0.0


def test_what_is_slow_by_nature_gets_more_time(notes, tmp_path):
    class Slow(pl.Callback):
        def on_before_backward(self, trainer, pl_module, loss):
            time.sleep(0.05)

    watchdog = Watchdog(limit=0.1)
    trainer = pl.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, callbacks=[watchdog, Slow()]
    )
    trainer.fit(Small(), loader())
    first, second, third, *_ = limits(notes, "training: backward")
    assert (first, second) == (0.0, 0.1) and third >= 5 * 0.05


def test_prediction_and_validation_are_watched_too(notes, tmp_path):
    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, callbacks=[Watchdog(7.0)])
    trainer.validate(Small(), loader(), verbose=False)
    trainer.predict(Small(), loader())
    assert limits(notes, "validation 0") == limits(notes, "prediction 0") == [0.0, 7.0, 7.0, 7.0]


def test_a_limit_is_positive():
    with pytest.raises(ValueError, match="above 0, got 0"):
        Watchdog(limit=0)


HANG = """
import time
from zoo.callbacks.watchdog import _Guard
from zoo.heartbeat import heart

def load():
    time.sleep({seconds})

guard = _Guard(3, tick=0.05)
guard.start()
for _ in range(5):
    heart.step("training: forward", {limit})
    time.sleep(0.1)
load()
guard.stopped.set()
"""


@pytest.mark.parametrize(("seconds", "limit", "code"), [(30, 0.4, 1), (1.0, 0, 0)])
def test_a_process_that_nobody_watches_ends_itself(seconds, limit, code, tmp_path):
    file = tmp_path / "hang.py"
    file.write_text(HANG.format(seconds=seconds, limit=limit))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    if code:
        assert done.stderr.splitlines()[-1].startswith("zoo: error: rank 3 made no progress for")
        assert f"{file}:7 load" in done.stderr
