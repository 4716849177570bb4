"""The one Transformer: a stack of blocks over embeddings, whatever they were made from."""

# Shapes: B batch, T tokens of this call, S tokens so far, D model width, M memory length, H heads.

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from zoo.described import Described
from zoo.nn.block import Block
from zoo.nn.cache import Cache
from zoo.nn.context import Context, Slot, slots
from zoo.nn.init import Init
from zoo.nn.norm import NoNorm, Norm
from zoo.nn.packing import Layout, arranged, known, on_the_right
from zoo.nn.position import Position


class Backbone(Described, nn.Module):
    """(B, T, D) -> (B, T, D).

    ``block`` builds each layer; given several, they take turns: ``depth=4, block=[local, full]`` is local, full,
    local, full.  Every factory is called with ``dim``.  ``first_norm`` and ``dropout`` act on the input after
    positions were added, ``last_norm`` on the output.

    Padding costs little: where a batch has much of it, the blocks work on its real tokens alone, moved together into
    fewer rows (Krell et al. 2021), in which no token sees another sample's.  Results are the same, and zero where there
    is padding.  A hook on a block then sees those rows (R, L, D).
    """

    def __init__(
        self,
        dim: int,
        depth: int,
        block: list[Callable[[int], Block]] | Callable[[int], Block],
        *,
        position: Callable[[int], Position] = Position,
        first_norm: Callable[[int], Norm] = NoNorm,
        last_norm: Callable[[int], Norm] = NoNorm,
        dropout: float = 0.0,
        init: Init = Init(),
    ):
        super().__init__()
        turns = list(block) if isinstance(block, (list, tuple)) else [block]
        self.dim, self.init = dim, init
        self.position = position(dim)
        self.first_norm = first_norm(dim)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(turns[i % len(turns)](dim) for i in range(depth))
        self.last_norm = last_norm(dim)
        self._checkpointing = 0  # of how many blocks one computes again; 0 where none does
        init(self, depth)

    def forward(
        self,
        x: Tensor,
        *,
        padding: Tensor | None = None,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
        memory: Tensor | None = None,
        memory_padding: Tensor | None = None,
        cond: Tensor | None = None,
        cache: Cache | None = None,
        states: list[Tensor] | None = None,
        return_attention: bool = False,
    ) -> Tensor | tuple[Tensor, dict[str, Tensor]]:
        """``padding`` (B, T) is True where a token is real.  ``positions`` (B, T) are given where samples differ (left
        padding: ``padding_positions``; packed rows: ``segment_positions``), else they count on from the cache.
        ``segments`` (B, T) numbers the documents of a packed row.  ``memory`` (B, M, D) is for cross-attention,
        ``cond`` (B, D) for adaptive norms.  With ``cache``, ``segments``, ``states`` or ``return_attention`` nothing
        is moved into other rows.

        ``states``, where given, is appended the (B, T, D) output of each block.  ``return_attention`` returns (y,
        maps): by the path of each attention ("blocks.0.mixer") its softmax weights (B, H, T, S), in float32 and without
        dropout, whatever kernel computed y.  A padded query sees all keys, and nobody reads it."""
        layout, free = None, cache is None and segments is None and states is None and not return_attention
        if padding is not None and free:
            layout, padding = self._layout(x, padding, memory, memory_padding)
        begun = cache is not None and not cache.empty
        plain = padding is None and positions is None and segments is None and not begun
        if cache is None or isinstance(cache.count, int):
            self.position.check(x.size(1) + (cache.length if cache else 0), whole=cache is None)
        if cache is not None:
            positions, padding, segments = cache.extend(x, positions, padding, segments)
        span = x.size(1) if positions is None else None
        if positions is None:
            positions = torch.arange(x.size(1), device=x.device)
        maps: dict[nn.Module, Tensor] | None = {} if return_attention else None
        both = (positions, positions, padding, segments, padding, segments)  # as keys, and as queries
        ctx = Context(self.position, *both, memory, memory_padding, cond=cond, plain=plain, span=span, maps=maps)
        x = self.position.embed(x, positions)
        if layout is not None:
            x, ctx = layout.enter(x, ctx)
        x = self.drop(self.first_norm(x))
        again = self._checkpointing if cache is None and torch.is_grad_enabled() else 0
        for i, block in enumerate(self.blocks):
            state = None if cache is None else cache.layer(i)
            once_more = again and i % again == 0
            x = checkpoint(anew, block, x, ctx, use_reentrant=False) if once_more else block(x, ctx, state)
            if states is not None:
                states.append(x)
        x = self.last_norm(x)
        if layout is not None:
            x = layout.own.unpack(x)
        if maps is None:
            return x
        return x, {path.removesuffix(".fn"): maps[part] for path, part in self.named_modules() if part in maps}

    def _layout(
        self, x: Tensor, padding: Tensor, memory: Tensor | None, memory_padding: Tensor | None
    ) -> tuple[Layout | None, Tensor | None]:
        """The packed rows to work in, or None; and the padding, or None where nothing in the batch can see it."""
        if not known(x):
            return None, padding
        parts = slots(self)
        if not all(part.packs for part in parts) or not all(isinstance(b, Slot) for b in self.blocks):
            return None, padding
        layout = arranged(x, len(self.blocks), padding, memory, memory_padding)
        if layout is None and not any(part.ahead for part in parts) and on_the_right(padding):
            return None, None
        return layout, padding

    def set_grad_checkpointing(self, enable: bool = True, every: int = 1) -> None:
        """Keep no activations inside blocks, or inside every ``every``-th, but compute them again in the backward pass
        (Chen et al. 2016)."""
        self._checkpointing = every if enable else 0


class EncoderDecoder(Described, nn.Module):
    """An encoder reads the source once; a decoder, whose blocks have a ``cross`` branch, writes the target from it."""

    def __init__(self, encoder: Backbone, decoder: Backbone):
        super().__init__()
        if encoder.dim != decoder.dim:
            raise ValueError(f"the encoder is {encoder.dim} wide and the decoder {decoder.dim}; make them equal")
        self.dim, self.init = decoder.dim, decoder.init
        self.encoder, self.decoder = encoder, decoder

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        padding: Tensor | None = None,
        target_padding: Tensor | None = None,
        return_attention: bool = False,
    ) -> Tensor | tuple[Tensor, dict[str, Tensor]]:
        """(B, M, D), (B, T, D) -> (B, T, D); ``padding`` (B, M) and ``target_padding`` (B, T) are True where real.
        ``return_attention`` is that of ``Backbone``, for both ("encoder.blocks.0.mixer")."""
        how = {"return_attention": return_attention}
        memory = self.encoder(source, padding=padding, **how)
        memory, read = memory if return_attention else (memory, {})
        y = self.decoder(target, padding=target_padding, memory=memory, memory_padding=padding, **how)
        if not return_attention:
            return y
        halves = {"encoder": read, "decoder": y[1]}
        return y[0], {f"{half}.{path}": value for half, maps in halves.items() for path, value in maps.items()}


def anew(block: nn.Module, x: Tensor, ctx: Context) -> Tensor:
    """A block that may run twice, and must then compute what other blocks would have remembered for it."""
    return block(x, replace(ctx, _memo={}))


def padding_positions(padding: Tensor) -> Tensor:
    """(B, T) positions that count real tokens only: for padding on the left."""
    return (padding.cumsum(-1) - 1).clamp(min=0)


def segment_positions(segments: Tensor) -> Tensor:
    """(B, T) positions that start again at every change of document number: for packed rows."""
    index = torch.arange(segments.size(1), device=segments.device).expand_as(segments)
    starts = torch.ones_like(segments, dtype=torch.bool)
    starts[:, 1:] = segments[:, 1:] != segments[:, :-1]
    return index - (index * starts).cummax(-1).values
