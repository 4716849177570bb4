"""What fine-tuning needs of a task besides rates by depth: frozen layers, and less memory; the words are timm's
(Wightman 2019) where timm has one."""

from __future__ import annotations

from torch import nn

from zoo.nn import Backbone, ClassToken
from zoo.tokenizers import Embed


class Tuning(nn.Module):
    """Base of ``Task``."""

    _frozen: tuple[nn.Module, ...] = ()
    _held: tuple[nn.Parameter, ...] = ()  # what was trained before it was frozen

    def freeze(self, layers: int | None = None) -> None:
        """Train neither the embedding, class tokens among it, nor the first ``layers`` blocks of any backbone; None: no
        backbone at all.  What is left (of the blocks, and pool, head, projection) is trained.

        In place of Lightning's, which freezes everything.  Each call says the whole: ``freeze(4)`` after ``freeze(8)``
        trains four blocks more.  Frozen parts stay in evaluation mode, whatever ``train`` says: without dropout they
        compute in training what they compute afterwards.  A head that shares the embedding's table is frozen with it.
        Call it before training begins, and again on a task that was loaded: checkpoints do not tell.  Raises ValueError
        where there are fewer blocks.
        """
        backbones = [part for part in self.modules() if isinstance(part, Backbone)]
        depth = min(len(backbone.blocks) for backbone in backbones)
        if layers is not None and not 0 <= layers <= depth:
            raise ValueError(f"layers={layers} of {depth} blocks; give a number from 0 to {depth}, or None for all")
        self.unfreeze()
        parts = [part for part in self.modules() if isinstance(part, (Embed, ClassToken))]
        for backbone in backbones:
            below = (backbone.position, backbone.first_norm, backbone.drop, *backbone.blocks[:layers])
            parts += [backbone] if layers is None else below
        weights = [weight for part in parts for weight in part.parameters() if weight.requires_grad]
        self._frozen, self._held = tuple(parts), tuple(weights)
        for weight in weights:
            weight.requires_grad_(False)
        self.train(self.training)

    def unfreeze(self) -> None:
        """Train what ``freeze`` froze."""
        for weight in self._held:
            weight.requires_grad_(True)
        self._frozen, self._held = (), ()
        self.train(self.training)

    def train(self, mode: bool = True) -> Tuning:
        super().train(mode)
        for part in self._frozen:
            part.eval()
        return self

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """That of every backbone: less memory, a third more time (timm: the same)."""
        for part in self.modules():
            if isinstance(part, Backbone):
                part.set_grad_checkpointing(enable)
