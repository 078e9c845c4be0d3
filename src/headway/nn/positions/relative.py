"""Learned biases for the distance of query and key (T5, Raffel et al. 2020).

Letters: B batch, T queries, S keys, H heads.
"""

import math

import torch
from torch import Tensor, nn

from headway.nn.positions.encoding import PositionEncoding


class RelativeBias(nn.Module):
    """T5's learned bias per head and bucket of distances; near distances exactly, far ones on a logarithmic scale."""

    def __init__(self, n_heads: int, buckets: int, max_distance: int, *, causal: bool):
        super().__init__()
        self.table = nn.Embedding(buckets, n_heads)
        self.buckets, self.max_distance, self.causal = buckets, max_distance, causal

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Positions (B or 1, T) and (B or 1, S) -> (B or 1, H, T, S)."""
        ahead = keys[:, None, :] - queries[:, :, None]  # (B, T, S), positive when the key comes later
        return self.table(self.bucket(ahead)).permute(0, 3, 1, 2)  # (B, H, T, S)

    def bucket(self, ahead: Tensor) -> Tensor:
        """The bucket of each signed distance: half for later keys unless causal; half exact, half logarithmic."""
        count, offset = self.buckets, torch.zeros_like(ahead)
        if self.causal:
            distance = (-ahead).clamp(min=0)
        else:
            count //= 2
            offset = (ahead > 0).long() * count
            distance = ahead.abs()
        exact = count // 2
        share = torch.log(distance.clamp(min=1).float() / exact) / math.log(self.max_distance / exact)
        far = exact + (share * (count - exact)).long()
        return offset + torch.where(distance < exact, distance, far.clamp(max=count - 1))


class RelativeEncoding(PositionEncoding):
    """The encoding with a ``RelativeBias`` that all blocks share."""

    def __init__(self, n_heads: int, buckets: int, max_distance: int, *, causal: bool):
        self.n_heads, self.buckets, self.max_distance, self.causal = n_heads, buckets, max_distance, causal

    def make_biases(self) -> RelativeBias:
        self.biases = RelativeBias(self.n_heads, self.buckets, self.max_distance, causal=self.causal)
        return self.biases

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(B or 1, T) and (B or 1, S) -> (B or 1, H, T, S)."""
        return self.biases(queries, keys)
