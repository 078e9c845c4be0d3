"""Sliding-window attention in time linear in the length (Beltagy et al. 2020, Longformer).

Queries are split into pieces of one window; a piece needs only its own keys and those of the neighbouring pieces, so
there are T × 3 W scores instead of T × T.  A sequence too short to gain from this uses full attention with a mask.
Letters: B batch, H heads, T length, K head width, W window, N pieces.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.nn.masks import attention_mask


def window_scores(length: int, window: int | None, causal: bool) -> int:
    """How many scores are computed for ``length`` queries of one head: all of them, or those of the pieces if fewer."""
    if window is None:
        return length * length
    return min(length * length, -(-length // window) * window * window * (2 if causal else 3))


def attend_window(q: Tensor, k: Tensor, v: Tensor, window: int, causal: bool, dropout: float = 0.0) -> Tensor:
    """Attention among keys nearer than ``window``: (B, H, T, K) three times -> (B, H, T, K).

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
