"""Runs code on shapes alone, and keeps a ledger of it: every piece of memory from birth to death, and every FLOP."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import flop_registry

from zoo.callbacks.cost import ATTENTION, ATTENTION_BACKWARD, attention_backward_flops, attention_flops

aten = torch.ops.aten
BETWEEN = (aten.bmm, aten.baddbmm)  # products of one activation with another: attention that is written out
INDEXING = (aten.index, aten.index_put, aten.index_put_, aten._unsafe_index)
CPU = torch.device("cpu")


class Event(NamedTuple):
    """A piece of memory, by its number, that is allocated, or freed where ``bytes`` is negative."""

    number: int
    bytes: int


class Ledger(TorchDispatchMode):
    """Within it, what is computed from a module's weights (``of``) has a shape and a type but no values and no memory
    (torch's FakeTensors); whole numbers, truth values and scalars, on which shapes may depend, are really computed.

    ``events`` has each allocation and each release in their order, autograd's too; ``flops`` the operations of products
    of matrices, convolutions and attention, by "attention" (products of activations) and "weights" (all other);
    ``born`` is how many pieces of memory there were.  What a kernel allocates for itself is not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shapes = FakeTensorMode()
        self.events: list[Event] = []
        self.flops = {"attention": 0, "weights": 0}
        self._alive: dict[int, tuple[int, weakref.ref]] = {}  # identity of a storage -> its number
        self._formulas: dict[Any, tuple[str, Callable[..., int]]] = _formulas()
        self.born = 0

    @contextmanager
    def of(self, module: nn.Module, cut: Mapping[int, Sequence[int]] = MappingProxyType({})) -> Iterator[None]:
        """Within it a module's weights are shapes; those that are shared stay so.  ``cut`` has other sizes for some, by
        their identity."""
        shaped: dict[int, Tensor] = {}

        def shape(value: Tensor) -> Tensor:
            if id(value) not in shaped:
                made = torch.empty(tuple(cut.get(id(value), value.shape)), dtype=value.dtype, device="meta")
                new = FakeTensor(self.shapes, made, CPU)
                weight = isinstance(value, nn.Parameter)
                shaped[id(value)] = nn.Parameter(new, requires_grad=value.requires_grad) if weight else new
            return shaped[id(value)]

        before = [(kept, dict(kept)) for part in module.modules() for kept in (part._parameters, part._buffers)]
        for kept, values in before:
            weights = isinstance(next(iter(values.values()), None), nn.Parameter)
            kept.update({name: shape(v) for name, v in values.items() if v is not None and (weights or v.is_meta)})
        try:
            yield
        finally:
            for kept, values in before:
                kept.update(values)

    def number(self, value: Tensor) -> int:
        """That of the memory that a tensor lies in; it is alive from now on if it was not before."""
        storage = value.untyped_storage()
        found = self._alive.get(id(storage))
        if found is not None and found[1]() is storage:
            return found[0]
        self.born += 1
        number, size, key = self.born, storage.nbytes(), id(storage)
        self._alive[key] = (number, weakref.ref(storage, lambda _: self._free(key, Event(number, -size))))
        self.events.append(Event(number, size))
        return number

    def _free(self, key: int, event: Event) -> None:
        self.events.append(event)
        if self._alive.get(key, (0,))[0] == event.number:
            del self._alive[key]

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        found: list[Tensor] = []
        tree_map_only(Tensor, found.append, (args, kwargs))
        if any(isinstance(value, FakeTensor) for value in found):
            out = self._shaped(func, args, kwargs)
        elif found:
            out = func(*args, **kwargs)
        else:
            out = self._made(func, args, kwargs)
        tree_map_only(Tensor, self.number, out)
        return out

    def _made(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """A new tensor: a shape, unless shapes may depend on its values."""
        with self.shapes:
            out = func(*args, **kwargs)
        if isinstance(out, Tensor) and out.dim() and out.is_floating_point():
            return out
        return func(*args, **kwargs)

    def _shaped(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """An operation on shapes, and on others as shapes."""
        packet = func._overloadpacket
        if packet is aten._local_scalar_dense:
            return 1.0  # a value that is asked for, such as a norm: none is known, and no shape depends on it
        originals: dict[int, Tensor] = {}

        def converted(value: Tensor) -> Tensor:
            if isinstance(value, FakeTensor):
                return value
            shape = self.shapes.from_tensor(value)
            originals[id(shape)] = value
            return shape

        if packet in INDEXING:  # how many are chosen is known, since what chooses them was really computed
            args = (args[0], _chosen(args[1]), *args[2:])
        args, kwargs = tree_map_only(Tensor, converted, (args, kwargs))
        out = func(*args, **kwargs)
        if packet in self._formulas:
            kind, formula = self._formulas[packet]
            self.flops[kind] += formula(*args, **kwargs, out_val=out)
        return tree_map_only(Tensor, lambda value: originals.get(id(value), value), out)


def _chosen(indices: list[Tensor | None]) -> list[Tensor | None]:
    """Masks as the places where they are true."""
    out: list[Tensor | None] = []
    for index in indices:
        masks = index is not None and index.dtype == torch.bool and not isinstance(index, FakeTensor)
        out += index.nonzero().unbind(1) if masks and index is not None else [index]
    return out


def _formulas() -> dict[Any, tuple[str, Callable[..., int]]]:
    """Operation -> what it multiplies, and how often."""
    found = {
        packet: ("attention" if packet in BETWEEN else "weights", count) for packet, count in flop_registry.items()
    }
    forward = {packet: ("attention", _of_shapes(attention_flops)) for packet in ATTENTION}
    backward = {packet: ("attention", _of_shapes(attention_backward_flops)) for packet in ATTENTION_BACKWARD}
    return {**found, **forward, **backward}


def _of_shapes(formula: Callable[..., int]) -> Callable[..., int]:
    """A formula of shapes as one of tensors, as those of torch's registry are."""

    def count(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        return formula(*(value.shape if isinstance(value, Tensor) else value for value in args))

    return count
