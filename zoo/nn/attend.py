"""The one place where an attention kernel is chosen, and what it computes on its way."""

# Shapes: B batch, T queries, S keys, H query heads, K key/value heads, d head width.

import torch
import torch.nn.functional as F
from torch import Tensor


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    allowed: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """softmax(q k' scale + bias) v (Vaswani et al. 2017, equation 1): (B, H, T, d), (B, K, S, d) twice -> (B, H, T, d).

    ``allowed`` is a boolean mask, True where a query may see a key; ``bias`` is added to the scaled scores; both
    broadcast to (B, H, T, S).  ``causal`` asks for the kernel's own triangle and needs T == S.
    """
    if bias is not None:
        bias = bias.to(q.dtype)
        allowed = bias if allowed is None else bias.masked_fill(~allowed, float("-inf"))
        assert not causal, "a kernel's own triangle takes no bias"
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=allowed, is_causal=causal, scale=scale, dropout_p=dropout, enable_gqa=q.size(1) != k.size(1)
    )


def attention_weights(
    q: Tensor, k: Tensor, *, allowed: Tensor | None, bias: Tensor | None, causal: bool, scale: float | None
) -> Tensor:
    """The softmax in ``attend``, which its kernels do not keep: (B, H, T, S), in float32 whatever the precision."""
    with torch.autocast(q.device.type, enabled=False):
        k = k.float().repeat_interleave(q.size(1) // k.size(1), 1)  # (B, K, S, d) -> (B, H, S, d)
        scores = q.float() @ k.mT * (q.size(-1) ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    if causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
    return (scores if allowed is None else scores.masked_fill(~allowed, float("-inf"))).softmax(-1)
