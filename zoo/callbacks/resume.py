"""Training that is stopped anywhere and gone on with, bitwise the same as if it had not been."""

from __future__ import annotations

import hashlib
import math
import os
import random
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping, WeightAveraging

from zoo.callbacks.counters import BATCHES, EPOCHS, STAGES, keeps_gradients, settle_foreign, settle_live
from zoo.data.order import Loader
from zoo.data.share import share
from zoo.tasks import Task
from zoo.tasks.metrics import every
from zoo.tasks.row import write

NOTHING: dict[str, Any] = {"row": None, "scores": {}, "averaged": False, "closing": False, "ending": False}


class ExactResume(Callback):
    """Makes training that goes on from a checkpoint the same, bit for bit on the same devices, as training that was
    never stopped: losses, weights, the state of the optimizer, rows of metrics and validations.

    Random numbers of torch, numpy and Python are drawn anew from (``seed``, batches trained so far, rank) before each
    batch is read and before it is trained, and at the start of each validation, so that nothing that happened before
    decides them; ``seed`` is Lightning's global seed unless given, or 0.  Lightning's counters are brought into a form
    from which it does what was still to be done: the rest of an epoch, and a validation that was due or had begun, from
    its first batch.  What was logged for the batch that was just trained, the scores that callbacks watch, gradients
    that are being accumulated, and weights that ``WeightAveraging`` had exchanged for a validation are kept too; what
    an ``EarlyStopping`` was told now wins over what it was told then.

    A checkpoint may be written from any hook, also while gradients are being accumulated; callbacks that write one at
    the end of a batch should be ``Checkpoint``s, which Lightning calls last.  The loader must say where it is
    (``state_dict``, as those of ``zoo.data`` do), and its order must not depend on a random state that has been
    forgotten.  Means over an epoch that a module of your own logs (``on_epoch=True``) are those of the part after the
    restart.  Where no process has whole gradients (FSDP), training goes back to the last optimizer step.
    """

    def __init__(self, seed: int | None = None):
        self.seed = seed
        self._patience: dict[EarlyStopping, int] = {}
        self._restored: dict[str, Any] | None = None  # what the checkpoint has, until training begins
        self._claimed = False  # that a validation has ended
        self._validated = self._averaged = False  # within a validation: has it ended; are the averaged weights in place
        self._row: dict[str, float] | None = None  # of metrics, that was not written any more
        self._row_step = 0
        self._last_step: int | None = None  # where max_steps was put off, for what follows the last step

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._patience = {part: part.patience for part in trainer.callbacks if isinstance(part, EarlyStopping)}
        self._restored = self._row = self._last_step = None
        self._validated = self._averaged = False

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        vars(trainer.fit_loop.epoch_loop).pop("_on_before_fetch", None)

    # ---- randomness

    def draw(self, trainer: Trainer, purpose: str, number: int) -> None:
        """Seed the generators of torch, numpy and Python for a purpose."""
        base = int(os.environ.get("PL_GLOBAL_SEED", 0)) if self.seed is None else self.seed
        text = f"{base} {share(trainer)[0]} {purpose} {number}"
        value = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1  # 63 bits
        random.seed(value)
        np.random.seed(value % 2**32)
        if trainer.strategy.root_device.type == "cpu":  # the other devices would be asked, which takes longer
            torch.default_generator.manual_seed(value)
        else:
            torch.manual_seed(value)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self._validated = False
        self._admit(trainer)
        self._write_row(trainer, pl_module)
        self.draw(trainer, "batch", trainer.fit_loop.total_batch_idx)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._validated = False
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self._write_row(trainer, pl_module)
            self._keep_last_step(trainer)
            self.draw(trainer, "validation", trainer.fit_loop.total_batch_idx)

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._averaged = True

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._averaged = False

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._validated = True

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        trainer.fit_loop.epoch_loop.restarting = False  # an epoch that begins, begins with its first batch

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._admit(trainer)
        self._write_row(trainer, pl_module)
        self._keep_last_step(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._write_row(trainer, pl_module)

    # ---- saving

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        fit, progress = checkpoint["loops"]["fit_loop"], trainer.fit_loop.epoch_loop.batch_progress.current
        epochs = fit[EPOCHS]["current"]
        ending = epochs["completed"] < epochs["processed"]
        closing = settle_live(fit, trainer, self._validated)
        record = {
            "row": row(trainer, pl_module) if progress.completed < progress.processed else None,
            "scores": {name: float(value) for name, value in trainer.callback_metrics.items()},
            "averaged": self._averaged,
            "closing": closing,
            "ending": ending,
        }
        trained, last = fit[BATCHES]["current"]["completed"], fit[BATCHES]["is_last_batch"]
        if trained % trainer.accumulate_grad_batches and not last and keeps_gradients(trainer):
            record["gradients"] = every([gradients(pl_module)])
        checkpoint["callbacks"][self.state_key] = record

    # ---- going on

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Called before Lightning reads its counters."""
        if trainer.state.fn != "fit" or "loops" not in checkpoint:
            return
        fit = checkpoint["loops"]["fit_loop"]
        self._restored = checkpoint["callbacks"].get(self.state_key)
        if self._restored is None:
            self._restored = {**NOTHING, "closing": settle_foreign(fit, trainer.accumulate_grad_batches)}
        loop, step = trainer.fit_loop.epoch_loop, checkpoint["global_step"]
        if self._restored["closing"] and -1 < loop.max_steps <= step:  # it would not even begin
            self._last_step, loop.max_steps = loop.max_steps, step + 1

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for part, patience in self._patience.items():
            part.patience = patience
        loop = trainer.fit_loop.epoch_loop
        vars(loop).pop("_on_before_fetch", None)
        before = loop._on_before_fetch

        def on_before_fetch() -> None:
            self.draw(trainer, "reading", loop.total_batch_idx)
            before()

        vars(loop)["_on_before_fetch"] = on_before_fetch  # no hook is called right before a batch is read
        restored, self._restored = self._restored, None
        if restored is None:
            return
        trainer.should_stop |= any(part.wait_count >= max(1, part.patience) for part in self._patience)
        scores = {name: torch.tensor(value) for name, value in restored["scores"].items()}
        trainer._logger_connector._callback_metrics.update(scores)
        if restored["averaged"]:
            for part in trainer.callbacks:
                if isinstance(part, WeightAveraging):
                    part._swap_models(pl_module)
        if restored.get("gradients"):
            give_gradients(pl_module, restored["gradients"], trainer.global_rank)
        self._go_on(trainer, restored)

    def _go_on(self, trainer: Trainer, restored: dict[str, Any]) -> None:
        """Tell Lightning's loops, which have read the counters, what is still to be done."""
        fit, loop = trainer.fit_loop, trainer.fit_loop.epoch_loop
        fit._restarting = False  # else the schedules of epochs leave out the end of this one
        trained = loop.batch_progress.current
        if not trained.ready:
            if restored["ending"]:
                update_at_epoch_end(trainer)
            return
        place(trainer)
        wanted = loop.val_loop.restarted_mid_evaluation
        due = loop._should_check_val_fx(fit._data_fetcher) and (wanted or self._last_step is None)
        if wanted and trainer._val_check_time_interval is not None:
            trainer._last_val_time, due = -math.inf, True
        stepped = loop._batches_that_stepped - (not loop._should_accumulate())
        self._row, self._row_step = restored["row"], stepped
        if due:  # Lightning passes the end of the batch again, and makes the validation or leaves it out
            loop._batches_that_stepped = stepped
            return
        loop.val_loop.reset_restart_stage()
        loop.val_loop._has_run = self._claimed = True
        loop.batch_progress.is_last_batch |= self._last_step is not None
        if restored["closing"]:
            loop.update_lr_schedulers("step", update_plateau_schedulers=True)

    def _admit(self, trainer: Trainer) -> None:
        """Lightning was told that a validation had ended, to end an epoch that was over; savers, which take that for a
        promise of its scores, are not."""
        if self._claimed:
            trainer.fit_loop.epoch_loop.val_loop._has_run = self._claimed = False

    def _keep_last_step(self, trainer: Trainer) -> None:
        """Nothing is trained any more where ``max_steps`` had been put off."""
        if self._last_step is None:
            return
        loop = trainer.fit_loop.epoch_loop
        loop.max_steps, self._last_step = self._last_step, None
        loop.batch_progress.is_last_batch = loop.batch_progress.current.ready >= trainer.num_training_batches
        for config in trainer.lr_scheduler_configs:  # those that read max_steps have been told another
            for group, rate in zip(config.scheduler.optimizer.param_groups, config.scheduler.get_last_lr()):
                group["lr"] = rate

    def _write_row(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log what Lightning would have logged at the end of the batch that had just been trained."""
        if self._row is None:
            return
        found, self._row = self._row, None
        if isinstance(pl_module, Task):
            found = {**found, **pl_module.interval()}
        write(trainer, found, self._row_step)


def row(trainer: Trainer, module: LightningModule) -> dict[str, float] | None:
    """What has been logged at the end of a batch that is not over, as far as a row of metrics is due; else None."""
    connector = trainer._logger_connector
    if trainer.fit_loop._should_accumulate() or not connector.should_update_logs:
        return None
    noted = module.noted if isinstance(module, Task) else {}
    return {**{name: float(value) for name, value in connector.metrics["log"].items()}, **noted}


def gradients(module: LightningModule) -> dict[str, torch.Tensor]:
    return {name: weight.grad.cpu() for name, weight in module.named_parameters() if weight.grad is not None}


def give_gradients(module: LightningModule, kept: list[dict[str, torch.Tensor]], rank: int) -> None:
    """Each process its own; where there are more than there were, the others begin without."""
    for name, weight in module.named_parameters():
        if rank < len(kept) and name in kept[rank]:
            weight.grad = kept[rank][name].to(weight)


def place(trainer: Trainer) -> None:
    """Count the batches of this epoch as the loaders do, whose batches may have another size now."""
    progress = trainer.fit_loop.epoch_loop.batch_progress
    loaders = trainer.fit_loop._combined_loader.flattened
    taken = [loader.position[1] for loader in loaders if isinstance(loader, Loader)]
    count = max(taken, default=0) or progress.current.ready
    vars(progress.current).update(dict.fromkeys(STAGES, count))
    progress.is_last_batch = count >= trainer.num_training_batches


def update_at_epoch_end(trainer: Trainer) -> None:
    """What follows the hooks at the end of an epoch, in which the checkpoint was written: schedules that watch a
    score.  Lightning asks them with the number of the epoch that has ended."""
    progress = trainer.fit_loop.epoch_progress.current
    progress.completed -= 1
    trainer.fit_loop.epoch_loop._update_learning_rates("epoch", update_plateau_schedulers=True)
    progress.completed += 1
