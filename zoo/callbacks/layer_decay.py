"""Learning rates that fall with depth, from a config."""

from lightning.pytorch import Callback, LightningModule, Trainer

from zoo.tasks import Task


class LayerDecay(Callback):
    """Calls the task's ``set_layer_decay`` before training.  The learning rate that is logged stays that of the head.
    Raises ValueError for another LightningModule, and unless ``decay`` is above 0 and at most 1."""

    def __init__(self, decay: float = 0.75):
        self.decay = decay

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if not isinstance(pl_module, Task):
            raise ValueError(f"LayerDecay needs a zoo.Task, and {type(pl_module).__name__} is none")
        if stage == "fit":
            pl_module.set_layer_decay(self.decay)
