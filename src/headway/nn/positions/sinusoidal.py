"""Sines and cosines of the position, added to the embeddings (Vaswani et al. 2017, 3.5).

Letters: B batch, T length, D width.
"""

import math

import torch
from torch import Tensor

from headway.nn.positions.encoding import PositionEncoding


class SinusoidalEncoding(PositionEncoding):
    """The encoding by ``sinusoids`` of the positions, counted from ``start``."""

    def __init__(self, width: int, start: int = 0, order: str = "interleaved"):
        self.width, self.start, self.order = width, start, order

    def embed(self, positions: Tensor, length: int) -> Tensor:
        """(B or 1, T) int -> (B or 1, T, D)."""
        return sinusoids(positions + self.start, self.width, self.order)


def sinusoids(positions: Tensor, width: int, order: str = "interleaved") -> Tensor:
    """sin(p / 10000^(2i/D)) and cos(p / 10000^(2i/D)) for each i below D/2: (..., ) int -> (..., D), any D.

    "interleaved" puts the sine at 2i and the cosine at 2i + 1 (Vaswani et al. 2017); "halves" puts all sines first
    (Marian); "tensor2tensor" does too, with that program's wavelengths, 10000^(i/(D/2 - 1)) (M2M-100).
    """
    half = -(-width // 2)
    i = torch.arange(half, device=positions.device)
    if order == "tensor2tensor":
        half = width // 2
        i = torch.arange(half, device=positions.device)
        angles = positions[..., None].float() * torch.exp(i * (-math.log(10000.0) / max(half - 1, 1)))  # (..., D / 2)
    else:
        # rounded after the sine and not before: at position 500, float32 angles are wrong by up to 3e-5
        exact = torch.float32 if positions.device.type == "mps" else torch.float64  # mps has no float64
        angles = positions[..., None] * torch.exp(2 * i.to(exact) * (-math.log(10000.0) / width))  # (..., ceil(D / 2))
    table = torch.zeros(*positions.shape, width, device=positions.device)
    if order == "interleaved":
        table[..., 0::2] = angles.sin()
        table[..., 1::2] = angles.cos()[..., : width // 2]
    else:
        table[..., :half] = angles.sin()
        table[..., half : half + width // 2] = angles.cos()[..., : width // 2]
    return table
