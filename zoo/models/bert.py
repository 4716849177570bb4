"""BERT (Devlin et al. 2018): a bidirectional post-LayerNorm encoder with learned positions."""

from functools import partial

from zoo.nn import MLP, Attention, Backbone, Block, LayerNorm, Learned, PostNorm


class BERT(Backbone):
    """BERT-base by default; large: ``dim=1024, depth=24, heads=16``.

    ``length`` is the longest sequence; segment embeddings belong to the embedding, not here.  ``dropout`` acts on the
    input, on both branches' outputs and on the attention weights (the paper: 0.1).  Raises ValueError where ``heads``
    does not divide ``dim``.
    """

    def __init__(
        self,
        dim: int = 768,
        depth: int = 12,
        heads: int = 12,
        hidden: int | None = None,
        length: int = 512,
        eps: float = 1e-12,
        dropout: float = 0.0,
    ):
        norm = partial(LayerNorm, eps=eps)
        block = partial(
            Block,
            mixer=partial(Attention, heads=heads, dropout=dropout),
            ffn=partial(MLP, hidden=hidden),
            residual=partial(PostNorm, norm=norm, dropout=dropout),
        )
        position = partial(Learned, length=length)
        super().__init__(dim, depth, block, position=position, first_norm=norm, dropout=dropout)
