"""Compiled blocks."""

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from zoo.nn import Block


class Compile(Callback):
    """Compiles every block in place before training, so that the names in checkpoints stay as they are.

    Blocks rather than the whole model: layers of equal shape then share one compilation.
    """

    def __init__(self, dynamic: bool | None = None):
        self.dynamic = dynamic

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 64)
        for module in pl_module.modules():
            if isinstance(module, Block):
                module.compile(dynamic=self.dynamic)
