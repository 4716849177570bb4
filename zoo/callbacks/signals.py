"""A run that is told to stop: the step being taken is saved, and every process ends with the code that says why."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import get_worker_info

from zoo.callbacks.agree import Agreement
from zoo.callbacks.slurm import job, requeue, requeue_signal

NAMES = ("SIGTERM", "SIGINT", "SIGUSR1")
HASTE = 1.0  # seconds: the same signal within them is the same order; ``timeout`` and schedulers often send it twice


class Stopped(SystemExit):
    """The end of a run that was told to stop by a signal and did: no error.  Its code is 128 and the signal's number
    (143 for SIGTERM, 130 for Ctrl-C, 138 for SIGUSR1), or 0 where SLURM has queued the job again."""


class SaveOnSignal(Callback):
    """On SIGTERM, SIGINT (Ctrl-C) and SIGUSR1, to any process of the run: saves the step that is being taken and ends
    all processes with ``Stopped``.

    It saves where the run's last checkpoint is kept: that of the ``ModelCheckpoint`` with the filename "last", else
    ``last.ckpt`` beside the first one's, else in ``checkpoints`` below the Trainer's ``default_root_dir``.  It waits
    for an optimizer step, so that no gradient that was accumulated is lost, and for what Lightning does with that step:
    its row of metrics is written.  Within a validation it saves after a batch; that validation is then made anew.
    Before the first step, and in ``validate``, ``test`` and ``predict``, where nothing can be saved, the process ends
    at once; so it does when the same signal comes again a second later or more, before the checkpoint is there.

    Under SLURM the signal that announces the end of the job's time also queues the job again, once, and the code is 0.

    A step, a validation batch or the writing of a checkpoint that takes long is waited for: Python hears no signal in
    the middle of an operation of torch.  Lightning's own handlers, which wait for other processes inside the handler,
    are put aside while it trains.  Outside the main thread Python takes no signals, and nothing is changed there.
    DataLoader workers should outlive the signal: ``DataLoader(worker_init_fn=zoo.data.worker.outlive)``.
    """

    def __init__(self, resume: str = ""):
        """``resume`` is the command that goes on with the run, to be told."""
        self.resume = resume
        self._trains = False
        self._asked, self._shared = 0, 0
        self._place: Interruptions | None = None

    # ---- from setup until Lightning's teardown, which comes after an exception too

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.leave()
        self._trains, self._told = False, Told()
        self._agreement = Agreement(trainer)
        self._place = Interruptions(trainer, self)
        wanted = {*numbers(), requeue_signal(trainer)} - {None}
        self._handlers = Handlers({number for number in wanted if number}, self._hear)

    def leave(self) -> None:
        """Puts back what was there before."""
        if self._place is not None:
            self._handlers.restore()
            self._place.restore()
            self._agreement.close()
            self._place = None

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._told.heard(number) and not self._trains:
            raise Stopped(128 + number)

    # ---- where the run can be interrupted

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._trains = True

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._asked = 0

    def stop_if_told(self, trainer: Trainer) -> None:
        """Save and raise ``Stopped`` where some process was told to; called in all of them between two steps."""
        if not self._trains:
            return
        loop = trainer.fit_loop.epoch_loop
        if trainer.validating:
            progress = loop.val_loop.batch_progress.current
            self._asked += 1
            if not self._agreement.alone and self._asked > self._shared:
                return  # another process has fewer batches and may already wait elsewhere
        else:
            progress = loop.batch_progress.current
            if loop._should_accumulate():
                return
        if progress.completed != progress.ready:
            return  # somebody else asks, within a step
        number, fewest = self._agreement.largest(self._told.number, -validation_batches(trainer))
        self._shared = -fewest - 1  # Lightning does not ask after the last batch
        if number:
            self._stop(trainer, number)

    def _stop(self, trainer: Trainer, number: int) -> None:
        self._told.note(number)  # where another process was told, this one may hear it any moment
        code, words = 128 + number, []
        if not trainer.fast_dev_run:
            path = checkpoint_path(trainer)
            trainer.save_checkpoint(path, False)  # all of it, not the weights alone
            words = [f"saved step {trainer.global_step} in {os.path.relpath(path)}"]
        if number == requeue_signal(trainer):
            failed = self._agreement.first(requeue() if trainer.is_global_zero else "")
            code = code if failed else 0
            words.append(f"job {job()} was not queued again: {failed}" if failed else f"job {job()} is queued again")
        if self.resume and code:
            words.append(f"{self.resume!r} goes on")
        if trainer.is_global_zero:
            print(f"zoo: {signal.Signals(number).name}: {'; '.join(words)}", file=sys.stderr, flush=True)
        raise Stopped(code)


class Interruptions:
    """Stands where the Trainer has its own handling of signals.  Lightning asks it, as ``trainer.received_sigterm``,
    wherever training may be interrupted: after a training step with all that was due, after an epoch, and after a
    validation batch."""

    def __init__(self, trainer: Trainer, callback: SaveOnSignal):
        self.trainer, self.callback = trainer, callback
        self.before = trainer._signal_connector
        self.loop = trainer.fit_loop.epoch_loop
        trainer._signal_connector = self  # type: ignore[assignment]
        # asks rank 0 at each step whether it was told, on the device, which would have to be waited for
        vars(self.loop)["_broadcast_sigterm_tensor"] = lambda: None

    def restore(self) -> None:
        self.trainer._signal_connector = self.before
        vars(self.loop).pop("_broadcast_sigterm_tensor", None)

    def register_signal_handlers(self) -> None:
        """They have been since ``setup``."""

    @property
    def received_sigterm(self) -> bool:
        """Never: where a process was told to stop, that is done here and now."""
        self.callback.stop_if_told(self.trainer)
        return False

    def teardown(self) -> None:
        self.callback.leave()


class Told:
    """The signal that this process was told to stop by, if any."""

    def __init__(self) -> None:
        self.number, self.since, self.process = 0, 0.0, os.getpid()

    def heard(self, number: int) -> bool:
        """Is it the first?  Once more, and not in haste, it ends the process."""
        if os.getpid() != self.process:
            obey_in_child(number)
        elif not self.number:
            self.note(number)
            return True
        elif number == self.number and time.monotonic() - self.since > HASTE:
            die(number)
        return False

    def note(self, number: int) -> None:
        if not self.number:
            self.number, self.since = number, time.monotonic()


class Handlers:
    """One handler for some signals, but those that are ignored stay so: a shell wants that of what it runs behind."""

    def __init__(self, wanted: set[int], handler: Callable[[int, FrameType | None], None]):
        self.before: dict[int, Any] = {}
        if threading.current_thread() is not threading.main_thread():
            return
        for number in wanted:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):  # None: set by another language
                self.before[number] = signal.signal(number, handler)

    def restore(self) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
        self.before = {}


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within, the signals raise ``Stopped``, where Python would die without cleaning up or raise KeyboardInterrupt;
    for all that is done before and after training."""
    told = Told()

    def hear(number: int, frame: FrameType | None) -> None:
        if told.heard(number):
            raise Stopped(128 + number)

    handlers = Handlers(set(numbers()), hear)
    try:
        yield
    finally:
        handlers.restore()


def numbers() -> list[int]:
    """The signals that this system has."""
    return [signal.Signals[name] for name in NAMES if name in signal.Signals.__members__]


def obey_in_child(number: int) -> None:
    """What a process that was forked from the run does: workers go on until the run ends them, others obey."""
    if get_worker_info() is None and number != signal.SIGINT:
        die(number)


def die(number: int) -> None:
    """End this process at once, as if it had no handler."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def checkpoint_path(trainer: Trainer) -> Path:
    """Where the last checkpoint of a run is kept."""
    savers = [part for part in trainer.checkpoint_callbacks if isinstance(part, ModelCheckpoint)]
    savers.sort(key=lambda saver: saver.filename != "last")
    folders = [Path(saver.dirpath) for saver in savers if saver.dirpath]
    return [*folders, Path(trainer.default_root_dir) / "checkpoints"][0] / "last.ckpt"


def validation_batches(trainer: Trainer) -> int:
    """How many batches this process will have in a validation; 0 where that is not known."""
    total = sum(trainer.num_val_batches)
    return int(total) if math.isfinite(total) and not trainer.reload_dataloaders_every_n_epochs else 0
