"""Layers that read the same input, as one multiplication."""

# Shapes: I inputs, O outputs of one layer.

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from zoo.nn import Part


class Joint(nn.Module):
    """The matrices of several linear layers below each other.  The product is computed when the first of them is asked
    for, and forgotten when the last one was."""

    def __init__(self, layers: Sequence[nn.Linear]):
        super().__init__()
        self.sizes = [layer.out_features for layer in layers]
        weight = torch.cat([layer.weight.detach() for layer in layers])
        self.layer = nn.Linear(weight.size(1), weight.size(0), any(layer.bias is not None for layer in layers), "meta")
        self.layer.weight = nn.Parameter(weight, requires_grad=False)
        if self.layer.bias is not None:
            biases = [torch.zeros_like(layer.weight[:, 0]) if layer.bias is None else layer.bias for layer in layers]
            self.layer.bias = nn.Parameter(torch.cat(biases).detach(), requires_grad=False)
        self._input: Tensor | None = None
        self._products: list[Tensor | None] = []

    def forward(self, x: Tensor, place: int) -> Tensor:
        """(..., I) -> (..., O) of the layer at this place."""
        found = self._products[place] if x is self._input else None
        if found is None:
            self._input, self._products = x, list(self.layer(x).split(self.sizes, -1))
            found = self._products[place]
            assert found is not None
        self._products[place] = None
        if all(product is None for product in self._products):
            self._input = None
        return found


class Share(nn.Module):
    """What stands in the place of one of them."""

    def __init__(self, joint: Joint, place: int):
        super().__init__()
        self.joint, self.place = joint, place

    def forward(self, x: Tensor) -> Tensor:
        return self.joint(x, self.place)


def join(part: Part) -> None:
    """Join those linear layers of a part that read one input, where they are nothing else."""
    layers = [part._modules.get(name) for name in part.siblings]
    plain = [layer for layer in layers if type(layer) is nn.Linear]
    if len(plain) < 2 or len(plain) < len(layers) or len({layer.in_features for layer in plain}) > 1:
        return
    joint = Joint(plain)
    for place, name in enumerate(part.siblings):
        part._modules[name] = Share(joint, place)
