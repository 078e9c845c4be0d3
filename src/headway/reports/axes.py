"""Arithmetic for charts: round ticks, downsampled curves, labels that do not overlap."""

import itertools
import math
from bisect import bisect_left

from headway.reports.record import Point

MOST_POINTS = 400


def ticks(low: float, high: float, most: int) -> list[float]:
    """At most ``most`` (two or more) round numbers, 1, 2 or 5 times a power of ten apart, within [low, high]."""
    span = high - low
    if not span > 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(span / most))
    for factor in (1, 2, 5, 10, 20, 50):
        step = factor * power
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            break
    return [round(index * step, 12) for index in range(first, last + 1)]


def tick_labels(values: list[float]) -> list[str]:
    """The ticks as text, all with the same decimals; from 10,000 on in thousands, as 10k."""
    step = min((b - a for a, b in itertools.pairwise(values)), default=abs(values[0]) if values else 0)
    if not step:
        return [f"{value:g}" for value in values]
    largest = max(abs(value) for value in values)
    if largest < 1e-3 or largest >= 1e7:
        return ["0" if value == 0 else f"{value:.4g}" for value in values]
    if largest >= 1e4 and step >= 100:
        return [f"{value / 1000:g}k" if value else "0" for value in values]
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    return [f"{value:,.{places}f}" if value else "0" for value in values]


def thin(points: list[Point], most: int = MOST_POINTS) -> list[Point]:
    """At most ``most`` points: each the mean of a bucket of neighbours. Fewer points are returned as they are."""
    if len(points) <= most:
        return points
    edges = [index * len(points) // most for index in range(most + 1)]
    buckets = [points[start:stop] for start, stop in itertools.pairwise(edges)]
    return [(sum(x for x, _ in part) / len(part), sum(y for _, y in part) / len(part)) for part in buckets]


def spread(wanted: list[float], heights: list[float], low: float, high: float) -> list[float]:
    """Centres for labels as near as possible to ``wanted`` without overlap, inside [low, high] where they fit."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    centres = list(wanted)
    edge = low
    for index in order:
        centres[index] = max(wanted[index], edge + heights[index] / 2)
        edge = centres[index] + heights[index] / 2
    edge = high
    for index in reversed(order):
        centres[index] = min(centres[index], edge - heights[index] / 2)
        edge = centres[index] - heights[index] / 2
    return centres


def interpolate(points: list[Point], x: float) -> float | None:
    """The value at ``x`` on the straight lines through ``points`` (sorted by x); None outside of them."""
    at = bisect_left(points, (x, -math.inf))
    if at < len(points) and points[at][0] == x:
        return points[at][1]
    if at in (0, len(points)):
        return None
    (x0, y0), (x1, y1) = points[at - 1], points[at]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


def ceiling(values: list[float], must_show: list[float]) -> float:
    """The top of a vertical axis: the highest value, unless rare spikes far above the rest would flatten the curve."""
    usual = sorted(values)[int(0.95 * (len(values) - 1))]
    top = max(values)
    if usual > 0 and top > 6 * usual:
        return max([1.5 * usual, *must_show])
    return max([top, *must_show])
