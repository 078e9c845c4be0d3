"""Which tokens may attend to which: masks are made here and nowhere else.

One convention: a mask is bool and **true where a query may attend to a key**.  Masks are computed from positions, not
from indices, so padding on either side, cached keys and batches of mixed lengths need no special cases.

Letters: B batch, T queries, S keys.
"""

import torch
from torch import Tensor


def token_positions(mask: Tensor) -> Tensor:
    """Positions counted over real tokens: (B, T) bool -> (B, T) int64.  Padding before the first token gets 0."""
    return (mask.long().cumsum(dim=-1) - 1).clamp(min=0)  # (B, T)


def attention_mask(
    queries: Tensor, keys: Tensor, *, causal: bool, window: int | None = None, key_mask: Tensor | None = None
) -> Tensor | None:
    """Which keys each query may attend to, true = may: (B or 1, 1, T or 1, S), or None when every query may see all.

    ``queries`` (B or 1, T) and ``keys`` (B or 1, S) are positions; several queries are the last T of the S keys.
    ``causal`` forbids keys after the query, ``window`` forbids distances of ``window`` or more on either side, and
    ``key_mask`` (B, S), true where there is a token, forbids padding.  No row is empty: where ``causal`` or ``window``
    limits them, a token may always attend to itself, and in a text without any token all may attend to all.  Since no
    token attends to padding, the output there affects no result.
    """
    if key_mask is not None and not causal and window is None:
        return (key_mask | ~key_mask.any(dim=-1, keepdim=True))[:, None, None]  # (B, 1, 1, S)
    distance = queries[:, :, None] - keys[:, None, :]  # (B, T, S)
    allowed = torch.ones_like(distance, dtype=torch.bool)
    if causal:
        allowed &= distance >= 0
    if window is not None:
        allowed &= distance.abs() < window
    if key_mask is not None:
        allowed = allowed & key_mask[:, None, :]  # (B, T, S)
    n_queries, n_keys = queries.shape[1], keys.shape[1]
    if n_queries == 1 < n_keys:  # the next token of texts that have some: it may attend to itself in any case
        return allowed[:, None]
    itself = torch.ones(n_queries, n_keys, dtype=torch.bool, device=keys.device)
    itself = itself.triu(n_keys - n_queries).tril(n_keys - n_queries)
    return (allowed | itself)[:, None]  # (B, 1, T, S)


def source_mask(mask: Tensor, *, check: bool = True) -> Tensor:
    """The mask of cross-attention from the source's mask (B, S), true where there is a token: (B, 1, 1, S).

    Raises ValueError when a source has no token: its queries would have nothing to attend to.  ``check`` false skips
    this check; so does a training step on an accelerator, where it would wait for the device.
    """
    waits = mask.device.type != "cpu" and torch.is_grad_enabled()
    if check and not waits:
        empty = (~mask.any(dim=-1)).nonzero().flatten().tolist()
        if empty:
            raise ValueError(f"source {empty[0]} of the batch has no tokens: every source needs at least one")
    return mask[:, None, None, :]  # (B, 1, 1, S)


def with_bias(mask: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """One tensor to add to the scores: the bool mask, or ``bias`` with minus infinity wherever the mask forbids."""
    if bias is None or mask is None:
        return mask if bias is None else bias
    return bias.masked_fill(~mask, float("-inf"))
