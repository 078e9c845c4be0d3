"""95 % confidence intervals of metrics and of their differences: of N held-out units, S seeds, K counts."""

import math
from collections.abc import Callable, Sequence

import numpy as np

Interval = tuple[float, float]
OverSeeds = tuple[Sequence[float], Sequence[np.ndarray]]
"""A figure of each of S seeds, and the influences (N,) of the units on it: what each adds beyond the mean, so that the
variance of the figure is N / (N - 1) times the sum of their squares (the infinitesimal jackknife, Jaeckel 1972; of a
ratio Cochran's linearisation).  benchmarks/coverage.py simulates how often each interval contains the true value."""

Z = 1.959963984540054
"""The 97.5 % point of the normal distribution."""
UNKNOWN = 0.01
"""How many units are taken to be wholly wrong or right, though none was, where the spread of a score is estimated."""
FARTHEST = (3, 1)
"""How many more units are taken to be as far off as the farthest one: of a figure without ends, of one with ends."""


def wilson(right: float, n: float, z: float = Z) -> Interval:
    """The score interval of a share, ``right`` of ``n`` (Wilson 1927).  Raises ValueError for no examples."""
    if n < 1:
        raise ValueError(f"n is {n}, expected 1 or more")
    p, z2 = right / n, z * z
    middle, half = p + z2 / (2 * n), z * math.sqrt(max(0.0, p * (1 - p)) / n + z2 / (4 * n * n))
    return max(0.0, (middle - half) / (1 + z2 / n)), min(1.0, (middle + half) / (1 + z2 / n))


def of_shares(one: float, n_one: int, other: float, n_other: int) -> Interval:
    """The difference of two independent shares (Newcombe 1998, method 10)."""
    return of_difference(one, wilson(one * n_one, n_one), other, wilson(other * n_other, n_other), 0.0)


def of_unlike(more: int, fewer: int, n: int) -> Interval:
    """The difference of two shares of the same n units, of which ``more`` are right by the first alone.

    Clopper and Pearson's interval for the units on which the two differ: it inverts the exact test of McNemar.
    """
    from scipy.special import betaincinv

    least = float(betaincinv(more, fewer + 1, 0.025)) if more else 0.0
    most = float(betaincinv(more + 1, fewer, 0.975)) if fewer else 1.0
    return (2 * least - 1) * (more + fewer) / n, (2 * most - 1) * (more + fewer) / n


def of_difference(p: float, one: Interval, q: float, other: Interval, correlation: float) -> Interval:
    """The difference p - q of two correlated figures, each with its interval.

    Newcombe's squares and sums (1998, method 10), for any figures as Zou (2007, *Toward using confidence intervals to
    compare correlations*).
    """
    (low, high), (below, above), gap = one, other, p - q

    def half(up: float, down: float) -> float:
        return math.sqrt(max(0.0, up * up - 2 * correlation * up * down + down * down))

    return gap - half(p - low, above - q), gap + half(high - p, q - below)


def of_seeds(
    values: Sequence[float],
    influences: Sequence[np.ndarray],
    low: float = -math.inf,
    high: float = math.inf,
    units: int | None = None,
) -> Interval:
    """A figure over rows and seeds: the mean of S values, one for each seed, all measured on the same N > 1 units.

    ``influences`` are (N,) for each seed, and the figure lies between ``low`` and ``high``.  The variance is that of
    drawing other units (of the mean influence of each) plus that of other seeds, the variance of the values / S; the
    degrees of freedom are Satterthwaite's (1946).  It covers Student's interval of the S values, since three of them
    may by chance be near each other.  With one seed only other units are counted, FARTHEST of them once more, since a
    sample may lack some of the few that decide.

    Between finite ends it is Wilson's score interval with as many units as would give a share this variance (the
    effective sample size of Kish; Dean and Pagano 2015, *Evaluating confidence interval methods for binomial
    proportions in clustered surveys*).  Of a perfect score, whose variance cannot be known, that is all N of them,
    or ``units`` where they do not count alike.
    """
    mean, n, seeds = float(np.mean(values)), units or len(influences[0]), len(values)
    bounded = math.isfinite(high - low)
    rows, other = _variances(values, influences, n)
    if seeds == 1:
        rows += FARTHEST[bounded] * n / (n - 1) * float(np.abs(influences[0]).max()) ** 2
    variance = rows + other
    freedom = variance**2 / (rows**2 / (n - 1) + other**2 / max(1, seeds - 1)) if variance else n - 1
    t, apart = student(freedom + 1), student(seeds) * math.sqrt(other) if other else 0.0
    if bounded:
        share, size = (mean - low) / (high - low), high - low
        spread = share * (1 - share)
        effective = max(1.0, n * (spread + UNKNOWN / n) / (n * variance / size**2 + UNKNOWN / n))
        below, above = (low + size * end for end in wilson(share * effective, effective, t))
    else:
        below, above = mean - t * math.sqrt(variance), mean + t * math.sqrt(variance)
    return max(low, min(below, mean - apart)), min(high, max(above, mean + apart))


def student(n: float) -> float:
    """The 97.5 % point of Student's t for n values: half a 95 % interval, in standard errors."""
    from scipy.special import stdtrit  # scipy.stats takes four times as long to import

    return float(stdtrit(n - 1, 0.975))


def _variances(values: Sequence[float], influences: Sequence[np.ndarray], n: int) -> tuple[float, float]:
    """The variance of a mean over seeds by drawing other units, and by other seeds (0 for one)."""
    by_unit, seeds = np.mean(influences, axis=0), len(values)
    return n / (n - 1) * float(by_unit @ by_unit), float(np.var(values, ddof=1)) / seeds if seeds > 1 else 0.0


def of_paired_seeds(
    one: OverSeeds, other: OverSeeds, low: float = -math.inf, high: float = math.inf, units: int | None = None
) -> Interval:
    """The first figure less the second, each over seeds of its own (``of_seeds``), of two models on the same N units.

    How they are correlated is known from the influences, as if the two differed on one more unit than they do: models
    that answer alike are not surely equal.
    """
    n, sides = units or len(one[1][0]), (one, other)
    unlike = ((high - low) / n) ** 2 if math.isfinite(high - low) else 0.0
    product = math.prod(sum(_variances(*side, n)) + unlike for side in sides)
    shared = n / (n - 1) * float(np.mean(one[1], axis=0) @ np.mean(other[1], axis=0))
    p, q = (float(np.mean(values)) for values, _ in sides)
    first, second = (of_seeds(*side, low, high, n) for side in sides)
    return of_difference(p, first, q, second, shared / math.sqrt(product) if product else 0.0)


def of_each(score: Callable[[np.ndarray], tuple[float, np.ndarray]], units: Sequence[np.ndarray]) -> OverSeeds:
    """A score and its influences, of the units of each seed."""
    scored = [score(one) for one in units]
    return [value for value, _ in scored], [influence for _, influence in scored]


def of_sums(score: Callable[[np.ndarray], float], counts: np.ndarray) -> tuple[float, np.ndarray]:
    """A score of the sums of counts, (K,) -> a number, and the influence of each of N units; ``counts`` are (N, K)."""
    sums = counts.sum(axis=0).astype(np.float64)
    step = 1e-3 * np.maximum(sums, 1.0)
    slopes = [(score(sums + move) - score(sums - move)) / (2 * move.sum()) for move in np.diag(step)]
    influence = counts @ np.array(slopes)
    return score(sums), influence - influence.mean()


def ratio(units: np.ndarray) -> tuple[float, np.ndarray]:
    """Σ of the first numbers / Σ of the second of units (N, 2), 0 where that is 0, and the influence of each, (N,)."""
    one, other = units.sum(axis=0)
    value = float(one / other) if other else 0.0
    return value, (units[:, 0] - value * units[:, 1]) / (other or 1.0)


def quadratic_kappa(targets: np.ndarray, guesses: np.ndarray, levels: Sequence[float]) -> float | None:
    """Cohen's kappa, each miss weighted by its squared distance; None where all are one level."""
    values = np.array(levels)
    counts = np.zeros((len(values), len(values)))
    np.add.at(counts, (targets, guesses), 1)
    distances = (values[:, None] - values) ** 2
    expected = float((distances * np.outer(counts.sum(axis=1), counts.sum(axis=0))).sum()) / len(targets)
    return 1 - float((distances * counts).sum()) / expected if expected else None


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    """The correlation of ranks, equal values sharing the mean of theirs; 0 where one of both is constant."""
    return rank_correlation(one, other)[0]


def rank_correlation(one: np.ndarray, other: np.ndarray) -> tuple[float, np.ndarray]:
    """``spearman`` and the influence of each of N pairs of numbers, (N,), through its rank and those of the others."""
    n = len(one)
    a, b = (_ranks(values) - (n - 1) / 2 for values in (one, other))
    lengths = float((a * a).sum()), float((b * b).sum())
    if not all(lengths):
        return 0.0, np.zeros(n)
    value = float((a * b).sum()) / math.sqrt(lengths[0] * lengths[1])
    sides = zip((one, other), (a, b), lengths, strict=True)
    both = a * b + _shift(one, b) + _shift(other, a)
    parts = [(own * own + 2 * _shift(values, own)) / size for values, own, size in sides]
    influence = both / math.sqrt(lengths[0] * lengths[1]) - value / 2 * (parts[0] + parts[1])
    return value, influence - influence.mean()


def _shift(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """What each of N values adds to Σ weights · ranks by being below or above the others, per unit of N."""
    ordered = np.sort(values)
    below, upto = (np.searchsorted(ordered, values, side) for side in ("left", "right"))  # type: ignore[call-overload]
    sums = np.concatenate([[0.0], np.cumsum(weights[np.argsort(values, kind="stable")])])
    return np.asarray(sums[-1] - sums[upto] - sums[below]) / 2


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = counts.cumsum()
    return ((last - counts + last - 1) / 2)[place]


def area(scores: np.ndarray, positive: np.ndarray) -> tuple[float, np.ndarray]:
    """The area under the ROC curve of N scores, and the influence of each.

    How often one of the ``positive``, bool (N,), has the higher score than one of the others, equal scores counting
    half (Hanley and McNeil 1982); influences as DeLong et al. (1988).  Raises ValueError where one kind is missing.
    """
    m, n = int(positive.sum()), int((~positive).sum())
    if not m or not n:
        raise ValueError("the area under the curve needs rows of both kinds")
    ordered = [np.sort(scores[chosen]) for chosen in (positive, ~positive)]
    passed = [(np.searchsorted(some, scores, "left") + np.searchsorted(some, scores, "right")) / 2 for some in ordered]
    wins = np.where(positive, passed[1] / n, 1 - passed[0] / m)  # of each over those of the other kind
    value = float(wins[positive].mean())
    return value, (wins - value) / np.where(positive, m, n)
