"""What a backbone remembers between the calls of step-by-step decoding."""

# Shapes: B batch, T new tokens, S tokens so far, K key/value heads, d head width, L slots of a ring.

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from zoo.nn.context import Context


class Held(NamedTuple):
    """Which keys a layer attends to: those in so many ``slots`` of its ring, then so many ``new`` ones that the ring
    does not have yet."""

    slots: int
    new: int


class Ring:
    """Slots along one axis of a tensor.  It grows as it fills up to ``size``, or is ``whole`` from the start."""

    def __init__(self, axis: int, size: int | None = None, whole: bool = False, fill: float = 0):
        self.axis, self.size, self.whole, self.fill = axis, size, whole, fill
        self.data: Tensor | None = None

    def write(self, new: Tensor, slots: Tensor, needed: int) -> None:
        """Put ``new`` into its slots (T,), the highest of which is below ``needed``."""
        there = 0 if self.data is None else self.data.size(self.axis)
        if there < needed:
            roomy = needed if self.whole else needed + needed // 4 + 64
            shape = list(new.shape)
            shape[self.axis] = roomy if self.size is None else min(roomy, self.size)
            old, self.data = self.data, new.new_full(shape, self.fill)
            if old is not None:
                self.data.narrow(self.axis, 0, there).copy_(old)
        assert self.data is not None
        self.data.index_copy_(self.axis, slots, new)

    def read(self, count: int) -> Tensor:
        assert self.data is not None
        return self.data.narrow(self.axis, 0, count)

    def reorder(self, rows: Tensor) -> None:
        if self.data is not None and self.data.dim() > 1:
            self.data = self.data.index_select(0, rows)


class Cache:
    """Position, padding and segment of every token so far, and a ``State`` a layer.

    Start with an empty one and hand it to each call of the backbone: the outputs equal one full forward's.  A window's
    keys take no more room than the window and ``spare`` tokens, by which ``rewind`` may go back.  Pad prompts on the
    left: a window keeps its last keys, real or not.

    With a ``capacity`` there is room for so many tokens from the start, and every call after the first reads all of it:
    shapes never change, as ``torch.compile`` and CUDA graphs want it.
    """

    def __init__(self, capacity: int | None = None, spare: int = 0):
        self.capacity, self.spare = capacity, spare
        self.layers: dict[int, State] = {}
        self.past: int | Tensor = 0  # tokens before the call that was last, and with it; tensors with a capacity
        self.count: int | Tensor = 0
        self.positions = self._record()  # (S,) or (B, S)
        self.padding = self._record(fill=True)  # (B, S)
        self.segments = self._record()  # (B, S)

    def _record(self, fill: float = 0) -> Ring:
        return Ring(-1, self.capacity, self.capacity is not None, fill)

    @property
    def empty(self) -> bool:
        return self.positions.data is None

    @property
    def length(self) -> int:
        """Tokens so far."""
        return int(self.count)

    def layer(self, index: int) -> State:
        if index not in self.layers:
            self.layers[index] = State(self)
        return self.layers[index]

    def extend(
        self, x: Tensor, positions: Tensor | None, padding: Tensor | None, segments: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Note the tokens of a new call on x (B, T, D): their positions, padding and segments, completed."""
        new, ahead = x.size(1), torch.arange(x.size(1), device=x.device)
        slots = ahead + self.count
        if not self.empty and positions is not None and positions.dim() != self.positions.data.dim():
            raise ValueError("positions were given a batch in one call and none in another; give them always or never")
        if not self.empty and segments is not None and self.segments.data is None:
            raise ValueError("segments were given in a later call but not in the first; give them from the start")
        if positions is None:  # they go on
            batched = not self.empty and self.positions.data.dim() == 2
            positions = self._last(self.positions) + 1 + ahead if batched else slots
        if segments is None and self.segments.data is not None:  # whoever stops numbering goes on with the last one
            segments = self._last(self.segments).expand(-1, new)
        real = padding  # whoever stops padding goes on with real tokens
        if padding is None and self.padding.data is not None:
            real = torch.ones_like(x[..., 0], dtype=torch.bool)
        if self.capacity is None:
            needed = self.count + new
        else:
            needed = self.capacity
            if self.empty:
                self.count = torch.zeros((), dtype=torch.long, device=x.device)
            torch._assert_async(self.count + new <= needed, f"more tokens than the cache's capacity of {needed}")
        for record, value in ((self.positions, positions), (self.padding, real), (self.segments, segments)):
            if value is not None:
                record.write(value, slots, needed)
        self.past, self.count = self.count, self.count + new
        return positions, padding, segments

    def _last(self, record: Ring) -> Tensor:
        """(B, 1)"""
        assert record.data is not None
        return record.data.index_select(-1, torch.as_tensor(self.count - 1, device=record.data.device).view(1))

    # ---- for layers

    def ring(self, behind: int | None) -> Ring:
        """Room for the keys or the values of a layer that looks so far behind; None: all the way."""
        size = self.capacity
        if behind is not None:
            window = behind + 1 + self.spare
            size = window if size is None else min(window, size)
        return Ring(2, size, whole=self.capacity is not None)

    def slots(self, size: int | None, new: int, device: torch.device) -> Tensor:
        """(n,): where a ring of ``size`` has the last n of the ``new`` tokens, as many as it can take."""
        many = new if size is None else min(new, size)
        place = torch.arange(many, device=device) + (self.count - many)
        return place if size is None else place % size

    def filled(self, size: int | None, count: int | Tensor) -> int:
        """How many slots of a ring are read when there are ``count`` tokens."""
        if isinstance(count, int):
            return count if size is None else min(count, size)
        assert size is not None
        return size

    def facing(self, ctx: Context, held: Held) -> Context:
        """The context of queries that attend to these keys."""
        return ctx.once(held, lambda: self._facing(ctx, held))

    def _facing(self, ctx: Context, held: Held) -> Context:
        end = self.past if held.new else self.count  # tokens in the ring
        records = [self.positions, self.padding, self.segments]
        if isinstance(end, int) and held.slots == end:  # nothing has left it yet: in order
            k_pos, padding, segments = (None if r.data is None else r.read(end + held.new) for r in records)
            return replace(ctx, k_pos=k_pos, padding=padding, segments=segments, _memo={})
        slot = torch.arange(held.slots, device=ctx.q_pos.device)
        token = end - 1 - (end - 1 - slot) % max(held.slots, 1)  # of the tokens that were put there, the last
        token = torch.cat((token, torch.arange(held.new, device=slot.device) + end))
        k_pos, padding, segments = (
            None if r.data is None else r.data.index_select(-1, token.clamp(min=0)) for r in records
        )
        if self.capacity is not None:  # slots that nothing was put into yet
            padding = (token >= 0)[None] if padding is None else padding & (token >= 0)
        return replace(ctx, k_pos=k_pos, padding=padding, segments=segments, order=token.argsort(), _memo={})

    # ---- for searches

    def reorder(self, rows: Tensor, same_memory: bool = False) -> None:
        """Keep rows (B',) of the batch, in this order: what a beam search does between steps.  ``same_memory`` says
        that each goes on with the memory that is at its new place: that of a beam of the same text."""
        for record in (self.positions, self.padding, self.segments):
            record.reorder(rows)
        for state in self.layers.values():
            state.reorder(rows, same_memory)

    def rewind(self, count: int) -> None:
        """Forget the last ``count`` tokens.  Raises ValueError where that is more than there are, or than a window can
        go back."""
        if count > self.length:
            raise ValueError(f"the cache has {self.length} tokens, so it cannot forget {count}")
        for state in self.layers.values():
            state.check(count)
        self.count = self.count - count


class State(dict):
    """What one part keeps between calls: keys and values that it appends, a ``memory`` that never changes, and by name
    its own tensors, batch first, such as a recurrent layer's.  Parts inside a part have a ``branch`` each."""

    def __init__(self, cache: Cache):
        super().__init__()
        self.cache = cache
        self.memory: tuple[Tensor, Tensor] | None = None
        self.k: Ring | None = None  # (B, K, L, d)
        self.v: Ring | None = None

    def branch(self, name: str) -> State:
        if name not in self:
            self[name] = State(self.cache)
        return self[name]

    def append(self, k: Tensor, v: Tensor, behind: int | None, ctx: Context) -> tuple[Tensor, Tensor, Context]:
        """The keys and values (B, K, S, d) to attend to now, and the context of the queries that face them; kept are
        those that the next token may still see, ``behind`` positions back or all."""
        cache, new = self.cache, k.size(2)
        seen: tuple[Tensor, Tensor, Context] | None = None
        if self.k is None or self.v is None:
            self.k, self.v, seen = cache.ring(behind), cache.ring(behind), (k, v, ctx)
        size = self.k.size
        if seen is None and size is not None and behind is not None and new > size - behind:
            old = cache.filled(size, cache.past)  # of which some are needed, and about to be overwritten
            both = (torch.cat((self.k.read(old), k), 2), torch.cat((self.v.read(old), v), 2))
            seen = (*both, cache.facing(ctx, Held(old, new)))
        slots = ctx.once(("slots", size), lambda: cache.slots(size, new, k.device))
        if slots.size(0) < new:
            k, v = k[:, :, -slots.size(0) :], v[:, :, -slots.size(0) :]
        there = cache.filled(size, cache.count)
        self.k.write(k, slots, there)
        self.v.write(v, slots, there)
        return seen or (self.k.read(there), self.v.read(there), cache.facing(ctx, Held(there, 0)))

    def check(self, count: int) -> None:
        """Raise ValueError where the last ``count`` tokens cannot be forgotten."""
        rolls = self.k is not None and self.k.size not in (None, self.cache.capacity)
        if rolls and count > self.cache.spare:
            raise ValueError(f"a window has lost what stood {count} tokens back; make it with Cache(spare={count})")
        for name, value in self.items():
            if not isinstance(value, State):
                raise ValueError(f"a layer's {name!r} has read all tokens, so the last {count} cannot be forgotten")
            value.check(count)

    def reorder(self, rows: Tensor, same_memory: bool) -> None:
        for ring in (self.k, self.v):
            if ring is not None:
                ring.reorder(rows)
        if self.memory is not None and not same_memory:
            self.memory = (self.memory[0].index_select(0, rows), self.memory[1].index_select(0, rows))
        for name, value in self.items():
            if isinstance(value, State):
                value.reorder(rows, same_memory)
            else:
                self[name] = value.index_select(0, rows)
