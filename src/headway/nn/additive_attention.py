"""Additive attention (Bahdanau et al. 2015): a small network scores each pair of query and key.

Letters: B batch, T queries, S keys, D width of the queries, E width of the keys, A width of the network.
"""

import torch
from torch import Tensor, nn


class AdditiveAttention(nn.Module):
    """softmax(v · tanh(W q + U k)) over the keys, and the sum of the keys with these weights."""

    def __init__(self, d_query: int, d_key: int, width: int):
        super().__init__()
        self.query = nn.Linear(d_query, width, bias=False)
        self.key = nn.Linear(d_key, width)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, queries: Tensor, keys: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(B, T, D) and (B, S, E) -> sums (B, T, E) and weights (B, T, S).  ``mask`` (B, S) is true for keys."""
        network = torch.tanh(self.query(queries)[:, :, None] + self.key(keys)[:, None])  # (B, T, S, A)
        scores = self.score(network)[..., 0]  # (B, T, S)
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None], -torch.inf)
        weights = scores.softmax(dim=-1)
        return weights @ keys, weights


class AttentionPooling(nn.Module):
    """One vector from many, weighted by a small network's score of each (Yang et al. 2016): (B, T, D) -> (B, D)."""

    def __init__(self, width: int):
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, D), over real tokens only."""
        scores = self.score(torch.tanh(self.dense(x)))[..., 0]  # (B, T)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        return (scores.softmax(dim=-1)[..., None] * x).sum(dim=1)
