"""How a task's parameters are spread over devices."""

from __future__ import annotations

from typing import TypeAlias

import lightning.pytorch as pl
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.optim import Optimizer

from zoo.parallel.optimizing import average_gradients, gradient_length, local, shorten_gradients, sum_gradients
from zoo.parallel.shards import shard
from zoo.parallel.tensors import Place, cut
from zoo.tasks.clipping import clips_as_torch, show
from zoo.tasks.metrics import Meter
from zoo.tokenizers import Batch

Group: TypeAlias = dist.ProcessGroup | None  # of processes; None for all of them
STEPS = ("step", "predict_step")  # the methods in which weights are whole


class Sharded(pl.LightningModule):
    """Base of ``Task``."""

    meters: dict[str, Meter]
    kept: list = []  # what a task keeps of each batch that it evaluates
    _shared: list[Place] | None = None  # where gradients have to be summed; None until the model is spread
    _most = 0  # batches that a device will have in this evaluation
    _met: tuple[int, Batch | None] = (0, None)  # how many this one has had, and the last one

    def configure_model(self) -> None:
        """Under ``ModelParallelStrategy``, cut the parts' layers over the tensor-parallel devices, as they say
        themselves, and shard each block, then the rest, over the others (FSDP2)."""
        if self.device_mesh is None or self._shared is not None:
            return
        tensors = self.device_mesh["tensor_parallel"]
        self._shared = cut(self, tensors) if tensors.size() > 1 else []
        shard(self, self.device_mesh["data_parallel"], STEPS)

    @property
    def readers(self) -> Group:
        """The processes that read other samples than this one."""
        return None if self.device_mesh is None else self.device_mesh["data_parallel"].get_group()

    def configure_gradient_clipping(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """By the norm that one device would find, which each ``Inspector`` is shown first.  Lightning calls this before
        each update, clipping or not."""
        if self.device_mesh is not None:
            self._complete_gradients(self.device_mesh)
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        most = max(gradient_clip_val or 0.0, 0.0)
        ours = self.device_mesh is not None or clips_as_torch(self.trainer.precision_plugin)
        by_length = most > 0 and gradient_clip_algorithm != "value" and ours
        length = gradient_length(weights) if by_length else None
        show(self.trainer, self, optimizer, length)
        weights = [weight for weight in weights if weight.grad is not None]
        if not weights:  # an inspector took them away
            return
        if length is not None:
            shorten_gradients(weights, most, length)
        elif self.device_mesh is None:
            self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)
        elif most > 0:
            for weight in weights:
                local(weight.grad).clamp_(-most, most)

    def _complete_gradients(self, mesh: DeviceMesh) -> None:
        """Add up what each device has of a gradient that it has for its own heads, or samples, alone."""
        shared = dict.fromkeys(getattr(module, name) for module, name in self._shared or ())  # in one order everywhere
        sum_gradients([*shared], mesh["tensor_parallel"])
        numbers = [weight for weight in self.parameters() if not weight.dim()]  # FSDP leaves them alone
        average_gradients(numbers, mesh["data_parallel"])

    # ---- evaluation: the others wait for each device in every block

    def on_validation_start(self) -> None:
        self._foresee()

    def on_test_start(self) -> None:
        self._foresee()

    def on_predict_start(self) -> None:
        self._foresee()

    def on_validation_batch_end(self, outputs: object, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._meet(batch)

    def on_test_batch_end(self, outputs: object, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._meet(batch)

    def on_predict_batch_end(self, outputs: object, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._meet(batch)

    def _foresee(self) -> None:
        """Find out how many batches there will be where there are most, before any device waits for another."""
        if self.device_mesh is None:
            return
        most = torch.tensor(sum(self.trainer._active_loop.max_batches), device=self.device)
        dist.all_reduce(most, dist.ReduceOp.MAX)
        self._most, self._met = int(most), (0, None)

    def _meet(self, batch: Batch) -> None:
        if self.device_mesh is not None:
            self._met = (self._met[0] + 1, batch)

    def on_predict_epoch_end(self) -> None:
        self.accompany("predict")

    def accompany(self, stage: str) -> None:
        """At the end of an epoch of evaluation: where other devices have a batch more, compute with them, and count
        nothing of it."""
        (count, batch), self._met = self._met, (0, None)
        if self.device_mesh is None:
            return
        missing = self._most - count
        if missing and batch is None:
            raise ValueError(f"there are fewer {stage} samples than devices: give the data more, or use fewer devices")
        step = {"val": self.validation_step, "test": self.test_step, "predict": self.predict_step}[stage]
        meters, self.meters = self.meters, {**self.meters, stage: Meter()}
        parts = [part for part in self.modules() if isinstance(part, Sharded)]
        before = [len(part.kept) for part in parts]
        for number in range(count, count + missing):
            with self.trainer.precision_plugin.forward_context():
                step(batch, number)
        self.meters = meters
        for part, length in zip(parts, before):
            del part.kept[length:]
