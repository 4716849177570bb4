"""Rehearses a training step on shapes: what is alive when, what it is, and how many FLOPs the step has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F
from lightning.pytorch import Trainer
from lightning.pytorch.plugins import Precision
from torch import Tensor, nn
from torch.autograd.graph import _engine_run_backward
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from zoo.nn import Backbone, EncoderDecoder
from zoo.planning.batch import Maker
from zoo.planning.ledger import Event, Ledger
from zoo.tasks import Task
from zoo.tokenizers import Embed

KINDS = ("weights", "gradients", "optimizer", "activations", "loss", "batch", "passing")
MADE = ("activations", "loss")
PERMANENT = ("weights", "gradients", "optimizer", "batch")  # what stays from step to step
PHASES = ("forward", "backward", "update")  # of a step, in their order


@dataclass(frozen=True)
class Peak:
    """The moment at which most memory is alive: its phase, and how many bytes of each kind there are."""

    phase: str
    parts: Mapping[str, float]

    @property
    def total(self) -> float:
        return sum(self.parts.values())


@dataclass(frozen=True)
class Rehearsal:
    """A step that was rehearsed.

    ``events`` are those of the ledger up to each phase's end; ``kinds`` says of a piece of memory, by its number, which
    of ``KINDS`` it is: what the forward pass leaves for the backward pass is "activations" where an embedding or a
    backbone made it and "loss" where the head and its loss did; "passing" is all else.  ``sizes`` are the bytes of each
    kind, of the latter two when the backward pass begins.  ``flops`` are those of the step by what is multiplied (see
    ``Ledger``).
    """

    events: tuple[list[Event], ...]
    kinds: Mapping[int, str]
    sizes: Mapping[str, int]
    flops: Mapping[str, int]

    def peak(self, shares: Mapping[str, float] | None = None) -> Peak:
        """Where a device has such a share of each kind; all of it of those that are not named."""
        shares = dict.fromkeys(KINDS, 1.0) | dict(shares or {})
        alive, best = dict.fromkeys(KINDS, 0.0), Peak("", dict.fromkeys(KINDS, 0.0))
        now = most = 0.0
        for phase, events in zip(("", *PHASES), self.events, strict=True):
            for number, size in events:
                kind = self.kinds.get(number, "passing")
                alive[kind] += size * shares[kind]
                now += size * shares[kind]
                if phase and now > most:
                    most, best = now, Peak(phase, dict(alive))
        return best


class OnGPU(TorchFunctionMode):
    """Chooses kernels as on a GPU: attention keeps no weights, with dropout neither."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if func == torch.Tensor.is_cpu.__get__:  # a new object each time
            return False
        if func is F.scaled_dot_product_attention:
            kwargs = {**kwargs, "dropout_p": 0.0}
        return func(*args, **kwargs)


def rehearse(
    task: Task,
    batch: Maker,
    precision: Any = "32-true",
    *,
    gpu: bool = False,
    clip: float | None = 1.0,
    accumulate: int = 1,
    cut: Mapping[int, Sequence[int]] = MappingProxyType({}),
) -> Rehearsal:
    """A training step of a task, whose weights may be on the meta device; ``batch`` makes the batch.

    As Lightning trains: the gradients of the step before are freed after the forward pass, or, where those of several
    batches are to ``accumulate``, added to.  ``gpu`` says whose kernels are used.  ``cut`` has the sizes of weights of
    which a device has only a part (see ``Ledger.of``).
    """
    with staged(task, batch, precision, gpu, cut) as stage:
        loss = stage.forward()
        stage.backward(loss)
        del loss
        stage.update(clip)
        return stage.result(again=accumulate > 1)


def forward_flops(task: Task, batch: Maker) -> dict[str, int]:
    """FLOPs of a forward pass without a backward pass, which some losses begin within it (see ``Ledger``)."""
    with staged(task, batch) as stage, torch.no_grad():
        task.step(stage.data, training=True)
        return dict(stage.ledger.flops)


@contextmanager
def staged(
    task: Task,
    batch: Maker,
    precision: Any = "32-true",
    gpu: bool = False,
    cut: Mapping[int, Sequence[int]] = MappingProxyType({}),
) -> Iterator[Stage]:
    """Within it a task has shapes in place of its weights, and what it does is put down."""
    silent = dict.fromkeys(("logger", "enable_checkpointing", "enable_model_summary", "enable_progress_bar"), False)
    trainer = Trainer(accelerator="cpu", max_steps=1, precision=precision, **silent)
    ledger = Ledger()
    task = trainer.precision_plugin.convert_module(task)
    task.trainer = trainer
    with ledger.of(task, cut):
        stage = Stage(task, ledger, trainer.precision_plugin)
        with ledger, OnGPU() if gpu else nullcontext():
            stage.begin(batch)
            yield stage


class Stage:
    """What a rehearsal has before it: a task on shapes, its batch, its optimizer, and the ledger of the step."""

    data: Any  # Batch, or one for each task of several

    def __init__(self, task: Task, ledger: Ledger, plugin: Precision):
        self.ledger, self.task, self.plugin = ledger, task, plugin
        self.kinds: dict[int, str] = {}
        self.made: list[range] = []  # the numbers of what embeddings and backbones allocated
        self.note("weights", [*task.parameters(), *task.buffers()])
        task.train()
        self.optimizer = task.configure_optimizers()["optimizer"]

    def note(self, kind: str, values: Any) -> None:
        """What these tensors are."""
        for value in tree_leaves(values):
            if isinstance(value, Tensor):
                self.kinds[self.ledger.number(value)] = kind

    def begin(self, batch: Maker) -> None:
        self.data = self.plugin.convert_input(batch())
        parts = self.data.values() if isinstance(self.data, dict) else [self.data]
        records = [record for part in parts for record in (part, part.input, part.target) if record is not None]
        self.note("batch", [list(vars(record).values()) for record in records])
        self.marks = [len(self.ledger.events)]

    def forward(self) -> Tensor:
        with self.plugin.forward_context(), self.watched():
            total, weight = self.task.step(self.data, training=True)["loss"]
            loss = total / weight
        self.marks.append(len(self.ledger.events))
        return loss

    def backward(self, loss: Tensor) -> None:
        begin = (loss,), (torch.ones_like(loss),), False, False, ()
        _engine_run_backward(*begin, allow_unreachable=True, accumulate_grad=True)  # ``backward`` leaves function modes
        self.note("gradients", [weight.grad for weight in self.task.parameters()])
        self.marks.append(len(self.ledger.events))

    def update(self, clip: float | None) -> None:
        if clip:
            torch.nn.utils.clip_grad_norm_(self.task.parameters(), clip)
        self.optimizer.step()
        self.note("optimizer", [list(state.values()) for state in self.optimizer.state.values()])
        self.marks.append(len(self.ledger.events))

    def result(self, again: bool) -> Rehearsal:
        """As a step that is not the first: the optimizer's state and the last gradients are there from its beginning,
        the latter to its end where they are added to ``again``."""
        start, forward, backward, update = (
            self.ledger.events[begin:end] for begin, end in zip([0, *self.marks], self.marks)
        )
        for number in left(forward).keys() - self.kinds.keys():
            self.kinds[number] = "activations" if any(number in made for made in self.made) else "loss"
        state = [event for event in update if self.kinds.get(event.number) == "optimizer"]
        gradients = [event for event in (*forward, *backward) if self.kinds.get(event.number) == "gradients"]
        old = [Event(-number, size) for number, size in gradients]
        self.kinds.update((number, "gradients") for number, _ in old)
        start = [*start, *state, *old]
        update = [event for event in update if event not in state]
        freed = [Event(number, -size) for number, size in (gradients if again else old)]
        backward = [*backward, *freed] if again else [*freed, *backward]
        phases = (start, forward, backward, update)
        return Rehearsal(phases, self.kinds, self._sizes(phases), dict(self.ledger.flops))

    def _sizes(self, phases: tuple[list[Event], ...]) -> dict[str, int]:
        """Bytes of each kind: of what is made in a step, when the backward pass begins."""
        sizes = dict.fromkeys(KINDS, 0)
        for kinds, alive in ((MADE, left(*phases[:2])), (PERMANENT, left(*phases))):
            for number, size in alive.items():
                if (kind := self.kinds.get(number, "passing")) in kinds:
                    sizes[kind] += size
        return sizes

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Notes which memory is allocated while an embedding or a backbone runs."""
        handles: list[Any] = []

        def enter(module: nn.Module, args: Any) -> None:
            starts.append(self.ledger.born)

        def leave(module: nn.Module, args: Any, output: Any) -> None:
            self.made.append(range(starts.pop() + 1, self.ledger.born + 1))

        starts: list[int] = []
        for part in self.task.modules():
            if isinstance(part, (Backbone, EncoderDecoder, Embed)):
                handles += [part.register_forward_pre_hook(enter), part.register_forward_hook(leave)]
        yield
        for handle in handles:
            handle.remove()


def left(*phases: list[Event]) -> dict[int, int]:
    """Number -> bytes of what was allocated in these phases and is alive at their end."""
    alive: dict[int, int] = {}
    for number, size in (event for events in phases for event in events):
        if size < 0:
            alive.pop(number, None)
        else:
            alive[number] = size
    return alive
