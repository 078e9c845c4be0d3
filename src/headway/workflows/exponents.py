"""The power of the length or width with which a measurement grows: a line through points on log-log axes.

fit = power([128, 256, 512], [[0.010, 0.011], [0.021, 0.020], [0.041, 0.043]])
fit["exponent"], fit["interval"]
"""

import random
import statistics
from collections.abc import Sequence
from math import exp, log
from typing import Any

SAMPLES = 1000
"""Bootstrap samples of the repeats for an interval."""


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of the least-squares line through the points."""
    return statistics.linear_regression(x, y).slope


def power(sizes: Sequence[int], repeats: Sequence[Sequence[float]]) -> dict[str, Any]:
    """The exponent e and factor c of c sizeᵉ through the medians of the repeated measurements at each size.

    ``interval`` is the 95 % bootstrap interval of the exponent, from resampling the repeats at each size: how far noise
    moves the exponent.  The other two show whether the points lie on a straight line: ``without_one`` is the minimum
    and maximum exponent with one size left out (None below three sizes), ``last`` the exponent between the last two
    sizes.
    """
    x = [log(size) for size in sizes]
    draw = random.Random(0)

    def through(groups: Sequence[Sequence[float]]) -> float:
        return slope(x, [log(statistics.median(group)) for group in groups])

    exponent = through(repeats)
    drawn = sorted(through([draw.choices(group, k=len(group)) for group in repeats]) for _ in range(SAMPLES))
    outer = SAMPLES // 40  # 2.5 % on either side
    y = [log(statistics.median(group)) for group in repeats]
    left_out = [slope([*x[:i], *x[i + 1 :]], [*y[:i], *y[i + 1 :]]) for i in range(len(x))] if len(x) > 2 else []
    return {
        "exponent": exponent,
        "factor": exp(statistics.fmean(y) - exponent * statistics.fmean(x)),
        "interval": [drawn[outer], drawn[-1 - outer]],
        "without_one": [min(left_out), max(left_out)] if left_out else None,
        "last": slope(x[-2:], y[-2:]),
        "sizes": list(sizes),
    }
