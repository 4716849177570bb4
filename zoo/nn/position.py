"""Where a token stands, told to the model in one of three ways: added to the input, rotated into queries and keys, or
added to the scores.  A position overrides the hooks that it needs; the others do nothing."""

# Shapes: B batch, T queries, S keys, D model width, H heads, d head width.

import math
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from zoo.described import Described
from zoo.nn.context import Context, Cut, Slot
from zoo.nn.sinusoid import Layout, Spacing, sinusoid, sinusoid_2d


class Position(Slot):
    """What a ``position`` slot takes; by itself it says nothing (no positions at all)."""

    packs, ahead = True, False
    grid = ""  # in words, the grid that a whole sequence must fill
    tensor_parallel: Mapping[str, Cut] | None = None  # as a Part's; not None if ``bias`` knows of ``share``
    share = (0, 1)  # which of how many equal shares of all heads are on this device

    def __init__(self, dim: int = 0):
        super().__init__()

    @property
    def limit(self) -> int | None:
        """How many tokens have a position, where that ends."""
        return None

    def check(self, tokens: int, whole: bool) -> None:
        """Raise ValueError where there are more tokens than positions, or a ``whole`` sequence does not fill a grid."""
        if self.limit is None or tokens == self.limit or (tokens < self.limit and not (whole and self.grid)):
            return
        larger = "give the backbone a larger length (or grid), or the data a shorter one"
        hint = "set the backbone's grid to what the tokenizer cuts" if self.grid else larger
        raise ValueError(f"the input has {tokens} tokens, the position table {self.limit} rows{self.grid}; {hint}")

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        """Once, on the input (B, T, D); ``pos`` is (T,) or (B, T)."""
        return x

    def rotate(self, q: Tensor, k: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        """In every self-attention, on the (B, H, T, d) queries and keys of this call."""
        return q, k

    def bias(self, q: Tensor, k: Tensor, attention: nn.Module, ctx: Context) -> Tensor | None:
        """In every self-attention: (H, T, S), or with a batch in front, added to the scaled scores; ``attention`` is
        the layer that asks, for schemes that use its projections."""
        return None


class Learned(Position):
    """One trained vector a position (BERT, GPT-2, ViT).  ``offset`` rows at the start stay unused (BART: 2)."""

    packs = True

    def __init__(self, dim: int, length: int, offset: int = 0):
        super().__init__(dim)
        self.offset = offset
        self.weight = nn.Parameter(torch.zeros(length + offset, dim))

    @property
    def limit(self) -> int:
        return len(self.weight) - self.offset

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        return x + self.weight[pos + self.offset]


class Learned2d(Position):
    """One trained vector a cell of a ``height`` x ``width`` grid, after ``prefix`` rows for class tokens (ViT).

    A table of another grid can be resized with ``resize_grid`` (Dosovitskiy et al. 2020, section 3.2).
    """

    packs = True

    def __init__(self, dim: int, height: int, width: int, prefix: int = 0):
        super().__init__(dim)
        self.height, self.width, self.prefix = height, width, prefix
        self.weight = nn.Parameter(torch.zeros(prefix + height * width, dim))

    @property
    def limit(self) -> int:
        return len(self.weight)

    @property
    def grid(self) -> str:
        return f" ({self.height} x {self.width} grid and {self.prefix} class tokens)"

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        return x + self.weight[pos]


class Sinusoidal(Position):
    """Fixed sines and cosines (Vaswani et al. 2017, section 3.5); the layouts in use are named in ``zoo.nn.sinusoid``.

    The input is multiplied by ``multiply`` first, for small embeddings drown in waves of height 1 (section 3.4: √D).
    The first token's number is ``offset`` (fairseq: 2).
    """

    packs = True

    def __init__(
        self,
        dim: int,
        layout: Layout = "interleaved",
        spacing: Spacing = "half",
        base: float = 10_000.0,
        multiply: float = 1.0,
        offset: int = 0,
    ):
        super().__init__(dim)
        self.dim, self.layout, self.spacing, self.base = dim, layout, spacing, base
        self.multiply, self.offset = multiply, offset

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        waves = sinusoid(pos + self.offset, self.dim, self.layout, self.spacing, self.base)
        return x * self.multiply + waves.type_as(x)


class Sinusoidal2d(Position):
    """Half the channels tell the column, half the row, each sines then cosines (MAE, He et al. 2021; DiT)."""

    packs = True

    def __init__(self, dim: int, height: int, width: int, prefix: int = 0):
        super().__init__(dim)
        self.dim, self.height, self.width, self.prefix = dim, height, width, prefix

    @property
    def limit(self) -> int:
        return self.prefix + self.height * self.width

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        table = sinusoid_2d(self.dim, self.height, self.width, device=x.device)
        table = torch.cat((table.new_zeros(self.prefix, self.dim), table))
        return x + table[pos].type_as(x)


class FrequencyScaling(Described):
    """What ``Rotary``'s ``scaling`` slot takes: adapts the frequencies to contexts longer than the trained one."""

    def __call__(self, frequency: Tensor) -> Tensor:
        raise NotImplementedError


class LinearScaling(FrequencyScaling):
    """All frequencies divided by ``factor`` (position interpolation, Chen et al. 2023)."""

    def __init__(self, factor: float):
        self.factor = factor

    def __call__(self, frequency: Tensor) -> Tensor:
        return frequency / self.factor


class Llama3Scaling(FrequencyScaling):
    """Low frequencies divided by ``factor``, high ones kept, a linear ramp between (LLaMA 3.1, Dubey et al. 2024)."""

    def __init__(self, factor: float = 8.0, low: float = 1.0, high: float = 4.0, length: int = 8192):
        self.factor, self.low, self.high, self.length = factor, low, high, length

    def __call__(self, frequency: Tensor) -> Tensor:
        turns = self.length * frequency / (2 * math.pi)  # full turns over the trained context
        ramp = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return frequency * (ramp + (1 - ramp) / self.factor)


class HalfPrecision(FrequencyScaling):
    """Frequencies as float16 holds them: a model trained with all its numbers in half precision knows no others
    (ESM-2, Lin et al. 2022)."""

    def __call__(self, frequency: Tensor) -> Tensor:
        return frequency.half().type_as(frequency)


class Rotary(Position):
    """Rotation of query and key pairs by an angle that grows with position (RoPE, Su et al. 2021).

    ``layout`` pairs channel i with i + d/2 ("half", GPT-NeoX, LLaMA as published on the hub) or 2i with 2i + 1
    ("interleaved", GPT-J).  ``fraction`` of each head's channels is rotated, the rest passes through.
    """

    packs = True

    def __init__(
        self,
        dim: int = 0,
        theta: float = 10_000.0,
        layout: Literal["half", "interleaved"] = "half",
        fraction: float = 1.0,
        scaling: FrequencyScaling | None = None,
    ):
        super().__init__(dim)
        self.theta, self.layout, self.fraction, self.scaling = theta, layout, fraction, scaling

    def rotate(self, q: Tensor, k: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        cos, sin = ctx.once((self, q.size(-1)), lambda: self._table(ctx.q_pos, q.size(-1)))
        both = torch.cat((q, k), 1)  # (B, H + K, T, d): turned in one go
        width = cos.size(-1)
        part = both[..., :width].float()
        if self.layout == "half":
            a, b = part.chunk(2, -1)
            other = torch.cat((-b, a), -1)
        else:
            a, b = part.unflatten(-1, (-1, 2)).unbind(-1)
            other = torch.stack((-b, a), -1).flatten(-2)
        turned = (part * cos + other * sin).type_as(both)
        if width < both.size(-1):
            turned = torch.cat((turned, both[..., width:]), -1)
        return turned[:, : q.size(1)], turned[:, q.size(1) :]

    def _table(self, pos: Tensor, head_dim: int) -> tuple[Tensor, Tensor]:
        """(T, width) or (B, 1, T, width) cosine and sine of each channel's angle."""
        width = 2 * int(head_dim * self.fraction / 2)
        frequency = self.theta ** (-torch.arange(0, width, 2, device=pos.device).float() / width)
        if self.scaling is not None:
            frequency = self.scaling(frequency)
        angle = pos[..., None].float() * frequency  # (T, width / 2) or (B, T, width / 2)
        angle = angle if pos.dim() == 1 else angle[:, None]
        cos, sin = angle.cos(), angle.sin()
        if self.layout == "half":
            return torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)
        return cos.repeat_interleave(2, -1), sin.repeat_interleave(2, -1)


class ALiBi(Position):
    """A penalty linear in the distance, one slope a head (Press et al. 2022)."""

    tensor_parallel = {}
    packs = True

    def bias(self, q: Tensor, k: Tensor, attention: nn.Module, ctx: Context) -> Tensor:
        def make() -> Tensor:
            own, shares = self.share
            slope = alibi_slopes(q.size(1) * shares).chunk(shares)[own].to(q.device)
            return -slope[:, None, None] * ctx.distance().abs().unsqueeze(-3)

        return ctx.once((self, q.size(1)), make)


class Buckets(Position):
    """A learned bias per head and distance, distances log-spaced beyond ``buckets / 2`` (T5, Raffel et al. 2019).

    ``causal`` spends all buckets on the past; otherwise half of them are the future's.
    """

    tensor_parallel = {"weight": "heads"}
    packs = True

    def __init__(self, dim: int, heads: int, buckets: int = 32, furthest: int = 128, causal: bool = False):
        super().__init__(dim)
        self.buckets, self.furthest, self.causal = buckets, furthest, causal
        self.weight = nn.Parameter(torch.zeros(buckets, heads))

    def bias(self, q: Tensor, k: Tensor, attention: nn.Module, ctx: Context) -> Tensor:
        def make() -> Tensor:
            own, shares = self.share
            weight = self.weight.chunk(shares, 1)[own]
            return weight[self._bucket(ctx.distance())].movedim(-1, -3)  # ([B,] H, T, S)

        return ctx.once(self, make)

    def _bucket(self, distance: Tensor) -> Tensor:
        n, offset = self.buckets, torch.zeros_like(distance)
        if self.causal:
            distance = (-distance).clamp(min=0)
        else:
            n //= 2
            offset, distance = (distance > 0) * n, distance.abs()
        near = n // 2
        far = torch.log(distance.clamp(min=1).float() / near) / math.log(self.furthest / near) * (n - near)
        return offset + torch.where(distance < near, distance, (near + far.long()).clamp(max=n - 1))


def alibi_slopes(heads: int) -> Tensor:
    """(H,): the geometric sequence of the paper, filled up from the next power of two where H is none."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = 2.0 ** (-8 / power * torch.arange(1, power + 1))
    between = 2.0 ** (-4 / power * (2 * torch.arange(heads - power) + 1))
    return torch.cat((slopes, between))


def resize_grid(weight: Tensor, old: tuple[int, int], new: tuple[int, int], prefix: int = 0) -> Tensor:
    """(prefix + h w, D) -> (prefix + h' w', D): the grid's rows interpolated bicubically, the prefix kept."""
    head, grid = weight[:prefix], weight[prefix:]
    grid = grid.unflatten(0, old).permute(2, 0, 1)[None].float()
    grid = nn.functional.interpolate(grid, size=new, mode="bicubic", antialias=True, align_corners=False)
    return torch.cat((head, grid[0].flatten(1).mT.type_as(weight)))
