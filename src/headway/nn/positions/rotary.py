"""Rotary positions: pairs of entries of queries and keys are rotated (Su et al. 2021).

Their frequencies can be stretched for texts longer than those of the training.

Letters: B batch, H heads, T length, K head width, R rotated pairs.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from headway.nn.kernels.dispatch import apply_rope
from headway.nn.positions.encoding import PositionEncoding, Rotation

Angles = tuple[Tensor, Tensor]  # cosines and sines, each (B or 1, 1, T, R)
Scaling = Any
"""The numbers of a stretch: ``models.config.RopeScaling``, which explains each."""


class RotaryEncoding(PositionEncoding):
    """Rotation by ``rope_angles``, in layers with a window by ``window_base`` where given (ModernBERT).

    ``scaling`` stretches the frequencies for texts longer than those of the training.
    """

    def __init__(self, width: int, base: float, window_base: float | None = None, scaling: Scaling | None = None):
        self.width, self.base, self.window_base, self.scaling = width, base, window_base, scaling

    def rotation(self, positions: Tensor, window: int | None) -> Rotation:
        """The rotation of (B, any heads, T, K) at positions (B or 1, T)."""
        base = self.base if window is None or self.window_base is None else self.window_base
        cos, sin = self._angles(positions, base)
        return partial(apply_rope, cos=cos, sin=sin)

    def _angles(self, positions: Tensor, base: float) -> Angles:
        scaling = self.scaling
        if scaling is None:
            return rope_angles(positions, self.width, base)
        if scaling.kind == "dynamic":
            lengths = positions.amax(dim=1) + 1  # tokens so far, row by row: a batch gives what its rows give alone
            slower = dynamic_base(base, self.width, scaling.factor, scaling.original_length, lengths)
            return rope_angles(positions, self.width, slower)
        stretch = partial(STRETCHES[scaling.kind], scaling, base)
        return rope_angles(positions, self.width, base, stretch, scaling.size)


def rope_angles(
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


def stretch_linear(frequencies: Tensor, factor: float) -> Tensor:
    """Position interpolation (Chen et al. 2023): every frequency is divided by ``factor``: (R,) -> (R,)."""
    return frequencies / factor


def stretch_llama3(frequencies: Tensor, factor: float, original_length: int, slow: float, fast: float) -> Tensor:
    """Llama 3.1's rule (Meta 2024, reference code): (R,) -> (R,).

    A pair that turns more than ``fast`` times within the original length keeps its frequency, one that turns fewer than
    ``slow`` times is divided by ``factor``; in between, the kept fraction grows with the number of turns.
    """
    turns = original_length * frequencies / (2 * math.pi)
    kept = ((turns - slow) / (fast - slow)).clamp(0, 1)
    return frequencies * (kept + (1 - kept) / factor)


def stretch_yarn(
    frequencies: Tensor, factor: float, original_length: int, slow: float, fast: float, base: float, whole: bool = True
) -> Tensor:
    """YaRN (Peng et al. 2023, "NTK-by-parts", 3.2): (R,) -> (R,).

    As ``stretch_llama3``, but in between the kept fraction falls with the index of the pair: from the pair that turns
    ``fast`` times within the original length to the one that turns ``slow`` times.  ``whole`` rounds both outwards.
    """
    width = 2 * len(frequencies)

    def pair(turns: float) -> float:
        """The index i of the pair with that many turns: base^(-2i/d) original_length = 2π turns."""
        return width * math.log(original_length / (2 * math.pi * turns)) / (2 * math.log(base))

    first, last = (math.floor(pair(fast)), math.ceil(pair(slow))) if whole else (pair(fast), pair(slow))
    first, last = max(first, 0), min(last, width - 1)
    i = torch.arange(len(frequencies), device=frequencies.device).float()
    kept = 1 - ((i - first) / (last - first or 0.001)).clamp(0, 1)
    return frequencies * (kept + (1 - kept) / factor)


def dynamic_base(base: float, d_rotated: int, factor: float, original_length: int, lengths: Tensor) -> Tensor:
    """The base for texts of ``lengths`` tokens: (B,) int -> (B, 1, 1, 1); ``base`` up to the original length.

    Beyond it, base (factor n / original - factor + 1)^(d / (d - 2)) for n tokens: "dynamic NTK" (Peng et al. 2023, 3.3,
    with the factor as transformers applies it).  With factor 1 the slowest pair then turns over n tokens as far as it
    did over the original length.
    """
    lengths = lengths.clamp(min=original_length).float()
    grown = base * (factor * lengths / original_length - (factor - 1)) ** (d_rotated / (d_rotated - 2))
    return grown[:, None, None, None]


STRETCHES: dict[str, Callable[[Scaling, float, Tensor], Tensor]] = {
    "linear": lambda by, base, f: stretch_linear(f, by.factor),
    "llama3": lambda by, base, f: stretch_llama3(f, by.factor, by.original_length, by.slow, by.fast),
    "yarn": lambda by, base, f: stretch_yarn(f, by.factor, by.original_length, by.slow, by.fast, base, by.whole),
}
"""By kind: the frequencies (R,) from the scaling, the base, and the unscaled frequencies (R,) of that base."""
