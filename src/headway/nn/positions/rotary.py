"""Rotary positions: pairs of entries of queries and keys are rotated (Su et al. 2021).

Letters: B batch, H heads, T length, K head width, R = rotated half width.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from headway.nn.kernels.dispatch import turn
from headway.nn.positions.encoding import PositionEncoding, Rotation
from headway.nn.positions.stretch import STRETCHES, Scaling, dynamic_base

Angles = tuple[Tensor, Tensor]  # cosines and sines, each (B or 1, 1, T, R)


class RotaryEncoding(PositionEncoding):
    """Rotation by ``rotate`` and ``rotation``, in layers with a window by ``window_base`` where given (ModernBERT).

    ``scaling`` stretches the frequencies for texts longer than those of the training.
    """

    def __init__(self, width: int, base: float, window_base: float | None = None, scaling: Scaling | None = None):
        self.width, self.base, self.window_base, self.scaling = width, base, window_base, scaling

    def rotation(self, positions: Tensor, window: int | None) -> Rotation:
        """The rotation of (B, any heads, T, K) at positions (B or 1, T)."""
        base = self.base if window is None or self.window_base is None else self.window_base
        return partial(rotate, by=self._angles(positions, base))

    def _angles(self, positions: Tensor, base: float) -> Angles:
        scaling = self.scaling
        if scaling is None:
            return rotation(positions, self.width, base)
        if scaling.kind == "dynamic":
            lengths = positions.amax(dim=1) + 1  # tokens so far, row by row: a batch gives what its rows give alone
            slower = dynamic_base(base, self.width, scaling.factor, scaling.original_length, lengths)
            return rotation(positions, self.width, slower)
        stretch = partial(STRETCHES[scaling.kind], scaling, base)
        return rotation(positions, self.width, base, stretch, scaling.size)


def rotation(
    positions: Tensor,
    d_rotated: int,
    base: float | Tensor,
    stretch: Callable[[Tensor], Tensor] | None = None,
    size: float = 1.0,
) -> Angles:
    """Cosines and sines of p / base^(2i/d): (B or 1, T) int -> two of (B or 1, 1, T, R) with R = d_rotated / 2.

    ``base`` may be one number per row, (B, 1, 1, 1).  ``stretch`` changes the frequencies 1 / base^(2i/d), (R,) ->
    (R,), and ``size`` multiplies cosines and sines, so that scores grow by its square (YaRN).
    """
    powers = torch.arange(0, d_rotated, 2, device=positions.device).float() / d_rotated  # (R,)
    frequencies = 1.0 / base**powers  # (R,) or (B, 1, 1, R)
    if stretch is not None:
        frequencies = stretch(frequencies)
    angles = positions[:, None, :, None].float() * frequencies  # (B, 1, T, R)
    if size != 1.0:
        return angles.cos() * size, angles.sin() * size
    return angles.cos(), angles.sin()


def rotate(x: Tensor, by: Angles) -> Tensor:
    """Rotate each pair (x[i], x[i + R]) by its position's angle: (B, H, T, K) -> the same; entries past 2 R stay as is.

    The product of a query and a key rotated this way depends only on the difference of their positions.
    """
    cos, sin = (part.to(x.dtype) for part in by)
    half = cos.shape[-1]
    turned = turn(x[..., : 2 * half], cos, sin)
    return turned if 2 * half == x.shape[-1] else torch.cat([turned, x[..., 2 * half :]], dim=-1)
