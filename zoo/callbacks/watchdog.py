"""Ends a run of several processes in which one no longer goes on."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from zoo.heartbeat import call_chain, compiles_or_debugs, heart, place, waits

LATE, SLOWER = 1.5, 5.0


class Watchdog(Callback):
    """Ends all processes of a run when none has come further for ``limit`` seconds.

    With several processes, one that hangs makes all others wait, in a sum of gradients, say, for as long as the process
    group allows (half an hour), while the machines are paid for.  This callback notes each place that training,
    validation, test or prediction passes: a batch, its backward pass, the step of the optimizer.  From the command line
    a process of its own watches these notes, ends all processes, and says which one hung, and where.  Elsewhere
    (torchrun, SLURM, your own Trainer) each process watches itself, and ends after 1.5 times the limit with exit code 1
    and a line.  A run of one process is left alone.

    No alarm is better than a false one: a stretch between two places is watched once it has been passed before (the
    first batch may be compiled), five times as long as it took is always allowed, and what may take any time is not
    watched at all: setting up, the ends of epochs, the first batch of a validation, a checkpoint that is being written,
    compilation, a debugger.  Put it before other callbacks.

    Raises ValueError for a limit that is not positive.
    """

    def __init__(self, limit: float = 120.0):
        if not limit > 0:
            raise ValueError(f"the watchdog's limit must be a number of seconds above 0, got {limit}")
        self.limit = limit
        self._guard: _Guard | None = None
        self._forget()

    def _forget(self) -> None:
        self._phase, self._since = "", 0.0
        self._longest: dict[str, float] = {}  # seconds that a phase took, but for its first time

    def _enter(self, phase: str, watched: bool = True) -> None:
        """A phase begins, and the one before has ended."""
        now = time.monotonic()
        if self._phase in self._longest:
            self._longest[self._phase] = max(self._longest[self._phase], now - self._since)
        else:
            self._longest[self._phase] = 0.0
        self._phase, self._since = phase, now
        usual = self._longest.get(phase)
        heart.step(phase, 0.0 if usual is None or not watched else max(self.limit, SLOWER * usual))

    # ---- the beginning and the end

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._forget()
        self._enter("setup", watched=False)
        if trainer.world_size > 1 and not heart.watched and self._guard is None:
            self._guard = _Guard(trainer.global_rank)
            self._guard.start()

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._enter("teardown", watched=False)
        self._dismiss()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._enter("an exception", watched=False)
        self._dismiss()
        if isinstance(exception, Exception):  # what follows may wait for the other processes in vain
            heart.failed(exception)

    def _dismiss(self) -> None:
        if self._guard is not None:
            self._guard.stopped.set()
            self._guard = None

    # ---- training

    def on_train_batch_start(self, *rest: Any) -> None:
        self._enter("training: forward")

    def on_before_backward(self, *rest: Any) -> None:
        self._enter("training: backward")

    def on_after_backward(self, *rest: Any) -> None:
        self._enter("training: after backward")

    def on_before_optimizer_step(self, *rest: Any) -> None:
        self._enter("training: optimizer")

    def on_train_batch_end(self, trainer: Trainer, *rest: Any) -> None:
        loop = trainer.fit_loop
        data = loop._data_fetcher
        last = trainer.is_last_batch or (data is not None and loop.epoch_loop._should_check_val_fx(data))
        self._enter("training: the next batch", watched=not last)

    def on_train_epoch_end(self, *rest: Any) -> None:
        self._enter("the end of an epoch", watched=False)

    def on_save_checkpoint(self, *rest: Any) -> None:
        self._enter("writing a checkpoint", watched=False)

    # ---- validation, test and prediction

    def on_validation_start(self, *rest: Any) -> None:
        self._enter("the start of validation", watched=False)

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        self._enter(f"validation {dataloader_idx}")

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        batches = trainer.num_sanity_val_batches if trainer.sanity_checking else trainer.num_val_batches
        self._between("validation", batch_idx, batches[dataloader_idx])

    def on_validation_epoch_end(self, *rest: Any) -> None:
        self._enter("the end of validation", watched=False)

    def on_test_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        self._enter(f"test {dataloader_idx}")

    def on_test_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self._between("test", batch_idx, trainer.num_test_batches[dataloader_idx])

    def on_test_epoch_end(self, *rest: Any) -> None:
        self._enter("the end of the test", watched=False)

    def on_predict_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        self._enter(f"prediction {dataloader_idx}")

    def on_predict_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self._between("prediction", batch_idx, trainer.num_predict_batches[dataloader_idx])

    def on_predict_epoch_end(self, *rest: Any) -> None:
        self._enter("the end of prediction", watched=False)

    def _between(self, what: str, batch_idx: int, batches: int | float) -> None:
        self._enter(f"{what}: the next batch", watched=batch_idx + 1 < batches)


class _Guard(threading.Thread):
    """Watches over its own process, where no other does."""

    def __init__(self, rank: int, tick: float = 1.0):
        super().__init__(daemon=True, name="watchdog")
        self.rank, self.tick = rank, tick
        self.stopped = threading.Event()

    def run(self) -> None:
        seen, quiet = heart.pulse, 0.0
        while not self.stopped.wait(self.tick):  # counted in ticks, so that a machine that slept raises no alarm
            quiet = quiet + self.tick if heart.pulse == seen else 0.0
            seen = heart.pulse
            if not seen.limit or quiet < LATE * seen.limit:
                continue
            calls = call_chain()
            if compiles_or_debugs(calls):
                quiet = 0.0
            else:
                self.end(quiet, "it waits for other processes in" if waits(calls) else "it is in", place(calls))

    def end(self, quiet: float, does: str, where: str) -> None:
        print(f"zoo: error: rank {self.rank} made no progress for {quiet:.0f} s; {does} {where}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(1)
