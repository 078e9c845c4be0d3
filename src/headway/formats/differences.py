"""How far the numbers of two models are apart."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from headway.models.heads import Gives, gives, n_outputs

BOUND = 1e-4
"""The largest difference between logits, scores and vectors in float32."""
NEW = 8
"""Tokens that are written for each text."""


def worst(value: float, differences: Tensor | float) -> float:
    """The largest so far; NaN is larger than any number."""
    if isinstance(differences, Tensor):
        differences = float(differences.abs().max()) if differences.numel() else 0.0
    return max(value, differences, key=lambda each: (each != each, each))


def behind(logits: Tensor, chosen: Tensor) -> Tensor:
    """How much lower the logits of the chosen tokens (T,) are than the highest of ``logits`` (T, V)."""
    return logits.max(dim=-1).values - logits.gather(1, chosen[:, None])[:, 0]


def has_units(model: Any) -> bool:
    """Whether outputs are in units of their own: one number, or several label columns with numbers among them."""
    return gives(model) is Gives.ROW and (n_outputs(model) == 1 or model.head.scale is not None)


def units_of(model: nn.Module, outputs: Tensor) -> Tensor:
    """What differences of outputs (N, ...) are relative to: 1; of outputs with units the largest of each, (C,)."""
    return outputs.abs().amax(dim=0).clamp(min=1.0) if has_units(model) else torch.ones(())


def magnitude(values: Tensor) -> float:
    """The root mean square of logits or vectors, and 1 at least: float32 errors grow with the size of numbers."""
    return max(1.0, float(values.float().square().mean().sqrt()))


def exceeding(difference: float, bound: float | None, what: str) -> list[str]:
    """The problem that ``what`` differs by more than the bound, if it does; without a bound, if it is no number."""
    if math.isfinite(difference) and (bound is None or difference <= bound):
        return []
    return [f"{what} by {difference:.3g}" + ("" if bound is None else f", more than {bound:g}")]
