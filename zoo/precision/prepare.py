"""A module, and what its weights shall be held in -> the same module, prepared for inference."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from zoo.nn import Head, Part
from zoo.precision.joint import join
from zoo.precision.layers import Int4Linear, Int8Linear, PackedLinear, Prepared, StoredInt4, StoredInt8
from zoo.precision.rounding import GROUP

Precision = Literal["fp32", "bf16", "int8", "int4"]
Maker = Callable[[nn.Linear], nn.Module]


def for_inference(module: nn.Module, precision: Precision) -> nn.Module:
    """Replace every ``nn.Linear`` of a task or another module by one whose weights are prepared for inference on the
    device where they lie, those that read the same input by one; the module is changed in place, put into evaluation
    mode, and returned.

    - "fp32": the same numbers in oneDNN's order on a CPU; sums are added up in another order (1e-6).
    - "bf16": the whole module in bfloat16, its linear layers in oneDNN's order on a CPU.  Numbers that come in from
      outside (patches, frames) are cast by the first layer.
    - "int8": linear layers with 8 bits a weight and a scale a row, which multiply 8-bit inputs (see ``Int8Linear``).
    - "int4": with 4 bits a weight, and a scale and a zero for every 32 (``Int4Linear``); heads, and layers whose
      inputs are no multiple of 32, in 8 bits.

    In 8 and 4 bits convolutions, embeddings and norms stay in float32.  A table that an embedding and a head share
    stays for the embedding, and the head has a prepared copy.  Where a processor has no kernel for it, "fp32" and
    "bf16" keep plain layers, and 8 and 4 bits become floats again at each call: that saves memory and no time.  On
    other devices than CPUs all four do so; this was not run on a GPU.

    What is prepared cannot be trained, saved, or moved to another device.  Raises ValueError for another precision,
    and for a module that was prepared before.
    """
    if precision not in get_args(Precision):
        raise ValueError(f"precision={precision!r} is none of {', '.join(get_args(Precision))}")
    if before := prepared(module):
        raise ValueError(f"the weights are prepared in {before} already; load them again to have them in {precision}")
    module.requires_grad_(False).eval()
    if precision == "bf16":
        module.to(torch.bfloat16)
    root = nn.Sequential(module)  # so that a linear layer by itself has a place too
    heads = {part for head in root.modules() if isinstance(head, Head) for part in head.modules()}
    for part in list(root.modules()):
        if isinstance(part, Part):
            join(part)
    places: dict[nn.Linear, list[tuple[nn.Module, str]]] = {}
    for parent in root.modules():
        for name, part in parent._modules.items():
            if type(part) is nn.Linear:  # a subclass may be more than its weights
                places.setdefault(part, []).append((parent, name))
    while places:  # one by one, so that each one's old weights are gone before the next are made
        layer, where = places.popitem()
        new = made(layer, precision, layer in heads)
        heads.discard(layer)
        for parent, name in where:
            parent._modules[name] = new
    if precision == "bf16":
        for part in root.modules():
            if isinstance(part, (nn.Linear, nn.Conv1d, nn.Conv2d)):
                part.register_forward_pre_hook(cast)
    return root[0]


def made(layer: nn.Linear, precision: Precision, in_head: bool) -> nn.Module:
    """The layer that takes the place of another: the best that the device has a kernel for."""
    on_cpu = layer.weight.device.type == "cpu"
    if precision in ("fp32", "bf16"):
        return PackedLinear(layer) if on_cpu and works(PackedLinear, layer.weight.dtype) else layer
    if precision == "int4" and not in_head and layer.in_features % GROUP == 0:
        return Int4Linear(layer) if on_cpu and works(Int4Linear) else StoredInt4(layer)
    return Int8Linear(layer) if on_cpu and works(Int8Linear) else StoredInt8(layer)


@functools.cache
def works(make: Maker, dtype: torch.dtype = torch.float32) -> bool:
    """Does this processor, with this version of torch, have the kernel?"""
    layer = nn.Linear(GROUP, 16, bias=False, device="meta")  # there it draws no random numbers
    layer.weight = nn.Parameter(torch.ones(16, GROUP, dtype=dtype, device="cpu"), requires_grad=False)
    try:
        product = make(layer)(torch.ones(2, GROUP, dtype=dtype, device="cpu"))
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return bool((product / GROUP - 1).abs().max() < 0.01)


def prepared(module: nn.Module) -> str | None:
    """What the weights of a module were prepared as, if they were."""
    return next((part.precision for part in module.modules() if isinstance(part, Prepared)), None)


def weight_bytes(module: nn.Module) -> int:
    """Bytes of all weights of a module, prepared or not, shared ones once: what a decoder reads for each token, but for
    the rows of its embeddings that it leaves out."""
    tensors = {id(one): one.nbytes for one in (*module.parameters(), *module.buffers())}
    return sum(tensors.values()) + sum(part.packed_bytes for part in module.modules() if isinstance(part, Prepared))


def cast(layer: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(x.to(layer.weight.dtype) for x in inputs)
