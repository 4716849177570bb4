"""An optimizer for a module: its parameters in groups, the learning rate of each, and torch's fast kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import SGD, Adam, Optimizer

from zoo.nn import Block
from zoo.optim import MuonAdamW

Group = dict[str, Any]
FUSED = ("cpu", "cuda", "mps", "xpu")  # kinds of devices whose kernels update all parameters at once


def make_optimizer(
    module: nn.Module, make: OptimizerCallable, layers: Mapping[nn.Parameter, int] | None = None, decay: float = 1.0
) -> Optimizer:
    """What ``make`` makes of the module's parameters.  With ``layers`` the rates of all but the highest layer are
    multiplied by ``decay``, once for each layer that lies between.  Raises ValueError for an optimizer of matrices
    alone."""
    groups = decay_groups(module) if layers is None else by_layer(decay_groups(module), layers)
    try:
        optimizer = make(groups)
    except ValueError as error:
        if not str(error).startswith("Muon only supports 2D"):
            raise
        raise ValueError("Muon moves matrices alone, and a model has other parameters: take MuonAdamW") from None
    if isinstance(optimizer, MuonAdamW):
        optimizer.take(block_matrices(module))
    if layers is not None:
        for group in optimizer.param_groups:
            group["lr"] *= decay ** (max(layers.values()) - group["layer"])
    return fuse(optimizer)


def decay_groups(module: nn.Module) -> list[Group]:
    """Weight decay for the weights of linear maps and convolutions only: not for biases, norms, embeddings, positions
    and other single vectors, whose shrinking would not simplify the function (Loshchilov & Hutter 2019)."""
    embeddings = {id(m.weight) for m in module.modules() if isinstance(m, nn.Embedding)}
    layers = (m for m in module.modules() if isinstance(m, (nn.Linear, nn.Conv1d, nn.Conv2d)))
    matrices = {id(m.weight) for m in layers} - embeddings
    trained = [p for p in module.parameters() if p.requires_grad]
    groups: list[Group] = [
        {"name": "decay", "params": [p for p in trained if id(p) in matrices]},
        {"name": "no_decay", "params": [p for p in trained if id(p) not in matrices], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def by_layer(groups: list[Group], layers: Mapping[nn.Parameter, int]) -> list[Group]:
    """The same groups, cut into those of each layer, which they note.  The highest layer comes first: the rate that is
    logged is that of the first group."""
    cut = []
    for layer in sorted(set(layers.values()), reverse=True):
        for group in groups:
            inside = [weight for weight in group["params"] if layers[weight] == layer]
            if inside:
                cut.append({**group, "name": f"{group['name']}_{layer}", "layer": layer, "params": inside})
    return cut


def block_matrices(module: nn.Module) -> list[Tensor]:
    """The weights of all linear maps within blocks: what Muon moves."""
    blocks = [part for part in module.modules() if isinstance(part, Block)]
    layers = [part for block in blocks for part in block.modules() if isinstance(part, nn.Linear)]
    return [layer.weight for layer in layers if layer.weight.requires_grad]


def fuse(optimizer: Optimizer) -> Optimizer:
    """Let all parameters be updated by one kernel, unless the user decided otherwise: torch's default is a loop, eight
    times slower on a CPU."""
    for group in optimizer.param_groups:
        if "fused" in group and group["fused"] is None and not group.get("foreach"):
            group["fused"] = all(fusible(optimizer, weight) for weight in group["params"])
    return optimizer


def fusible(optimizer: Optimizer, weight: Tensor) -> bool:
    """Has torch a kernel for it?  That of SGD does not know sharded tensors, that of Adagrad not even GPUs."""
    known = isinstance(optimizer, (Adam, MuonAdamW)) or (isinstance(optimizer, SGD) and not isinstance(weight, DTensor))
    return known and weight.is_floating_point() and weight.device.type in FUSED
