import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.loggers.logger import Logger

from tests.callbacks.ragged import batches, task
from zoo import FiniteGuard, Throughput
from zoo.tokenizers import Batch


class Rows(Logger):
    """Keeps what is logged."""

    name, version = "rows", "0"

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[int, dict[str, float]]] = []

    def log_hyperparams(self, *rest) -> None:
        pass

    def log_metrics(self, metrics, step=None) -> None:
        self.found.append((step, dict(metrics)))


def fit(module, data, *callbacks, **options):
    rows = Rows()
    quiet = {"enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = pl.Trainer(
        logger=rows, callbacks=list(callbacks), accelerator="cpu", max_epochs=1, log_every_n_steps=2, **quiet, **options
    )
    trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=None))
    return trainer, rows.found


def test_an_interval_is_one_row_with_what_the_task_and_the_callbacks_say():
    trainer, rows = fit(task(), batches(4), Throughput())
    assert [step for step, _ in rows] == [1, 3]  # as Lightning counts
    assert {"train/loss", "lr", "samples", "tokens", "seconds", "samples_per_s", "epoch"} <= rows[0][1].keys()
    assert rows[1][1]["samples"] == 32 and rows[1][1]["tokens"] == sum(int(b.input.real.sum()) for b in batches(4))
    for name, value in rows[1][1].items():
        assert name == "epoch" or float(trainer.callback_metrics[name]) == value
    assert trainer.progress_bar_metrics == {"train/loss": pytest.approx(rows[1][1]["train/loss"])}


def test_the_loss_of_a_row_is_the_mean_over_its_interval():
    sums = []

    class Told(pl.Callback):
        def on_before_backward(self, trainer, pl_module, loss) -> None:
            total, weight = (value.clone() for value in pl_module.meters["train"].sums["loss"])
            sums.append((float(total), float(weight)))

    _, rows = fit(task(), batches(4), Told())
    for (_, row), (total, weight) in zip(rows, (sums[1], sums[3]), strict=True):
        assert row["train/loss"] == pytest.approx(total / weight)


def test_rows_of_steps_that_are_made_of_several_batches():
    _, rows = fit(task(), batches(8), Throughput(), accumulate_grad_batches=2)
    assert [(step, row["samples"]) for step, row in rows] == [(1, 32), (3, 64)]


def test_a_note_is_seen_at_once_and_logged_with_the_interval():
    class Spoiled(FiniteGuard):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx) -> None:
            super().on_train_batch_start(trainer, pl_module, batch, batch_idx)
            if batch_idx == 0:
                pl_module.embed.table.weight.register_hook(lambda g: g * float("nan"))

    guard = Spoiled("skip")
    trainer, rows = fit(task(), batches(4), guard)
    assert guard.skipped == 4 and trainer.callback_metrics["skipped_steps"] == 4
    assert [row["skipped_steps"] for _, row in rows] == [2, 4]


def test_lightning_moves_a_batch_and_does_not_wait_for_a_gpu(monkeypatch):
    module, (batch,) = task(), batches(1)
    there = module.transfer_batch_to_device({"a": batch}, torch.device("meta"), 0)["a"]
    assert isinstance(there, Batch) and there.input.value.is_meta and there.key.is_meta
    asked = []
    monkeypatch.setattr("zoo.tokenizers.tokenizer.moved", lambda batch, method, *to, **how: asked.append(how) or batch)
    for device in ("cpu", "cuda:0"):
        module.transfer_batch_to_device(batch, torch.device(device), 0)
    assert asked == [{}, {"non_blocking": True}]
