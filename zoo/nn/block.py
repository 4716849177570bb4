"""A block is a chain of residual branches."""

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from zoo.nn.cache import State
from zoo.nn.context import Context, FeedForward, Mixer, Part, Slot
from zoo.nn.residual import PreNorm, Residual


class Block(Slot):
    """Mixer, cross-attention, feed-forward: those that are given, in this order."""

    packs, ahead = True, False  # but for its branches

    def __init__(
        self,
        dim: int,
        mixer: Callable[[int], Mixer] | None = None,
        cross: Callable[[int], Mixer] | None = None,
        ffn: Callable[[int], FeedForward] | None = None,
        residual: Callable[[int, Part], Residual] = PreNorm,
    ):
        super().__init__()
        for name, part in {"mixer": mixer, "cross": cross, "ffn": ffn}.items():
            if part is not None:
                self.add_module(name, residual(dim, part(dim)))

    def forward(self, x: Tensor, ctx: Context, state: State | None = None) -> Tensor:
        for name, branch in self._modules.items():
            x = branch(x, ctx, None if state is None else state.branch(name))
        return x


class Parallel(Mixer):
    """Several parts on the same normed input, summed: GPT-J, PaLM (Chowdhery et al. 2022).  Takes a ``mixer`` slot."""

    packs, ahead = True, False  # but for its parts

    def __init__(self, dim: int, parts: Sequence[Callable[[int], Part]]):
        super().__init__()
        self.parts = nn.ModuleList(part(dim) for part in parts)

    def forward(self, x: Tensor, ctx: Context, state: State | None = None) -> Tensor:
        outputs = [part(x, ctx, None if state is None else state.branch(str(i))) for i, part in enumerate(self.parts)]
        return sum(outputs[1:], outputs[0])
