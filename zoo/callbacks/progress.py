"""What is seen while a model is trained: a bar on a terminal, a line now and then in a file."""

from __future__ import annotations

import sys
import time
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar, RichProgressBar

RATES = {"samples_per_s": "samples/s", "tokens_per_s": "tokens/s", "mfu": "mfu"}


class Clock:
    """How long training will still take, by the pace of its steps so far, validation included."""

    def __init__(self, step: int):
        self.step, self.since = step, time.monotonic()

    def left(self, trainer: Trainer) -> str:
        """Such as "1:02:03"; empty where nobody knows."""
        total, done = trainer.estimated_stepping_batches, trainer.global_step - self.step
        if total in (float("inf"), -1) or done <= 0:
            return ""
        return duration((time.monotonic() - self.since) * max(0, total - trainer.global_step) / done)


def duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"


def measured(trainer: Trainer, clock: Clock) -> dict[str, str]:
    """Everything that is worth a look during training, in a form to be read."""
    rates = {label: trainer.callback_metrics[name] for name, label in RATES.items() if name in trainer.callback_metrics}
    found = {name: f"{float(value):.4g}" for name, value in trainer.progress_bar_metrics.items()}
    found |= {
        label: f"{float(value):.3g}" if label == "mfu" else f"{float(value):,.0f}" for label, value in rates.items()
    }
    left = clock.left(trainer)
    return {**found, "left": left} if left else found


class Progress(RichProgressBar):
    """Lightning's bar, with samples and tokens a second, MFU where it is known, and the time that is left of the whole
    training rather than of the epoch."""

    clock: Clock | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.clock = Clock(trainer.global_step)
        super().on_train_start(trainer, pl_module)

    def get_metrics(self, trainer: Trainer, pl_module: LightningModule) -> dict[str, Any]:
        return measured(trainer, self.clock) if trainer.state.fn == "fit" and self.clock else {}


class ProgressLines(ProgressBar):
    """The same as lines, at most one every ``seconds``: for logs of jobs, where a bar would be garbage."""

    def __init__(self, seconds: float = 20.0):
        super().__init__()
        self.seconds, self.enabled = seconds, True

    def disable(self) -> None:
        self.enabled = False

    def enable(self) -> None:
        self.enabled = True

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.clock, self.last = Clock(trainer.global_step), time.monotonic()

    def on_train_batch_end(self, trainer: Trainer, *rest: Any) -> None:
        if time.monotonic() - self.last >= self.seconds:
            self.say(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.say(trainer)

    def say(self, trainer: Trainer) -> None:
        self.last = time.monotonic()
        if not self.enabled or not trainer.is_global_zero:
            return
        total = trainer.estimated_stepping_batches
        step = f"step {trainer.global_step}" + (f"/{int(total)}" if 0 < total < float("inf") else "")
        epoch = trainer.current_epoch + (not trainer.fit_loop.done)
        words = [f"epoch {epoch}", step]
        print(
            ", ".join(words + [f"{name} {value}" for name, value in measured(trainer, self.clock).items()]), flush=True
        )


def progress() -> ProgressBar:
    """The one that suits where the output goes."""
    return Progress() if sys.stdout.isatty() else ProgressLines()
