"""Scaled dot-product attention as plain products, and step by step (Vaswani et al. 2017, section 3.2.1).

Letters: B batch, T queries, S keys, H heads, K head width.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.nn.kernels.dropout import drop_by_bytes


def attend_plain(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, dropout: float) -> Tensor:
    """Attention as two batched products and a softmax, the mask added within the first product: (B, H, T, K)."""
    heads, n_queries, n_keys = q.shape[1], q.shape[2], k.shape[2]
    added = q.new_zeros(n_queries, n_keys)
    if causal:
        added = added.fill_(float("-inf")).triu(1)
    if mask is not None:
        mask = mask.expand(q.shape[0], heads, n_queries, n_keys).flatten(0, 1)  # (B H, T, S)
        added = added.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else added + mask
    keys = k.flatten(0, 1).transpose(1, 2)  # (B H, K, S)
    scores = torch.baddbmm(added.to(q.dtype), q.flatten(0, 1), keys, alpha=1 / math.sqrt(q.shape[-1]))
    weights = drop_by_bytes(scores.softmax(dim=-1), dropout)
    return torch.bmm(weights, v.flatten(0, 1)).unflatten(0, (-1, heads))  # (B, H, T, K)


def attend_filled(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, multiple: int) -> Tensor:
    """Torch's fused attention with keys added, which no query may attend to, up to a multiple of so many.

    On a CPU the fused kernel computes the exponentials of whole vectors fast and those left over one by one.
    """
    n_keys = k.shape[2]
    more = -n_keys % multiple
    if mask is not None:
        mask = F.pad(
            mask.expand(*mask.shape[:-1], n_keys), (0, more), value=False if mask.dtype == torch.bool else -math.inf
        )
    elif not causal:  # the causal triangle leaves them out already
        mask = (torch.arange(n_keys + more, device=q.device) < n_keys).view(1, 1, 1, -1)
    k, v = F.pad(k, (0, 0, 0, more)), F.pad(v, (0, 0, 0, more))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)


def attend_oracle(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False):
    """What ``dispatch.attend`` computes, step by step; also the weights (B, H, T, S), each row summing to one."""
    weights = attention_weights(q, k, mask, causal)
    return weights @ v, weights


def attention_weights(q: Tensor, k: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    """softmax(q kᵀ / √d_k) with minus infinity before the softmax wherever attention is forbidden: (B, H, T, S)."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (B, H, T, S)
    if causal:
        triangle = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~triangle, float("-inf"))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(dim=-1)
