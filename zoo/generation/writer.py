"""A decoder in the middle of writing: whatever it reads changes what it predicts next."""

# Shapes: B sequences, T tokens of a call, S tokens so far, V vocabulary, F features a token, D model width, M memory.

from __future__ import annotations

import torch
from torch import Tensor, nn

from zoo.nn import Backbone, Cache, padding_positions
from zoo.tokenizers import Embed, Tokens

NOTHING = -1  # stands in a history where there is no token


class Writer:
    """An embedding, a decoder and a head, with the cache of B sequences that they fill.

    ``memory`` (B, M, D) and its padding are what the decoder's cross-attention reads.  With ``starts``, the embedding's
    start vector is read before the first token, and ``starts`` is its id, or ``NOTHING``.
    """

    def __init__(
        self,
        embed: Embed,
        backbone: Backbone,
        head: nn.Module,
        memory: Tensor | None = None,
        memory_padding: Tensor | None = None,
        starts: int | None = None,
        cache: Cache | None = None,
    ):
        self.embed, self.backbone, self.head, self.starts = embed, backbone, head, starts
        self.memory, self.memory_padding = memory, memory_padding
        self.cache = Cache() if cache is None else cache
        self.sources: Tensor | None = None  # (B,) which of the memories each row reads
        self.history: Tensor | None = None  # (B, S) ids or (B, S, F) features that were read; NOTHING where none was

    @property
    def room(self) -> int | None:
        """How many tokens can still be read before the positions or the cache end; None: as many as you like."""
        limits = [limit for limit in (self.backbone.position.limit, self.cache.capacity) if limit is not None]
        return min(limits) - self.cache.length if limits else None

    def read(self, tokens: Tokens, every: bool = False) -> Tensor:
        """T tokens a sequence, padded on the left where at all -> (B, V) or (B, F), what follows the last of them; with
        ``every`` (B, T, V), what follows each."""
        value, padding, x = tokens.value, tokens.padding, self.embed(tokens.value)
        seen = value if padding is None or value.dim() == 3 else value.masked_fill(~padding, NOTHING)
        if self.starts is not None and self.history is None:
            x = torch.cat((self.embed.start(len(value)).type_as(x), x), 1)
            first = seen.new_full((len(seen), 1), self.starts) if seen.dim() == 2 else seen[:, :0]
            seen = torch.cat((first, seen), 1)
            padding = None if padding is None else nn.functional.pad(padding, (1, 0), value=True)
        if self.sources is None:
            self.sources = torch.arange(len(value), device=value.device)
        self.history = seen if self.history is None else torch.cat((self.history, seen), 1)
        states = self.backbone(
            x,
            padding=padding,
            positions=None if padding is None else padding_positions(padding),
            memory=self.memory,
            memory_padding=self.memory_padding,
            cache=self.cache,
        )
        return self.head(states if every else states[:, -1])

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows (B',) of the batch, in this order; one may be there twice."""
        assert self.sources is not None and self.history is not None, "nothing was read"
        sources = self.sources[rows]
        same = torch.equal(sources, self.sources)
        self.cache.reorder(rows, same_memory=same)
        self.sources, self.history = sources, self.history.index_select(0, rows)
        if not same:
            self.memory, self.memory_padding = (
                None if value is None else value.index_select(0, rows) for value in (self.memory, self.memory_padding)
            )

    def rewind(self, count: int) -> None:
        """Forget the last ``count`` tokens.  Raises ValueError where a layer cannot."""
        if count and self.history is not None:
            self.cache.rewind(count)
            self.history = self.history[:, :-count]
