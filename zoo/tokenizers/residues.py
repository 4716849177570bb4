"""The embedding of a protein's residues: hidden ones are dropped, as by dropout, rather than replaced."""

# Shapes: B batch, T tokens, D model width.

from torch import Tensor, nn

from zoo.tokenizers.text import TextTokenizer
from zoo.tokenizers.tokenizer import Embed

HIDDEN = 0.15 * 0.8  # the share of hidden residues in ESM's training


class ResidueEmbed(Embed):
    """A table with one trained vector a token; a mask token's counts as zero, and all others of a sequence are
    multiplied by (1 - 0.12) / (1 - m), where m is the share of mask tokens in it, so that their sum is what it was in
    training whatever is hidden (ESM-2's token dropout, Lin et al. 2022).

    Padding is told by the tokenizer's pad token.
    """

    def __init__(self, dim: int, tokenizer: TextTokenizer):
        super().__init__()
        self.table = nn.Embedding(tokenizer.vocabulary, dim)
        self.tokenizer = tokenizer

    def forward(
        self,
        value: Tensor,
        hidden: Tensor | None = None,
        types: Tensor | None = None,
        padding: Tensor | None = None,
    ) -> Tensor:
        mask, pad = self.tokenizer.special("mask"), self.tokenizer.find("pad")
        if hidden is not None:
            value = value.masked_fill(hidden, mask)
        masked = value == mask
        length = value.size(1) if pad is None else (value != pad).sum(1)
        kept = (length - masked.sum(1)).clamp(min=1)
        factor = (1 - HIDDEN) * length / kept  # (B,)
        return self.table(value).masked_fill(masked[..., None], 0) * factor[:, None, None].to(self.table.weight.dtype)

    def vectors(self) -> nn.Parameter:
        return self.table.weight
