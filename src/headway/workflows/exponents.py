"""The power of the length or width with which a measurement grows: a line through points on log-log axes.

fit = power([128, 256, 512], [[0.010, 0.011], [0.021, 0.020], [0.041, 0.043]])
fit["exponent"], fit["interval"]
"""

import statistics
from collections.abc import Sequence
from math import exp, log, sqrt
from typing import Any

from headway.training.evaluation.intervals import student


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of the least-squares line through the points."""
    return statistics.linear_regression(x, y).slope


def power(sizes: Sequence[int], repeats: Sequence[Sequence[float]]) -> dict[str, Any]:
    """The exponent e and factor c of c sizeᵉ through the geometric means of the repeated measurements at each size.

    The repeats are rounds, each over all sizes in turn, so each round has an exponent of its own, and what is slow for
    a whole round moves none of them.  ``interval`` is Student's 95 % interval of their mean: how far noise moves the
    exponent (None for a single round).  The other two show whether the points lie on a straight line: ``without_one``
    is the minimum and maximum exponent with one size left out (None below three sizes), ``last`` the exponent between
    the last two sizes.
    """
    x = [log(size) for size in sizes]
    rounds = [[log(value) for value in one] for one in zip(*repeats, strict=True)]
    y = [statistics.fmean(values) for values in zip(*rounds, strict=True)]
    exponent, count = slope(x, y), len(rounds)
    half = student(count) * statistics.stdev(slope(x, one) for one in rounds) / sqrt(count) if count > 1 else None
    left_out = [slope([*x[:i], *x[i + 1 :]], [*y[:i], *y[i + 1 :]]) for i in range(len(x))] if len(x) > 2 else []
    return {
        "exponent": exponent,
        "factor": exp(statistics.fmean(y) - exponent * statistics.fmean(x)),
        "interval": None if half is None else [exponent - half, exponent + half],
        "without_one": [min(left_out), max(left_out)] if left_out else None,
        "last": slope(x[-2:], y[-2:]),
        "sizes": list(sizes),
    }
