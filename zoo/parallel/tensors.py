"""Tensor parallelism from the parts: each says which of its layers are cut, and how."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module

from zoo.nn import Attention, Backbone, Part, Position

STYLES: dict[str, type[ParallelStyle]] = {"column": ColwiseParallel, "row": RowwiseParallel}

Place = tuple[nn.Module, str]  # a parameter, by the module that has it and its name there: FSDP puts others there


def cut(model: nn.Module, mesh: DeviceMesh) -> list[Place]:
    """Cut the layers of a model over a tensor-parallel group, in place (Megatron-LM, Shoeybi et al. 2019): of the first
    of two matrices each device has some columns, of the second the rows that fit, and only the sum is sent.

    What no part speaks of stays whole on each device.  The answer is where the parameters are whose gradients have to
    be summed, since each device makes them of its own heads.  Raises ValueError for heads and widths that cannot be
    shared out, and for positions that do not know of heads on other devices.
    """
    shared: list[Place] = []
    for name, part in list(model.named_modules()):
        plan = part.tensor_parallel if isinstance(part, (Part, Position)) else None
        if not plan:
            continue
        if isinstance(part, Attention):
            require_heads(part, name, mesh.size())
        for layer, how in plan.items():
            inner = getattr(part, layer)
            if how == "heads":
                shared += parameters(part, layer, inner)
            elif inner is not None:
                require_divisor(inner, f"{name}.{layer}", how, mesh.size())
                parallelize_module(inner, mesh, STYLES[how]())
        if isinstance(part, Part):
            part.register_forward_pre_hook(Everywhere(mesh))
    for name, part in model.named_modules():
        if isinstance(part, Backbone):
            share_positions(part, name, (mesh.get_local_rank(), mesh.size()))
    return shared


class Everywhere:
    """Makes the input of a part one tensor of all devices, so that the gradients that its layers have for it are added
    up once, and not once a layer."""

    def __init__(self, mesh: DeviceMesh):
        self.mesh = mesh

    def __call__(self, part: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        x, *rest = inputs
        if isinstance(x, Tensor) and not isinstance(x, DTensor):
            x = DTensor.from_local(x, self.mesh, [Replicate()], run_check=False)
        return (x, *rest)


def require_heads(attention: Attention, name: str, size: int) -> None:
    """Raise ValueError where heads cannot be shared out."""
    counts = {"heads": attention.heads, "kv_heads": attention.k.out_features // attention.head_dim}
    for word, count in counts.items():
        if count % size:
            raise ValueError(
                f"{name} has {word}={count}, which tensor_parallel_size={size} does not divide; choose a divisor"
            )


def require_divisor(layer: nn.Module, name: str, how: str, size: int) -> None:
    """Raise ValueError for a width that is not a multiple of the devices'."""
    assert isinstance(layer, nn.Linear), f"{name} is no linear layer"
    width = layer.out_features if how == "column" else layer.in_features
    if width % size:
        raise ValueError(f"{name} is {width} wide, which tensor_parallel_size={size} does not divide; choose a divisor")


def share_positions(backbone: Backbone, name: str, share: tuple[int, int]) -> None:
    """Tell positions which heads are here.  Raises ValueError for one whose bias is made for all of them."""
    layers = [part for part in backbone.modules() if isinstance(part, Attention) and part.tensor_parallel]
    for position in {backbone.position, *(layer.position for layer in layers if layer.position)} if layers else ():
        if type(position).bias is not Position.bias and position.tensor_parallel is None:
            raise ValueError(
                f"{name} has positions of the class {type(position).__name__}, which does not say that it knows of "
                "heads on other devices (Position.tensor_parallel); use tensor_parallel_size=1"
            )
        position.share = share


def parameters(part: nn.Module, name: str, inner: Any) -> Iterator[Place]:
    """The place of one parameter, or those of all below a module."""
    if isinstance(inner, nn.Module):
        for module in inner.modules():
            yield from ((module, own) for own, _ in module.named_parameters(recurse=False))
    elif inner is not None:
        yield part, name
