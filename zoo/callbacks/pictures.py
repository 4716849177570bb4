"""Pictures of what the model does, at the end of a validation."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger, WandbLogger
from lightning.pytorch.strategies import DeepSpeedStrategy, FSDPStrategy, ModelParallelStrategy
from PIL.Image import Image

from zoo.atomic import replaced
from zoo.data import Combined, DataModule
from zoo.pictures import Picture
from zoo.tasks import Task
from zoo.tokenizers import Batch

OURS = (DataModule, Combined)
SHARDED = (ModelParallelStrategy, FSDPStrategy, DeepSpeedStrategy)  # one process alone cannot run such a model
log = logging.getLogger(__name__)


class Pictures(Callback):
    """Writes ``pictures/NAME-stepNNNNNN.png`` to the run's directory at the end of every ``every``-th validation, and
    to W&B and TensorBoard: what the task shows of ``samples`` validation samples, always the same ones, from all over
    the set; of data modules of other libraries the first ones.

    With ``attention``, also who looks at whom in the last layer.  Nothing is drawn in a sanity check, in
    ``fast_dev_run`` and of a sharded model; a picture that cannot be drawn is warned of, and training goes on.
    """

    def __init__(self, every: int = 1, samples: int = 8, attention: bool = False):
        if every < 1 or samples < 1:
            raise ValueError(f"every={every}, samples={samples}: need at least 1 of each")
        self.every, self.samples, self.attention = every, samples, attention
        self.validations = 0
        self.kept: Any = None  # the first samples of this validation

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if batch_idx == dataloader_idx == 0 and wanted(trainer, pl_module) and not isinstance(trainer.datamodule, OURS):
            self.kept = taken(batch, self.samples)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        batch, self.kept = self.kept, None
        if not wanted(trainer, pl_module):
            return
        self.validations += 1
        if self.validations % self.every or not trainer.is_global_zero:
            return
        assert isinstance(pl_module, Task)
        if isinstance(trainer.datamodule, OURS):
            batch = trainer.datamodule.sample("val", self.samples)
            batch = pl_module.transfer_batch_to_device(batch, pl_module.device, 0)
        if batch is None:
            return
        for show in [pl_module.show, *([pl_module.show_attention] if self.attention else [])]:
            try:  # a long training is worth more than its pictures
                with trainer.precision_plugin.forward_context():
                    pictures = show(batch)
            except Exception as error:
                warn("no pictures were made", error)
                continue
            for picture in pictures:
                try:
                    publish(picture, trainer)
                except Exception as error:
                    warn(f"the picture {picture.name} was not drawn", error)

    def state_dict(self) -> dict[str, int]:
        return {"validations": self.validations}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        self.validations = state_dict["validations"]


def wanted(trainer: Trainer, module: LightningModule) -> bool:
    """Is this a validation of a task of ours, whole on this device, that somebody will look at?"""
    rehearsal = trainer.sanity_checking or trainer.fast_dev_run
    return isinstance(module, Task) and not rehearsal and not isinstance(trainer.strategy, SHARDED)


def taken(batch: Any, count: int) -> Any:
    """The first samples of a ``Batch``, or of each of a dictionary; None of what is neither."""
    if isinstance(batch, dict):
        return {name: part.take(count) for name, part in batch.items() if isinstance(part, Batch)} or None
    return batch.take(count) if isinstance(batch, Batch) else None


def publish(picture: Picture, trainer: Trainer) -> None:
    """Draw a picture into the run's directory and send it to the loggers that take pictures."""
    from zoo.pictures.draw import draw  # here, so that training without pictures does not wait for matplotlib

    step = max(trainer.global_step, getattr(trainer.lightning_module, "trained_steps", 0))
    image = draw(picture, f"step {step:,}")
    file = Path(trainer.default_root_dir) / "pictures" / f"{picture.name}-step{step:06d}.png"
    file.parent.mkdir(parents=True, exist_ok=True)
    with replaced(file, "wb") as out:
        image.save(out, "PNG")
    for logger in trainer.loggers:
        send(logger, f"pictures/{picture.name}", image, step)


def send(logger: Any, key: str, image: Image, step: int) -> None:
    if isinstance(logger, WandbLogger):
        logger.log_image(key=key, images=[image], step=step)
    elif isinstance(logger, TensorBoardLogger):
        logger.experiment.add_image(key, np.asarray(image), step, dataformats="HWC")


def warn(what: str, error: Exception) -> None:
    log.warning("%s: %s: %s", what, type(error).__name__, (str(error).splitlines() or [""])[0])
