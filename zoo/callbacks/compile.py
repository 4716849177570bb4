"""Compiled blocks."""

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from zoo.nn import Block

MOST = 64  # versions of a kind of block; torch gives up after 8, and a block has one for each of what follows


class Compile(Callback):
    """Compiles every block in place before training, so that the names in checkpoints stay as they are.

    Blocks rather than the whole model: layers of one kind share what is compiled.  The first batch gets code for its
    sizes, and the first of another size code for any (``dynamic``: None; with True there is code for any size from the
    beginning, with False each size has its own).  So batches and packed rows of all lengths take a handful of versions
    of a kind of block: with and without a mask, the layer that makes it and those that read it, in training and in
    validation.  ``backend`` is that of ``torch.compile``.
    """

    def __init__(self, dynamic: bool | None = None, backend: str = "inductor"):
        self.dynamic, self.backend = dynamic, backend

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, MOST)
        for module in pl_module.modules():
            if isinstance(module, Block):
                module.compile(dynamic=self.dynamic, backend=self.backend)
