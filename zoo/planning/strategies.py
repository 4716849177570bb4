"""What each way of spreading a model over devices asks of one device's memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from zoo.planning.parameters import block_bytes, one_share
from zoo.planning.rehearsal import Peak, Rehearsal
from zoo.planning.subject import Subject

DEVICES_OF_A_NODE = 8  # tensor parallelism wants the links within a node
SHARDED = ("weights", "gradients", "optimizer")


@dataclass(frozen=True)
class Strategy:
    """A way to spread a model: what one device holds at its peak, and what of it are ``copies`` for sending: buckets of
    gradients, blocks that are gathered.  ``data`` devices, or groups of them, read different samples; ``sizes`` are
    those of ``rehearsal``, which is of one device, as far as it has them."""

    name: str
    checkpointing: bool
    data: int
    peak: Peak
    copies: float
    sizes: Mapping[str, float]
    rehearsal: Rehearsal

    @property
    def total(self) -> float:
        return self.peak.total + self.copies


def strategies(subject: Subject, devices: int) -> Iterator[Strategy]:
    """Each without and with activation checkpointing; what one of several devices needs is computed from a rehearsal of
    what it does."""
    whole = {again: subject.rehearse(again) for again in (False, True)}
    block, outside = block_bytes(subject.task)
    for again, found in whole.items():
        yield Strategy("one device", again, 1, found.peak(), 0.0, found.sizes, found)
    if devices == 1:
        return
    for again, found in whole.items():
        buckets = float(found.sizes["gradients"])  # torch's DDP copies gradients into buckets to send them
        yield Strategy(f"DDP x {devices}", again, devices, found.peak(), buckets, found.sizes, found)
    for again, found in whole.items():
        yield sharded(f"FSDP2 x {devices}", again, found, devices, gathered(block, outside))
    size = tensor_size(subject, devices)
    if size > 1:
        share = block // size  # of a block; what it leaves whole, such as norms, is little
        for again in whole:
            found = subject.rehearse(again, size)
            data = devices // size
            name = f"tensor x {size}" + (f", FSDP2 x {data}" if data > 1 else "")
            one = sharded(name, again, found, data, gathered(share, outside))
            yield one if data > 1 else replace(one, copies=0.0)


def gathered(block: float, outside: float) -> float:
    """Weights that FSDP2 has whole while it computes with them: those outside blocks all the time, of blocks the one
    that is computed and the one that is fetched; and as many gradients, until they are summed up and shared out."""
    return 2 * (outside + 2 * block)


def sharded(name: str, again: bool, found: Rehearsal, data: int, copies: float) -> Strategy:
    shares = dict.fromkeys(SHARDED, 1 / data)
    sizes = {kind: size * shares.get(kind, 1.0) for kind, size in found.sizes.items()}
    return Strategy(name, again, data, found.peak(shares), copies, sizes, found)


def tensor_size(subject: Subject, devices: int) -> int:
    """The most devices of a node over which the model's heads and widths can be cut; 1 where none."""
    for size in range(min(DEVICES_OF_A_NODE, devices), 1, -1):
        if devices % size == 0 and _divides(subject, size):
            return size
    return 1


def _divides(subject: Subject, size: int) -> bool:
    try:
        with one_share(subject.task, size) as cut:
            return bool(cut)
    except ValueError:
        return False
