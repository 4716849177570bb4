"""How a task's parameters are spread over devices."""

from __future__ import annotations

import lightning.pytorch as pl
from torch.distributed.fsdp import fully_shard

from zoo.nn import Block


class Sharded(pl.LightningModule):
    """Base of ``Task``."""

    _sharded = False

    def configure_model(self) -> None:
        """Under ``ModelParallelStrategy``, shard each block, then the rest (FSDP2)."""
        if self.device_mesh is None or self._sharded:
            return
        self._sharded = True
        mesh = self.device_mesh["data_parallel"]
        for module in self.modules():
            if isinstance(module, Block):
                fully_shard(module, mesh=mesh)
        fully_shard(self, mesh=mesh)
