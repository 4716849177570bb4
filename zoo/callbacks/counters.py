"""Lightning's counters of where training stands, as a checkpoint has them, in one form that it reads exactly.

As it writes them, they say not only how many batches were trained but also from which hook they were saved; of the
many combinations it reads some as others: epochs are counted twice, a validation is made again or left out, or the
loader begins anew.
"""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.strategies import DeepSpeedStrategy, FSDPStrategy, ModelParallelStrategy

Counters = dict[str, Any]  # of ``trainer.fit_loop.state_dict()``

EPOCHS, BATCHES = "epoch_progress", "epoch_loop.batch_progress"
VALIDATED = "epoch_loop.val_loop.batch_progress"
LOOP, LOADERS = "epoch_loop.state_dict", "combined_loader"
STEPPED = "_batches_that_stepped"  # what Lightning calls the step in a row of metrics
SHARDED = (ModelParallelStrategy, FSDPStrategy, DeepSpeedStrategy)
STAGES = ("ready", "started", "processed", "completed")  # of a batch and of an epoch, in this order


def settle(fit: Counters, accumulate: int, within: bool, closing: bool, validate: bool, kept: bool) -> None:
    """Bring counters into the one form, in place: between two batches, or between two epochs.

    Within an epoch, where also its end may be due, the epoch is started and not processed, and all batches that were
    trained are completed.  Between epochs nothing of the next one is begun.  ``STEPPED`` counts all of them.  A
    validation that is to be made has one batch that is started and not processed.

    ``accumulate``: batches an optimizer step; ``within``: is it within an epoch; ``closing``: are a batch's validation
    and what follows still to come; ``validate``: is the validation among that (where one is due, which is decided when
    training goes on); ``kept``: are the gradients that are being accumulated kept, or is training to go back to the
    last optimizer step.
    """
    batches = fit[BATCHES]
    trained, last, epoch = (
        batches["current"]["processed"],
        batches["is_last_batch"],
        fit[EPOCHS]["current"]["processed"],
    )
    if not within and trained and not last:  # the last step that was wanted came before the epoch's last batch
        within, epoch = True, epoch - 1
    if closing and (last or trained % accumulate == 0):
        fit[LOOP][STEPPED] += 1
    back = 0 if last or kept else trained % accumulate
    if back:
        trained, validate = trained - back, False
    for loader in fit["state_dict"].get(LOADERS, []):
        give_back(loader, batches["current"]["ready"] - trained)
    if not within or not trained:  # what was begun of the first batch begins anew, with its epoch
        trained, last, within, validate = 0, False, False, False
    for scope, count in (("total", batches["total"]["processed"] - back), ("current", trained)):
        batches[scope].update(dict.fromkeys(STAGES, count))
    batches["is_last_batch"] = last
    for scope in ("total", "current"):
        fit[EPOCHS][scope].update(zip(STAGES, (epoch + within, epoch + within, epoch, epoch)))
        fit[VALIDATED][scope].update(zip(STAGES, (int(validate), int(validate), 0, 0)))
    fit[VALIDATED]["is_last_batch"] = False


def give_back(loader: dict[str, Any], batches: int) -> None:
    """Batches that were read and not trained are to be read again; of the loaders that say how far they are."""
    if batches and {"batch", "batch_size", "samples"} <= loader.keys():
        loader["batch"] -= batches
        loader["samples"] -= batches * loader["batch_size"]


def keeps_gradients(trainer: Trainer) -> bool:
    """Are there whole gradients of whole batches, that a checkpoint can have?  Not in the midst of a step."""
    progress = trainer.fit_loop.epoch_loop.batch_progress.current
    return progress.started == progress.processed and not isinstance(trainer.strategy, SHARDED)


def settle_live(fit: Counters, trainer: Trainer, validated: bool) -> bool:
    """Those of a trainer that is being saved; ``validated``: has a validation that it is in the midst of ended?  The
    answer: is the end of a batch, its validation and what follows, still to come?"""
    loop, batch, epochs = trainer.fit_loop.epoch_loop, fit[BATCHES]["current"], fit[EPOCHS]["current"]
    training = batch["completed"] < batch["processed"]  # on_train_batch_end
    validating = trainer.state.fn == "fit" and trainer.validating
    due = training and loop._should_check_val_fx(trainer.fit_loop._data_fetcher)
    closing, wanted = training or validating, due or (validating and not validated)
    within = epochs["started"] > epochs["processed"]
    settle(fit, trainer.accumulate_grad_batches, within, closing, wanted, keeps_gradients(trainer))
    return closing


def settle_foreign(fit: Counters, accumulate: int) -> bool:
    """Those of a checkpoint that Lightning alone has written, from the hooks where it writes any; the answer as of
    ``settle_live``.  Gone on with from an epoch's last batch, it counts the next epoch as processed while it lasts; the
    loaders know better, where they say."""
    batch, validated, epochs = (fit[key]["current"] for key in (BATCHES, VALIDATED, EPOCHS))
    read = {loader["epoch"] for loader in fit["state_dict"].get(LOADERS, []) if "epoch" in loader}
    within = epochs["processed"] in read if read else epochs["started"] > epochs["processed"]
    training = batch["completed"] < batch["processed"]
    after = within and batch["ready"] == batch["processed"] > 0  # in a validation, or in a hook at its end
    settle(fit, accumulate, within, training or after, training or validated["ready"] != validated["completed"], False)
    return training or after
