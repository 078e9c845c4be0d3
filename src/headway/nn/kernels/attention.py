"""Scaled dot-product attention: plain products, in windows, and step by step (Vaswani et al. 2017, section 3.2.1).

Letters: B batch, T queries or length, S keys, H heads, K head width, W window, N pieces.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.nn.kernels.dropout import drop_by_bytes
from headway.nn.masks import attention_mask


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


def window_scores(length: int, window: int | None, causal: bool) -> int:
    """How many scores are computed for ``length`` queries of one head: all of them, or those of the pieces if fewer."""
    if window is None:
        return length * length
    return min(length * length, -(-length // window) * window * window * (2 if causal else 3))


def attend_window(q: Tensor, k: Tensor, v: Tensor, window: int, causal: bool, dropout: float = 0.0) -> Tensor:
    """Attention among keys nearer than ``window``: (B, H, T, K) three times -> (B, H, T, K).

    It takes time linear in the length (Beltagy et al. 2020, Longformer): queries are split into N pieces of one window,
    and a piece needs only its own keys and those of the neighbouring pieces, so there are T × 3 W scores instead of
    T × T.  A sequence too short to gain from this uses full attention with a mask.

    Query i attends to key j when |i - j| < window, and j ≤ i when ``causal``; equal to ``attend_oracle`` with that
    mask.
    """
    batch, heads, length, width = q.shape
    if window_scores(length, window, causal) == length * length:
        at = torch.arange(length, device=q.device)[None]
        mask = None if window >= length else attention_mask(at, at, causal=causal, window=window)
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal and mask is None
        )
    pieces = -(-length // window)
    after = 0 if causal else window
    span = 2 * window + after
    padding = pieces * window - length
    q = F.pad(q, (0, 0, 0, padding)).reshape(batch, heads * pieces, window, width)  # (B, H N, W, K)
    k, v = (
        F.pad(x, (0, 0, window, padding + after)).unfold(2, span, window).transpose(-2, -1).flatten(1, 2)
        for x in (k, v)
    )  # (B, H N, span, K)
    mask = _piece_mask(length, window, causal, heads, q.device)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)  # (B, H N, W, K)
    return y.reshape(batch, heads, pieces * window, width)[:, :, :length]  # (B, H, T, K)


def _piece_mask(length: int, window: int, causal: bool, heads: int, device: torch.device) -> Tensor:
    """Which keys of its span each query of each piece may attend to, true = may: (H N, W, span)."""
    pieces = -(-length // window)
    query = torch.arange(pieces * window, device=device).view(pieces, window, 1)  # (N, W, 1)
    span = 2 * window + (0 if causal else window)
    key = torch.arange(span, device=device)[None, None] + (torch.arange(pieces, device=device) * window - window).view(
        pieces, 1, 1
    )  # (N, 1, span)
    distance = query - key
    allowed = (distance.abs() < window) & (key >= 0) & (key < length)
    if causal:
        allowed &= distance >= 0
    allowed |= (distance == 0) & (query >= length)  # padding queries attend to themselves, and are cut off
    return allowed.repeat(heads, 1, 1)  # (H N, W, span)


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
