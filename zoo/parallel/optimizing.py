"""What updates of weights that are spread over devices need: whole gradients, their length, and one kernel a kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.placement_types import Shard, _StridedShard
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer


def local(value: Tensor) -> Tensor:
    """What this device has of a tensor; changes of it are changes of the tensor."""
    return value.to_local() if isinstance(value, DTensor) else value


def kind(value: Tensor) -> Hashable:
    """On which devices a tensor lies: equal for those that one kernel may work on together."""
    return value.device_mesh if isinstance(value, DTensor) else None


def spread(value: Tensor) -> tuple[DeviceMesh | None, tuple[int, ...]]:
    """The mesh of a tensor and those of its dimensions over which the tensor is cut."""
    if not isinstance(value, DTensor):
        return None, ()
    places = enumerate(value.placements)
    return value.device_mesh, tuple(i for i, place in places if isinstance(place, (Shard, _StridedShard)))


@torch.no_grad()
def gradient_length(parameters: Iterable[Tensor]) -> Tensor:
    """The L2 norm of all gradients together, as of one device that has them all: a number.

    torch's own function takes no gradients of several meshes.  All processes must call this where some are spread.
    """
    gradients = [weight.grad for weight in parameters if weight.grad is not None]
    if not any(isinstance(gradient, DTensor) for gradient in gradients):
        return get_total_norm(gradients)
    groups: dict[tuple, list[Tensor]] = defaultdict(list)
    for gradient in gradients:
        groups[spread(gradient)].append(local(gradient))
    total = torch.zeros(())
    for (mesh, dims), parts in groups.items():
        square = torch.stack(torch._foreach_norm(parts, 2, torch.float32)).square().sum()
        for dim in dims:
            dist.all_reduce(square, group=mesh.get_group(dim))
        total = total.to(square.device) + square
    return total.sqrt()


@torch.no_grad()
def shorten_gradients(parameters: Iterable[Tensor], most: float, length: Tensor) -> None:
    """Shorten all gradients together, which have the norm ``length``, to one of ``most``, in place."""
    share = (most / (length + 1e-6)).clamp(max=1.0)  # as torch.nn.utils.clip_grad_norm_
    by_device: dict[torch.device, list[Tensor]] = defaultdict(list)
    for weight in parameters:
        if weight.grad is not None:
            by_device[weight.device].append(local(weight.grad))
    for device, gradients in by_device.items():
        torch._foreach_mul_(gradients, share.to(device))


@torch.no_grad()
def sum_gradients(parameters: Sequence[nn.Parameter], mesh: DeviceMesh) -> None:
    """Add up the gradients that the devices of a group have each for their heads, in place."""
    for weight in parameters:
        if weight.grad is not None:
            dist.all_reduce(local(weight.grad), group=mesh.get_group())


@torch.no_grad()
def average_gradients(parameters: Sequence[nn.Parameter], mesh: DeviceMesh) -> None:
    """Make the gradients that the devices of a group have each for their samples the mean of all, in place."""
    sum_gradients(parameters, mesh)
    for weight in parameters:
        if weight.grad is not None:
            local(weight.grad).div_(mesh.size())


def update_apart(optimizer: Optimizer) -> None:
    """Let an optimizer take the weights of each kind by themselves in its steps, since kernels that update many at once
    take tensors of one mesh; its groups, as schedules and checkpoints see them, stay as they are."""
    if len({kind(weight) for group in optimizer.param_groups for weight in group["params"]}) < 2:
        return
    whole: list[list[dict[str, Any]]] = []

    def part(optimizer: Optimizer, args: tuple, kwargs: dict) -> None:
        whole.append(optimizer.param_groups)
        optimizer.param_groups = [each for group in whole[-1] for each in apart(group)]

    def join(optimizer: Optimizer, args: tuple, kwargs: dict) -> None:
        optimizer.param_groups = whole.pop()

    optimizer.register_step_pre_hook(part)
    optimizer.register_step_post_hook(join)


def apart(group: dict[str, Any]) -> list[dict[str, Any]]:
    """A group of parameters as one group for each kind of them."""
    kinds: dict[Hashable, list[Tensor]] = defaultdict(list)
    for weight in group["params"]:
        kinds[kind(weight)].append(weight)
    return [{**group, "params": weights} for weights in kinds.values()]
