"""The one place where an attention kernel is chosen, and what it computes on its way."""

# Shapes: B batch, T queries, S keys, H query heads, K key/value heads, d head width.

import torch
import torch.nn.functional as F
from torch import Tensor

LONGEST = 768  # keys up to which scores that are written out are faster, on a CPU in bf16
NEVER = -1e30  # added to a score that does not count; finite, so that a query without a key is no NaN


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
    broadcast to (B, H, T, S).  ``causal`` asks for the kernel's own triangle and needs T == S.  A query that may see no
    key gets zero.

    torch's fused kernel never writes the scores down, and does so in most cases.  On a CPU in bf16 its backward pass is
    slow: ``written_out`` took 0.35 to 0.75 of its time for 64 to 512 keys, 0.75 to 0.95 for 768, and as much or more
    for 1,024 causal ones, where their memory counts too (forward and backward, 2 cores with bf16 instructions); for a
    single query, as in decoding, 0.15 to 0.45 from 256 keys on.  In float32 the fused kernel was faster.
    """
    if write_out(q, k):
        return written_out(q, k, v, allowed, bias, causal, scale, dropout)
    if bias is not None:
        bias = bias.to(q.dtype)
        allowed = bias if allowed is None else bias.masked_fill(~allowed, float("-inf"))
        assert not causal, "a kernel's own triangle takes no bias"
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=allowed, is_causal=causal, scale=scale, dropout_p=dropout, enable_gqa=q.size(1) != k.size(1)
    )


def write_out(q: Tensor, k: Tensor) -> bool:
    """Are scores that are written out faster than the fused kernel?"""
    return q.is_cpu and precision(q) == torch.bfloat16 and (k.size(2) <= LONGEST or q.size(2) == 1)


def precision(q: Tensor) -> torch.dtype:
    """The dtype that a kernel reads ``q`` in."""
    kind = q.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else q.dtype


def written_out(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    allowed: Tensor | None,
    bias: Tensor | None,
    causal: bool,
    scale: float | None,
    dropout: float,
) -> Tensor:
    """``attend`` as its formula stands there; the softmax is computed in float32, whatever it is rounded to."""
    kind, groups = precision(q), q.size(1) // k.size(1)
    if causal:
        allowed = torch.ones(q.size(2), k.size(2), dtype=torch.bool, device=q.device).tril()
    with torch.autocast(q.device.type, enabled=False):
        q = q.to(kind) * (q.size(-1) ** -0.5 if scale is None else scale)
        q = q.unflatten(1, (-1, groups)).flatten(2, 3)  # (B, H, T, d) -> (B, K, H / K T, d)
        scores = (q @ k.to(kind).mT).unflatten(2, (groups, -1)).flatten(1, 2)  # (B, H, T, S)
        if bias is not None:
            scores = scores.add_(bias.to(kind))
        if allowed is not None:  # added, for then there is nothing to do in the backward pass
            scores = scores.add_(torch.zeros_like(allowed, dtype=kind).masked_fill_(~allowed, NEVER))
        weights = F.dropout(scores.softmax(-1), dropout)
        weights = weights.unflatten(1, (-1, groups)).flatten(2, 3)
        y = (weights @ v.to(kind)).unflatten(2, (groups, -1)).flatten(1, 2)  # (B, H, T, d)
    if allowed is None or causal:
        return y
    return y.masked_fill(~allowed.any(-1, keepdim=True), 0)


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
