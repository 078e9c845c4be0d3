"""Attention with linear biases: scores fall with distance (Press et al. 2021).

Letters: B batch, T queries, S keys, H heads.
"""

import math

import torch
from torch import Tensor

from headway.nn.positions.encoding import PositionEncoding


class AlibiEncoding(PositionEncoding):
    """``alibi_bias`` with the slopes of ``alibi_slopes``."""

    def __init__(self, n_heads: int):
        self.slopes = alibi_slopes(n_heads)

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(B or 1, T) and (B or 1, S) -> (B or 1, H, T, S)."""
        self.slopes = self.slopes.to(queries.device)  # moved there once
        return alibi_bias(queries, keys, self.slopes)


def alibi_slopes(n_heads: int) -> Tensor:
    """How steeply the scores of each head fall with distance: (H,).

    A geometric sequence from 2^(-8/H); where H is no power of two, the one for the next lower power followed by every
    second number of the one for the next higher power (the paper's rule).
    """

    def powers(n: int) -> list[float]:
        return [2.0 ** (-8.0 * (i + 1) / n) for i in range(n)]

    lower = 2 ** math.floor(math.log2(n_heads))
    return torch.tensor(powers(lower) + powers(2 * lower)[0::2][: n_heads - lower])


def alibi_bias(queries: Tensor, keys: Tensor, slopes: Tensor) -> Tensor:
    """-slope × distance: positions (B or 1, T) and (B or 1, S) -> (B or 1, H, T, S)."""
    distance = (queries[:, None, :, None] - keys[:, None, None, :]).abs()  # (B, 1, T, S)
    return -slopes.to(distance.device)[None, :, None, None] * distance
