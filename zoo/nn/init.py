"""How weights begin: every rule in one place."""

import math

from torch import nn

from zoo.described import Described
from zoo.nn.attention import Attention
from zoo.nn.ffn import GLU, MLP
from zoo.nn.position import Buckets, Learned, Learned2d
from zoo.nn.residual import AdaNorm


class Init(Described):
    """Normal(0, ``std``) for linear maps, embeddings and position tables, zero for biases and adaptive gates.

    ``std=None`` takes 1 / sqrt(inputs) for each linear map.  The last linear map of every residual branch is multiplied
    by ``last``: 1 / sqrt(2 depth) if not given, so that the stream's variance does not grow with depth (GPT-2, Radford
    et al. 2019, section 2.3); with 0 every block begins as the identity (Zhang et al. 2019, Fixup).
    """

    def __init__(self, std: float | None = 0.02, last: float | None = None):
        self.std, self.last = std, last

    def __call__(self, module: nn.Module, depth: int = 0, name: str = "backbone") -> None:
        """Initialise ``module``, which is called ``name`` in its task, and all below it; ``depth`` is the number of
        blocks of the backbone, if it is one."""
        for part in module.modules():
            self._own(part)
        if depth:
            for part in module.modules():
                self._shrink(part, 1 / math.sqrt(2 * depth) if self.last is None else self.last)

    def _own(self, part: nn.Module) -> None:
        if isinstance(part, nn.Linear):
            nn.init.trunc_normal_(part.weight, std=self.std or 1 / math.sqrt(part.in_features))
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=self.std or 1 / math.sqrt(part.embedding_dim))
        elif isinstance(part, (Learned, Learned2d, Buckets)):
            nn.init.trunc_normal_(part.weight, std=self.std or 0.02)

    @staticmethod
    def _shrink(part: nn.Module, factor: float) -> None:
        if isinstance(part, Attention):
            part.o.weight.data.mul_(factor)
        elif isinstance(part, (MLP, GLU)):
            part.down.weight.data.mul_(factor)
        elif isinstance(part, AdaNorm):
            nn.init.zeros_(part.modulate.weight)
            nn.init.zeros_(part.modulate.bias)
