"""A run that is told to stop, at every place where that can happen: what is saved, and how it ends."""

import csv
import os
import signal
import subprocess
import sys
import threading
import time

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from tests.callbacks.pair import together
from tests.long import signals as long
from tests.long.finite import Numbers, Regression
from zoo.callbacks import SaveOnSignal, Stopped, signals
from zoo.callbacks.signals import checkpoint_path, ended_by_signals
from zoo.cli.metrics_file import MetricsFile
from zoo.data.worker import outlive

CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGUSR1: 138}


class Told(Regression):
    """Sends its own process a signal in a batch of a stage."""

    def __init__(
        self, number: int = signal.SIGTERM, stage: str = "train", batch: int = 4, times: int = 1, rank: int = 0
    ):
        super().__init__()
        self.number, self.stage, self.batch, self.times, self.of_rank = number, stage, batch, times, rank
        self.seen = 0  # batches of the stage

    def tell(self, stage: str, batch_idx: int) -> None:
        self.seen += stage == self.stage
        if (stage, batch_idx, self.global_rank) == (self.stage, self.batch, self.of_rank):
            for _ in range(self.times):
                os.kill(os.getpid(), self.number)
                time.sleep(0)  # Python hears it between two of its own operations

    def setup(self, stage):
        self.tell("setup", self.batch)

    def training_step(self, batch, batch_idx):
        self.tell("train", batch_idx)
        loss = super().training_step(batch, batch_idx)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.tell("sanity" if self.trainer.sanity_checking else "val", batch_idx)

    def test_step(self, batch, batch_idx):
        self.tell("test", batch_idx)

    def predict_step(self, batch, batch_idx):
        self.tell("predict", batch_idx)


class More(Numbers):
    """With all splits."""

    test_dataloader = predict_dataloader = Numbers.train_dataloader


def fit(folder, **arguments) -> pl.Trainer:
    last = ModelCheckpoint(folder / "kept", "last", save_on_train_epoch_end=True, enable_version_counter=False)
    return pl.Trainer(
        **{
            "accelerator": "cpu",
            "max_epochs": 2,
            "logger": [MetricsFile(folder / "metrics.csv", counted_from=1)],
            "log_every_n_steps": 1,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "num_sanity_val_steps": 0,
            "default_root_dir": folder,
            "callbacks": [SaveOnSignal(), last],
            **arguments,
        }
    )


def saved(folder) -> int:
    return torch.load(folder / "kept" / "last.ckpt", weights_only=True)["global_step"]


def rows(folder) -> list[int]:
    with open(folder / "metrics.csv", newline="") as file:
        return [int(row["step"]) for row in csv.DictReader(file)]


@pytest.mark.parametrize("number", CODES)
def test_the_step_being_taken_is_saved_with_its_metrics(number, tmp_path, capsys):
    before = [signal.getsignal(each) for each in CODES]
    trainer = fit(tmp_path, callbacks=[SaveOnSignal("go on"), *fit(tmp_path).callbacks[1:]])
    module = Told(number)
    with pytest.raises(Stopped) as stopped:
        trainer.fit(module, Numbers())
    assert stopped.value.code == CODES[number]
    assert saved(tmp_path) == 5 and rows(tmp_path) == [1, 2, 3, 4, 5] and module.seen == 5
    weights = torch.load(tmp_path / "kept" / "last.ckpt", weights_only=True)["state_dict"]
    assert all(torch.equal(weights[name], value) for name, value in module.state_dict().items())
    where = os.path.relpath(tmp_path / "kept" / "last.ckpt")
    line = f"zoo: {signal.Signals(number).name}: saved step 5 in {where}; 'go on' goes on"
    assert [text for text in capsys.readouterr().err.splitlines() if text.startswith("zoo: ")] == [line]
    assert [signal.getsignal(each) for each in CODES] == before


def test_gradients_that_are_being_accumulated_are_not_lost(tmp_path):
    module = Told(batch=4)
    with pytest.raises(Stopped):
        fit(tmp_path, accumulate_grad_batches=3).fit(module, Numbers())
    assert module.seen == 6 and saved(tmp_path) == 2


def test_a_validation_is_left_after_its_batch(tmp_path):
    module = Told(stage="val", batch=2)
    with pytest.raises(Stopped):
        fit(tmp_path, val_check_interval=7).fit(module, Numbers())
    assert module.seen == 3 and saved(tmp_path) == 7


def test_the_end_of_an_epoch_comes_first(tmp_path):
    module = Told(batch=15)
    with pytest.raises(Stopped):
        fit(tmp_path, limit_val_batches=0).fit(module, Numbers())
    assert module.seen == 16 and saved(tmp_path) == 16


@pytest.mark.parametrize("stage", ["setup", "sanity"])
def test_before_training_it_ends_at_once(stage, tmp_path):
    module = Told(stage=stage, batch=0)
    with pytest.raises(Stopped) as stopped:
        fit(tmp_path, num_sanity_val_steps=2).fit(module, Numbers())
    assert stopped.value.code == 143 and module.seen == 1 and not (tmp_path / "kept").exists()


@pytest.mark.parametrize("stage", ["val", "test", "predict"])
def test_evaluation_ends_at_once(stage, tmp_path):
    module, trainer = Told(signal.SIGINT, stage), fit(tmp_path)
    verb = {"val": trainer.validate, "test": trainer.test, "predict": trainer.predict}[stage]
    with pytest.raises(Stopped) as stopped:
        verb(module, More())
    assert stopped.value.code == 130 and module.seen == 5


def test_the_same_signal_at_once_is_the_same_order(tmp_path):
    with pytest.raises(Stopped):
        fit(tmp_path).fit(Told(times=3), Numbers())
    assert saved(tmp_path) == 5


def test_what_another_process_was_told_may_come_here_too():
    told = signals.Told()
    told.note(signal.SIGTERM)
    assert not told.heard(signal.SIGTERM) and told.number == signal.SIGTERM


def test_a_run_can_follow_one_that_was_stopped(tmp_path):
    callbacks = fit(tmp_path).callbacks
    with pytest.raises(Stopped):
        fit(tmp_path, callbacks=callbacks).fit(Told(), Numbers())
    trainer = fit(tmp_path, callbacks=callbacks, logger=False)
    trainer.fit(Regression(), Numbers(), ckpt_path=tmp_path / "kept" / "last.ckpt")
    assert trainer.global_step > 16 and not trainer.received_sigterm


def test_outside_the_main_thread_nothing_changes(tmp_path):
    before, trainer = signal.getsignal(signal.SIGTERM), fit(tmp_path, max_epochs=1)
    thread = threading.Thread(target=trainer.fit, args=(Regression(), Numbers()))
    thread.start()
    thread.join()
    assert trainer.state.finished and signal.getsignal(signal.SIGTERM) is before


def test_where_it_is_saved(tmp_path):
    best = ModelCheckpoint(tmp_path / "best", monitor="val/loss")
    last = ModelCheckpoint(tmp_path / "kept", "last")
    places = {(best, last): "kept", (last, best): "kept", (best,): "best", (): "checkpoints"}
    for callbacks, folder in places.items():
        trainer = pl.Trainer(
            default_root_dir=tmp_path, callbacks=list(callbacks), enable_checkpointing=bool(callbacks), logger=False
        )
        assert checkpoint_path(trainer) == tmp_path / folder / "last.ckpt"


# ---- SLURM


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A scontrol that writes down what it is asked, and ends with the code in the file ``code``."""
    tool = tmp_path / "bin" / "scontrol"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\necho not today >&2\nexit $(cat {tmp_path}/code)\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "1234")
    return tmp_path


@pytest.mark.parametrize("array", [False, True])
@pytest.mark.parametrize("code", [0, 1])
def test_slurm_queues_the_job_again_once_it_is_saved(array, code, slurm, monkeypatch, capsys):
    (slurm / "code").write_text(str(code))
    if array:
        monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "1230")
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "4")
    with pytest.raises(Stopped) as stopped:
        fit(slurm).fit(Told(signal.SIGUSR1), Numbers())
    job = "1230_4" if array else "1234"
    assert (slurm / "asked").read_text() == f"requeue {job}\n" and saved(slurm) == 5
    assert stopped.value.code == (138 if code else 0)
    said = f"job {job} was not queued again: not today" if code else f"job {job} is queued again"
    assert said in capsys.readouterr().err


def test_slurm_queues_nothing_again_for_other_signals(slurm):
    with pytest.raises(Stopped) as stopped:
        fit(slurm).fit(Told(signal.SIGTERM), Numbers())
    assert stopped.value.code == 143 and not (slurm / "asked").exists()


# ---- several processes


def two(folder, module: Told, **arguments) -> None:
    trainer = fit(folder, devices=2, strategy="ddp", use_distributed_sampler=False, **arguments)
    try:
        trainer.fit(module, Uneven())
    finally:
        (folder / f"seen-{module.global_rank}").write_text(str(module.seen))


class Uneven(Numbers):
    """Rank 1 has fewer batches to validate."""

    def val_dataloader(self):
        batches = list(self.train_dataloader())
        return torch.utils.data.DataLoader(batches[: 6 - 3 * self.trainer.global_rank], batch_size=None)


@pytest.mark.parametrize("rank", [0, 1])
def test_one_process_is_told_and_all_end(rank, tmp_path):
    assert together(two, tmp_path, Told(rank=rank)) == [143, 143], (tmp_path / f"log-{rank}").read_text()
    assert saved(tmp_path) == 5 and [(tmp_path / f"seen-{each}").read_text() for each in (0, 1)] == ["5", "5"]


@pytest.mark.parametrize("rank, batch", [(0, 1), (1, 2), (0, 4)])
def test_one_process_is_told_in_a_validation(rank, batch, tmp_path):
    """After the first batches, which both have, or else after the validation."""
    assert together(_validating, tmp_path, rank, batch) == [143, 143], (tmp_path / f"log-{rank}").read_text()
    seen = [int((tmp_path / f"seen-{each}").read_text()) for each in (0, 1)]
    assert saved(tmp_path) == 8 and seen == ([2, 2] if batch < 2 else [6, 3])


def _validating(folder, rank: int, batch: int) -> None:
    two(folder, Told(stage="val", rank=rank, batch=batch), val_check_interval=8)


# ---- processes of their own


def patient(seconds: float) -> None:
    """Hears a signal, and is still busy when it comes again."""
    with ended_by_signals():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except Stopped:
            time.sleep(seconds)
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("seconds, code", [(0, 0), (1.2, -signal.SIGTERM)])
def test_the_same_signal_later_ends_the_process(seconds, code):
    process = long.process._context.Process(target=patient, args=(seconds,))
    process.start()
    process.join()
    assert process.exitcode == code


class Numbered(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return os.getpid() if index == 0 else index


@pytest.mark.skipif(sys.platform != "linux", reason="Python does not say who sent a signal")
def test_workers_outlive_what_the_run_is_told():
    loader = torch.utils.data.DataLoader(
        Numbered(), num_workers=1, worker_init_fn=outlive, multiprocessing_context=long.process._context
    )
    batches = iter(loader)
    worker = int(next(batches))
    for name in ("TERM", "INT", "USR1"):
        subprocess.run(["kill", f"-{name}", str(worker)], check=True)
    assert [int(batch) for batch in batches] == list(range(1, 40))


def test_a_worker_obeys_the_process_that_it_reads_for():
    ready = long.process._context.Event()
    process = long.process._context.Process(target=_reader, args=(ready,))
    process.start()
    assert ready.wait(60)
    process.terminate()
    process.join(10)
    assert process.exitcode == 0


def _reader(ready) -> None:
    outlive(0)
    ready.set()
    time.sleep(60)


@pytest.mark.parametrize("group", [False, True])
def test_the_command_line_goes_on_where_it_was_stopped(group, tmp_path):
    whole, total = long.prepare(tmp_path / "whole", epochs=2)
    told, _ = long.prepare(tmp_path / "told", epochs=2, workers=2 if group else 0, run=False)
    tally = long.chain(told, signal.SIGINT, [os.killpg if group else os.kill] * 2, total, seed=3)
    assert not tally.problems and tally.right == tally.saved == tally.sent == 2
    assert long.rows(told) == long.rows(whole)
    assert long.same(long.checkpoint(told)["state_dict"], long.checkpoint(whole)["state_dict"])
    assert '"state": "finished"' in (long.directory(told) / "summary.json").read_text()
