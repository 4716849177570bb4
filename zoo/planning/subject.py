"""What a plan is about: a task, its batches and how it is trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from zoo.nn import Backbone, Cache, EncoderDecoder
from zoo.nn.cache import State
from zoo.planning.batch import Shape, maker
from zoo.planning.ledger import Ledger
from zoo.planning.parameters import one_share
from zoo.planning.rehearsal import Rehearsal, forward_flops, rehearse
from zoo.tasks import Task
from zoo.tasks.writing import WritingTask


@dataclass(frozen=True)
class Subject:
    """A ``task`` on the meta device, the ``shapes`` of its batches (see ``zoo.planning.shapes``), and what the trainer
    is told; ``gpu`` says whose kernels are used."""

    task: Task
    shapes: Mapping[str, Shape]
    precision: str = "32-true"
    clip: float | None = 1.0
    accumulate: int = 1
    gpu: bool = False

    @property
    def tokens(self) -> int:
        """Of a batch."""
        return sum(shape.tokens for shape in self.shapes.values())

    @property
    def samples(self) -> int:
        """Of a batch."""
        return sum(shape.size for shape in self.shapes.values())

    def rehearse(self, checkpointing: bool = False, share: int = 1) -> Rehearsal:
        """A training step, ``checkpointing`` activations or not, as one of ``share`` devices does that have each matrix
        between them.  Raises ValueError where they cannot."""
        for part in self.task.modules():
            if isinstance(part, Backbone):
                part.set_grad_checkpointing(checkpointing)
        told: dict[str, Any] = {"gpu": self.gpu, "clip": self.clip, "accumulate": self.accumulate}
        with one_share(self.task, share) as cut:
            return rehearse(self.task, maker(dict(self.shapes)), self.precision, **told, cut=cut)

    def forward_flops(self) -> int:
        """Of a forward pass of a batch."""
        return sum(forward_flops(self.task, maker(dict(self.shapes))).values())

    def cache_bytes(self) -> int | None:
        """Of the keys and values that writing a batch of its length keeps, in the type that products are made in; None
        for what does not write."""
        if not isinstance(self.task, WritingTask):
            return None
        trunk, shape = self.task.backbone, self.shapes[""]
        pair = isinstance(trunk, EncoderDecoder)
        decoder, length = (trunk.decoder, shape.target or shape.input) if pair else (trunk, shape.input)
        kind = torch.bfloat16 if self.precision.startswith(("bf16", "16")) else torch.float32
        ledger, cache = Ledger(), Cache(capacity=length)
        with ledger.of(decoder), ledger, torch.no_grad(), torch.autocast("cpu", kind, enabled=kind != torch.float32):
            x = torch.zeros(shape.size, length, decoder.dim)
            memory = torch.zeros(shape.size, shape.input, decoder.dim) if pair else None
            decoder.eval()(x, cache=cache, memory=memory)
        return sum(value.nbytes for state in cache.layers.values() for value in kept(state))


def kept(state: State) -> Iterator[Tensor]:
    """All that a layer remembers."""
    yield from (ring.data for ring in (state.k, state.v) if ring is not None and ring.data is not None)
    yield from state.memory or ()
    for value in state.values():
        yield from kept(value) if isinstance(value, State) else [value]
