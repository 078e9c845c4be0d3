"""The result of one check: the measured difference, its bound, and whether the check passed."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

ROUNDING, LEAST = 1e-5, 1e-6
"""Allowed difference between two float32 computations: a fraction of the largest answer, and a minimum."""


class DoesNotApply(Exception):
    """The check does not apply to this model, or cannot run here; the message is the reason."""


@dataclass(frozen=True)
class Check:
    """A check and its result."""

    name: str
    what: str
    """what was done, in words"""
    value: float | None = None
    """the largest difference found"""
    bound: float | None = None
    """the largest difference allowed"""
    problem: str | None = None
    """what is wrong, in addition to the value"""
    skipped: str | None = None
    """why the check does not apply to this model, or cannot run here"""
    seconds: float = 0.0
    more: dict[str, Any] = field(default_factory=dict)
    """further keys of ``plain``"""

    @property
    def passed(self) -> bool | None:
        """Whether the check passed; None if it was skipped."""
        if self.skipped is not None:
            return None
        within = self.value is not None and self.bound is not None and self.value <= self.bound  # NaN is not
        return within and self.problem is None

    def plain(self) -> dict[str, Any]:
        found = {"name": self.name, "passed": self.passed, "value": self.value, "bound": self.bound}
        found |= {"what": self.what, "seconds": self.seconds, **self.more}
        said = {"problem": self.problem, "skipped": self.skipped}
        return found | {key: text for key, text in said.items() if text is not None}


def bound_of(largest: float) -> float:
    """The allowed difference between two float32 computations whose largest answer is ``largest``."""
    return max(LEAST, ROUNDING * largest)


def difference(one: Tensor, other: Tensor) -> float:
    """The largest difference between two tensors, NaN if either holds NaN, infinity for different shapes."""
    if one.shape != other.shape:
        return float("inf")
    return float((one.double() - other.double()).abs().max()) if one.numel() else 0.0


def worst(*values: float) -> float:
    """The largest of some differences; NaN counts as the largest."""
    return max(values, key=lambda value: (value != value, value))
