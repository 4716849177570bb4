"""The real tokens of a padded batch, moved together into fewer rows for the blocks to work on, and back."""

# Shapes: B samples, T tokens of a padded sample, M of a padded memory, R packed rows, L slots of a row, D model width.

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heapreplace

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from zoo.nn.context import Context

STEP = 8  # rows are a multiple of so many slots long, as kernels want it
PROJECTIONS = 6  # times D, what a token costs by itself where one that sees one key costs ATTENTION
ATTENTION = 1.5  # a score costs more than its multiplications: it is masked and exponentiated
WORTH = 0.9  # share of the padded batch's work below which moving tokens pays,
LEAST = 8e6  # and products of a token with D numbers that are to be saved at least: as many as moving them costs
SHARES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25)  # of the rows that the longest sample's length asks for: those tried
Sizes = Sequence[int]


@dataclass(frozen=True)
class Packing:
    """Where each real token of B samples stands in R rows of L slots: samples whole, their tokens in order.

    Each token has one slot, so that both ways, and the gradients of both, are a look-up: nothing is added up, and the
    same numbers come out each time on every device.
    """

    source: Tensor  # (R L,) which of the B T tokens stands in a slot, -1 where none does
    place: Tensor  # (B T,) which of the R L slots a token has, -1 where it is padding
    samples: int
    tokens: int
    rows: int

    def pack(self, x: Tensor) -> Tensor:
        """(B, T, ...) -> (R, L, ...), zero in slots that are left over."""
        return Moved.apply(x.flatten(0, 1), self.source, self.place).unflatten(0, (self.rows, -1))

    def unpack(self, y: Tensor) -> Tensor:
        """(R, L, ...) -> (B, T, ...), zero where there is padding."""
        return Moved.apply(y.flatten(0, 1), self.place, self.source).unflatten(0, (self.samples, self.tokens))

    def spread(self, value: Tensor) -> Tensor:
        """(B, 1, ...), one value a sample, -> (R, L, ...) at each of its tokens."""
        return self.pack(value.expand(-1, self.tokens, *value.shape[2:]))

    @property
    def segments(self) -> Tensor:
        """(R, L) the number of the sample that a slot belongs to, -1 where it is left over."""
        return self.source.div(self.tokens, rounding_mode="floor").view(self.rows, -1)

    @property
    def positions(self) -> Tensor:
        """(R, L) where a token stood in its padded sample."""
        return (self.source.clamp(min=0) % self.tokens).view(self.rows, -1)

    @property
    def padding(self) -> Tensor:
        """(R, L) True where a slot has a token."""
        return self.source.view(self.rows, -1) >= 0


class Moved(torch.autograd.Function):
    """(N, ...) -> (N', ...): the rows ``index`` (N',) of x, zero for -1.

    ``back`` (N,) is the way back, which gradients take: those of a plain look-up are added up, slowly on a CPU and in
    any order on a GPU.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, index: Tensor, back: Tensor) -> Tensor:
        y = x.index_select(0, index.clamp(min=0))
        return y.masked_fill_((index < 0).view(-1, *[1] * (y.dim() - 1)), 0)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None]:
        index, back = ctx.saved_tensors
        return Moved.apply(grad, back, index), None, None


@dataclass(frozen=True)
class Layout:
    """A batch in packed rows: its ``own`` tokens, and those of the memory that it reads, each sample in the same row of
    both."""

    own: Packing
    memory: Packing | None = None

    def enter(self, x: Tensor, ctx: Context) -> tuple[Tensor, Context]:
        """x (B, T, D) and its context, as rows (R, L, D) and theirs."""
        own, padding, segments = self.own, self.own.padding, self.own.segments
        positions = own.positions if ctx.q_pos.dim() == 1 else own.pack(ctx.q_pos)
        rows = replace(
            ctx,
            q_pos=positions,
            k_pos=positions,
            padding=padding,
            q_padding=padding,
            segments=segments,
            q_segments=segments,
            packing=own,
        )
        if self.memory is not None and ctx.memory is not None:
            memory, segments = self.memory.pack(ctx.memory), self.memory.segments
            rows = replace(rows, memory=memory, memory_padding=self.memory.padding, memory_segments=segments)
        return own.pack(x), rows


def known(x: Tensor) -> bool:
    """May what is computed depend on the values of tensors, not only on their shapes?"""
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
    return not (traced or x.is_meta or isinstance(x, FakeTensor))


def on_the_right(padding: Tensor) -> bool:
    """Is all padding (B, T), True where real, behind the real tokens?  A GPU is waited for."""
    return not bool((padding[:, 1:] & ~padding[:, :-1]).any())


def arranged(
    x: Tensor, depth: int, padding: Tensor, memory: Tensor | None = None, memory_padding: Tensor | None = None
) -> Layout | None:
    """How to pack a batch x (B, T, D) with its ``padding`` (B, T), True where real, for ``depth`` blocks that may read
    a memory (B, M, D); None where it does not pay.  A GPU is waited for, for the numbers of real tokens."""
    if len(x) < 2:
        return None
    both = [padding]
    if memory is not None:
        both.append(padding.new_ones(memory.shape[:2]) if memory_padding is None else memory_padding)
    counts = torch.stack([part.sum(1) for part in both]).tolist()
    widest = [part.size(1) for part in both]
    found = arrange(counts, widest, x.size(-1), depth)
    if found is None:
        return None
    where, lengths = found
    rows = [laid_out(*each, where) for each in zip(both, counts, lengths, strict=True)]
    return Layout(*rows)


def arrange(counts: Sequence[Sizes], widest: Sizes, dim: int, depth: int) -> tuple[list[int], list[int]] | None:
    """The row of each sample, and the length of the rows, for samples with ``counts`` real tokens of ``widest`` with
    padding; of a memory too, where there is a second number of each.  None where that saves too little.

    Longest samples first, each goes to the row that has least (Graham 1969); of several numbers of rows the cheapest is
    taken.  Fewer rows than the longest sample asks for are longer than it, and may leave less over.
    """
    samples = len(counts[0])
    sizes = [own + sum(read) / PROJECTIONS for own, *read in zip(*counts, strict=True)]
    order = sorted(range(samples), key=lambda i: -sizes[i])
    asked = sum(counts[0]) / max(1, *counts[0])
    whole = work(samples, widest, dim)
    best, found = min(WORTH * whole, whole - LEAST / (dim * depth)), None
    for rows in sorted({min(samples, max(1, math.ceil(share * asked))) for share in SHARES}):
        where = shared_out(sizes, order, rows)
        lengths = [room(part, where, rows) for part in counts]
        cost = work(rows, lengths, dim)
        if cost < best:
            best, found = cost, (where, lengths)
    return found


def shared_out(sizes: Sequence[float], order: Sequence[int], rows: int) -> list[int]:
    """The row of each sample, taken in ``order``: each time the one that has least so far."""
    loads: list[tuple[float, int]] = [(0.0, row) for row in range(rows)]
    heapify(loads)
    where = [0] * len(sizes)
    for i in order:
        load, where[i] = loads[0]
        heapreplace(loads, (load + sizes[i], where[i]))
    return where


def room(counts: Sizes, where: Sizes, rows: int) -> int:
    """The length of rows that hold so many tokens of each sample."""
    loads = [0] * rows
    for count, row in zip(counts, where, strict=True):
        loads[row] += count
    return -(-max(1, *loads) // STEP) * STEP


def work(rows: int, lengths: Sizes, dim: int) -> float:
    """What one block costs on so many rows, in products of a token with ``dim`` numbers."""
    own, read = lengths[0], sum(lengths[1:])
    return rows * (own * (PROJECTIONS * dim + ATTENTION * (own + read)) + read * dim)


def laid_out(padding: Tensor, counts: Sizes, length: int, where: Sizes) -> Packing:
    """Samples one after the other in their rows; ``padding`` (B, T), of which ``counts`` are real."""
    rows = max(where) + 1
    filled, begins = [row * length for row in range(rows)], []
    for count, row in zip(counts, where, strict=True):
        begins.append(filled[row])
        filled[row] += count
    start = torch.tensor(begins, device=padding.device)[:, None]
    place = torch.where(padding, start + padding.cumsum(1) - 1, -1).flatten()
    spare = rows * length  # where padding is put, and cut off
    source = place.new_full((spare + 1,), -1)
    source[place] = torch.arange(len(place), device=place.device)
    samples, tokens = padding.shape
    return Packing(source[:spare], place, samples, tokens, rows)
