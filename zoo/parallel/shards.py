"""FSDP2: each device holds a part of every block, and the whole of one only while it computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method

from zoo.nn import Block


def shard(model: nn.Module, mesh: DeviceMesh, methods: tuple[str, ...] = ()) -> None:
    """Shard a model in place (Zhao et al. 2023): each ``Block`` by itself, and the rest together; but for single
    numbers, whose gradients are left to the caller.

    Within ``forward``, and within these ``methods`` of the model, the weights of the rest are whole.
    """
    alone = {weight for weight in model.parameters() if not weight.dim()}
    for module in model.modules():
        if isinstance(module, Block):
            fully_shard(module, mesh=mesh, ignored_params=alone)
    fully_shard(model, mesh=mesh, ignored_params=alone)
    for method in methods:
        register_fsdp_forward_method(model, method)


def own_class(module: nn.Module) -> type:
    """The class that a module had before it was sharded, which FSDP changes."""
    return next(kind for kind in type(module).__mro__ if not issubclass(kind, FSDPModule))


@contextmanager
def gathered(model: nn.Module) -> Iterator[None]:
    """Within it every device has all weights and asks none of the others: for what each does a number of times of its
    own, such as writing token by token.  All processes must enter and leave it; nothing happens where nothing is
    sharded."""
    sharded = [module for module in model.modules() if isinstance(module, FSDPModule)]
    with torch.inference_mode(False):  # what is made here is trained with later
        for module in sharded:
            module.set_reshard_after_forward(False, recurse=False)
            module.unshard()
    try:
        yield
    finally:
        for module in sharded:
            module.set_reshard_after_forward(module is not model, recurse=False)
            module.reshard()
