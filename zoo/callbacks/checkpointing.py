"""Activations that are computed again instead of being kept."""

from lightning.pytorch import Callback, LightningModule, Trainer

from zoo.nn import Backbone


class ActivationCheckpointing(Callback):
    """Training in less memory: of every ``every``-th block of each backbone only the input is kept, and the block runs
    again in the backward pass (Chen et al. 2016).  With ``every=1`` a step takes about a third longer.  Losses and
    gradients are the same, dropout included.  Raises ValueError for a model without a backbone of this library.
    """

    def __init__(self, every: int = 1):
        if every < 1:
            raise ValueError(f"every={every}: it must be 1 for all blocks, 2 for every other one, and so on")
        self.every = every

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not backbones(pl_module):
            raise ValueError(f"ActivationCheckpointing: {type(pl_module).__name__} has no zoo.Backbone with blocks")
        for part in backbones(pl_module):
            part.set_grad_checkpointing(every=self.every)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        for part in backbones(pl_module):
            part.set_grad_checkpointing(False)


def backbones(module: LightningModule) -> list[Backbone]:
    return [part for part in module.modules() if isinstance(part, Backbone)]
