"""LLaMA (Touvron et al. 2023): a causal pre-RMSNorm decoder with rotary positions, SwiGLU and no biases."""

from functools import partial

from zoo.nn import GLU, Attention, Backbone, Block, Causal, FrequencyScaling, Mask, PreNorm, RMSNorm, Rotary


class LLaMA(Backbone):
    """LLaMA 7B by default; LLaMA 3 8B (Dubey et al. 2024): ``kv_heads=8, hidden=14336, theta=500000``, and
    ``scaling=Llama3Scaling()`` from 3.1 on; Mistral 7B (Jiang et al. 2023): ``kv_heads=8, hidden=14336,
    mask=Causal() & Window(4096)``.

    ``kv_heads`` below ``heads`` shares keys and values among queries; ``theta`` and ``scaling`` set the rotation's
    frequencies.  ``dropout`` acts on the input, both branches' outputs and the attention weights (published: none).
    Raises ValueError where ``heads`` does not divide ``dim``, or ``kv_heads`` not ``heads``.
    """

    def __init__(
        self,
        dim: int = 4096,
        depth: int = 32,
        heads: int = 32,
        kv_heads: int | None = None,
        hidden: int | None = 11008,
        theta: float = 10_000.0,
        scaling: FrequencyScaling | None = None,
        mask: Mask = Causal(),
        eps: float = 1e-5,
        dropout: float = 0.0,
    ):
        norm = partial(RMSNorm, eps=eps)
        block = partial(
            Block,
            mixer=partial(Attention, heads=heads, kv_heads=kv_heads, mask=mask, bias=False, dropout=dropout),
            ffn=partial(GLU, hidden=hidden),
            residual=partial(PreNorm, norm=norm, dropout=dropout),
        )
        position = partial(Rotary, theta=theta, scaling=scaling)
        super().__init__(dim, depth, block, position=position, last_norm=norm, dropout=dropout)
