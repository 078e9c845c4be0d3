"""One promise that was checked: what was measured, how large it may be, and whether it held."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

ROUNDING, LEAST = 1e-5, 1e-6
"""Two ways through a model in float32 may differ by this share of its largest answer, and by so much in any case."""


class DoesNotApply(Exception):
    """A promise means nothing for this model, or cannot be checked here; the reason."""


@dataclass(frozen=True)
class Check:
    """A promise and what came of it."""

    name: str
    what: str
    """what was done, in words"""
    value: float | None = None
    """the largest difference that was found"""
    bound: float | None = None
    """how large it may be"""
    problem: str | None = None
    """what is wrong beside the value"""
    skipped: str | None = None
    """why the promise means nothing for this model, or cannot be checked here"""
    seconds: float = 0.0
    more: dict[str, Any] = field(default_factory=dict)
    """further keys of ``plain``"""

    @property
    def passed(self) -> bool | None:
        """Whether the promise held; None where it was not checked."""
        if self.skipped is not None:
            return None
        within = self.value is not None and self.bound is not None and self.value <= self.bound  # NaN is not
        return within and self.problem is None

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        found = {"name": self.name, "passed": self.passed, "value": self.value, "bound": self.bound}
        found |= {"what": self.what, "seconds": self.seconds, **self.more}
        said = {"problem": self.problem, "skipped": self.skipped}
        return found | {key: text for key, text in said.items() if text is not None}


def bound_of(largest: float) -> float:
    """How far two ways of computing answers in float32 may be apart, where the largest answer is ``largest``."""
    return max(LEAST, ROUNDING * largest)


def difference(one: Tensor, other: Tensor) -> float:
    """The largest difference between two tensors, NaN where a number is none, infinity for different shapes."""
    if one.shape != other.shape:
        return float("inf")
    return float((one.double() - other.double()).abs().max()) if one.numel() else 0.0


def worst(*values: float) -> float:
    """The largest of some differences; NaN is worse than any."""
    return max(values, key=lambda value: (value != value, value))
