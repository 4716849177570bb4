"""The strategy under which each device holds a part of the weights: FSDP2, tensor parallelism, or both."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.fabric.plugins.collectives.torch_collective import default_pg_timeout
from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.strategies import ModelParallelStrategy
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torch.optim import Optimizer

from zoo.checkpoints import read_checkpoint
from zoo.checkpoints.io import write
from zoo.checkpoints.sharded import fill_places, write_folder
from zoo.parallel.optimizing import update_apart

Checkpoint = dict[str, Any]


class ModelParallel(ModelParallelStrategy):
    """Lightning's strategy for FSDP2 (Zhao et al. 2023) and tensor parallelism (Shoeybi et al. 2019), over CPUs too.

    The devices are a grid: ``tensor_parallel_size`` neighbours share each matrix and read the same samples; the others
    share the samples, and each holds its part of the weights, gradients and states of the optimizer.  A task of ours
    says itself how it is cut.

    A checkpoint is one file, whatever number of devices wrote it, and goes with every other strategy; each process
    reads the whole of it.  With ``save_distributed_checkpoint`` it is a folder into which each process writes its part,
    and from which each reads its own.  Both are written whole or not at all, and may be gone on with on any number of
    devices.  Raises ValueError where the devices cannot be shared out so.
    """

    def __init__(
        self,
        tensor_parallel_size: int = 1,
        save_distributed_checkpoint: bool = False,
        process_group_backend: str | None = None,
        timeout: timedelta | None = default_pg_timeout,
    ):
        super().__init__("auto", tensor_parallel_size, save_distributed_checkpoint, process_group_backend, timeout)
        self.tensor_parallel_size = tensor_parallel_size

    def setup_environment(self) -> None:
        world = self.num_nodes * self.num_processes
        if self.tensor_parallel_size < 1 or world % self.tensor_parallel_size:
            raise ValueError(
                f"tensor_parallel_size={self.tensor_parallel_size} does not divide the {world} devices; choose a "
                "divisor, or another number of devices"
            )
        self._data_parallel_size = world // self.tensor_parallel_size
        super().setup_environment()

    def setup(self, trainer: pl.Trainer) -> None:
        logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)  # of what is slow in saving
        for loop in (trainer.fit_loop.epoch_loop.val_loop, trainer.validate_loop, trainer.test_loop):
            loop.inference_mode = False  # weights that were gathered under it could not be trained with
        trainer.predict_loop.inference_mode = False
        super().setup(trainer)

    def setup_optimizers(self, trainer: pl.Trainer) -> None:
        super().setup_optimizers(trainer)
        for optimizer in self.optimizers:
            update_apart(optimizer)

    # ---- saving

    def lightning_module_state_dict(self) -> dict[str, Any]:
        """Whole tensors in the first process and nothing in the others; where each writes its own part, DTensors."""
        assert self.lightning_module is not None
        state = self.lightning_module.state_dict(keep_vars=True)
        if self._save_distributed_checkpoint:
            return {name: value.detach() if isinstance(value, Tensor) else value for name, value in state.items()}
        whole: dict[int, Any] = {}  # weights that are shared are gathered once, and kept once in a file
        for value in state.values():
            if id(value) not in whole:
                whole[id(value)] = self.whole(value)
        return {name: whole[id(value)] for name, value in state.items()} if self.is_global_zero else {}

    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Any]:
        """Likewise, in the form that the optimizer itself has."""
        state = (optimizer._optimizer if isinstance(optimizer, LightningOptimizer) else optimizer).state_dict()
        if self._save_distributed_checkpoint:
            return state
        moments = {
            key: {name: self.whole(value) for name, value in kept.items()} for key, kept in state["state"].items()
        }
        return {**state, "state": moments} if self.is_global_zero else {}

    def whole(self, value: Any) -> Any:
        """A tensor as one, on the CPU; in the first process alone.  All must call this."""
        if not isinstance(value, Tensor):
            return value
        value = value.detach()
        value = value.full_tensor() if isinstance(value, DTensor) else value
        return value.cpu() if self.is_global_zero else None

    def save_checkpoint(
        self, checkpoint: Checkpoint, filepath: str | os.PathLike, storage_options: Any | None = None
    ) -> None:
        """Raises ValueError and OSError as ``AtomicCheckpointIO`` does."""
        if self._save_distributed_checkpoint:
            write_folder(checkpoint, Path(self.broadcast(str(filepath))), write)
        elif self.is_global_zero:
            self.checkpoint_io.save_checkpoint(checkpoint, filepath, storage_options=storage_options)

    # ---- loading

    @property
    def lightning_restore_optimizer(self) -> bool:
        return True

    def load_checkpoint(self, checkpoint_path: str | os.PathLike, weights_only: bool | None = None) -> Checkpoint:
        """A file as every strategy reads it; of a folder each process reads its part, into DTensors."""
        path = Path(checkpoint_path)
        if not path.is_dir():
            return self.checkpoint_io.load_checkpoint(checkpoint_path, weights_only=weights_only)
        checkpoint = read_checkpoint(path, empty=True)
        targets = self.targets(checkpoint)
        try:
            fill_places(checkpoint, path, lambda name, value: empty_like(value, targets.get(name)))
        except ValueError as error:
            raise ValueError(f"{path} {error}") from error
        return checkpoint

    def targets(self, checkpoint: Checkpoint) -> dict[str, Tensor]:
        """What the tensors of a checkpoint will be put into, by the names that they have in a folder."""
        assert self.lightning_module is not None
        found = {f"state_dict/{name}": value for name, value in self.lightning_module.state_dict().items()}
        for number, (optimizer, state) in enumerate(zip(self.optimizers, checkpoint.get("optimizer_states", ()))):
            for key, weight in weights(optimizer, state).items():
                place = f"optimizer_states/{number}/state/{key}"
                found |= {f"{place}/{name}": weight for name in state["state"].get(key, ())}
        return found

    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        assert self.lightning_module is not None
        own = self.lightning_module.state_dict()
        state = {name: spread_like(value, own.get(name)) for name, value in checkpoint["state_dict"].items()}
        self.lightning_module.load_state_dict(state, strict=strict)

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        for optimizer, state in zip(self.optimizers, checkpoint["optimizer_states"]):
            found = weights(optimizer, state)
            moments = {
                key: {name: spread_like(value, found.get(key)) for name, value in kept.items()}
                for key, kept in state["state"].items()
            }
            optimizer.load_state_dict({**state, "state": moments})


def weights(optimizer: Optimizer, state: Mapping[str, Any]) -> dict[int, Tensor]:
    """The parameters of an optimizer by the numbers that a state of it, of another run, has for them."""
    numbers = itertools.chain.from_iterable(group["params"] for group in state["param_groups"])
    here = itertools.chain.from_iterable(group["params"] for group in optimizer.param_groups)
    return dict(zip(numbers, here))


def empty_like(value: Tensor, target: Tensor | None) -> Tensor:
    """Room for a tensor of the shape and type of ``value``, spread as ``target`` is where that has its shape."""
    if isinstance(target, DTensor) and target.shape == value.shape:
        return torch.empty_like(target, dtype=value.dtype, requires_grad=False)
    return torch.empty(value.shape, dtype=value.dtype, device="cpu")


def spread_like(value: Any, target: Tensor | None) -> Any:
    """A whole tensor as a DTensor that is spread as ``target`` is, where that has its shape; each process cuts out its
    own part.  All else as it is."""
    cut = isinstance(value, Tensor) and isinstance(target, DTensor) and target.shape == value.shape
    if not cut or isinstance(value, DTensor):
        return value
    assert isinstance(target, DTensor)
    mesh, placements = target.device_mesh, target.placements
    shape, begin = compute_local_shape_and_global_offset(value.shape, mesh, placements)
    for dim, (size, first) in enumerate(zip(shape, begin)):
        value = value.narrow(dim, first if size else 0, size)
    part = value.contiguous().to(target.device)
    return DTensor.from_local(part, mesh, placements, run_check=False, shape=target.shape, stride=target.stride())
