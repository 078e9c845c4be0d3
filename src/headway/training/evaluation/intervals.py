"""95 % confidence intervals of metrics and of their differences.

Letters: N held-out units (rows, windows of a text, conversations), R resamples.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

Interval = tuple[float, float]

Z = 1.959963984540054
"""The 97.5 % point of the normal distribution."""
RESAMPLES = 1000


def wilson(right: float, n: int) -> Interval:
    """The score interval of a share, ``right`` of ``n`` (Wilson 1927).  Raises ValueError for no examples."""
    if n < 1:
        raise ValueError(f"n is {n}, expected 1 or more")
    p, z2 = right / n, Z * Z
    middle, half = p + z2 / (2 * n), Z * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return max(0.0, (middle - half) / (1 + z2 / n)), min(1.0, (middle + half) / (1 + z2 / n))


def of_shares(one: float, n_one: int, other: float, n_other: int) -> Interval:
    """The difference of two independent shares (Newcombe 1998, method 10)."""
    (low, high), (below, above) = wilson(one * n_one, n_one), wilson(other * n_other, n_other)
    gap = one - other
    return gap - math.hypot(one - low, above - other), gap + math.hypot(high - one, other - below)


def of_paired_shares(one: np.ndarray, other: np.ndarray) -> Interval:
    """The difference of two shares of the same N examples, bool (N,) each.

    It covers both Newcombe's score interval for paired proportions (1998, *Improved confidence intervals for the
    difference between binomial proportions based on paired data*, method 10) and the one that inverts the exact test of
    McNemar (Clopper and Pearson's for the share of the examples on which the two differ), so zero is outside only where
    the exact test rejects too.
    """
    from scipy.special import betaincinv

    n = len(one)
    a, b, c = (int(np.sum(part)) for part in (one & other, one & ~other, ~one & other))
    d = n - a - b - c
    p, q, gap = (a + b) / n, (a + c) / n, (b - c) / n
    (low, high), (below, above) = wilson(a + b, n), wilson(a + c, n)
    product = (a + b) * (c + d) * (a + c) * (b + d)
    shift = float(a * d - b * c)
    shift = max(shift - n / 2, 0.0) if shift > 0 else shift
    phi = shift / math.sqrt(product) if product else 0.0

    def half(up: float, down: float) -> float:
        return math.sqrt(max(0.0, up * up - 2 * phi * up * down + down * down))

    found = [gap - half(p - low, above - q), gap + half(high - p, q - below)]
    if m := b + c:
        least = float(betaincinv(b, c + 1, 0.025)) if b else 0.0
        most = float(betaincinv(b + 1, c, 0.975)) if c else 1.0
        found += [(2 * least - 1) * m / n, (2 * most - 1) * m / n]
    return max(-1.0, min(found)), min(1.0, max(found))


def of_mean(sums: np.ndarray, counts: np.ndarray) -> Interval:
    """A mean over targets that come in N units, sums and counts (N,) each: Σ sums / Σ counts.

    The ratio estimator of Cochran (*Sampling Techniques*, 1977, 6.3), units being drawn as a whole, with Student's t
    for N - 1 degrees of freedom.  The sums may be differences of two models on the same units, which pairs them.
    Raises ValueError for fewer than two units.
    """
    mean, error = mean_and_error(sums, counts)
    half = student(len(sums)) * error
    return mean - half, mean + half


def student(n: int) -> float:
    """The 97.5 % point of Student's t for n values: half a 95 % interval, in standard errors."""
    from scipy.special import stdtrit  # scipy.stats takes four times as long to import

    return float(stdtrit(n - 1, 0.975))


def mean_and_error(sums: np.ndarray, counts: np.ndarray) -> tuple[float, float]:
    """Σ sums / Σ counts over N units, and its standard error (Cochran 1977, 6.3).  Raises ValueError for one unit."""
    n, total = len(sums), float(counts.sum())
    if n < 2:
        raise ValueError(f"{n} units have no interval; expected 2 or more")
    mean = float(sums.sum()) / total
    apart = sums - mean * counts
    return mean, math.sqrt(n / (n - 1) * float(apart @ apart)) / total


def resampled(score: Callable[[np.ndarray], float], n: int) -> Interval:
    """The percentile bootstrap (Efron 1979): ``score`` of index arrays (N,) drawn with replacement, always the same.

    For a difference of two models on the same units it is the paired bootstrap of Koehn (2004).
    """
    draw = np.random.default_rng(0)
    found = [score(draw.integers(0, n, n)) for _ in range(RESAMPLES)]
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def of_folds(values: Sequence[float], folds: int) -> Interval:
    """The mean of a figure over repeated k-fold cross-validation, one value for each fold of each repeat.

    Folds of one table share their training rows, so their variance is multiplied by 1 / (k r) + 1 / (k - 1) (the
    corrected resampled t-test of Nadeau and Bengio 2003, for repeated folds Bouckaert and Frank 2004).
    """
    n = len(values)
    mean, spread = float(np.mean(values)), float(np.std(values, ddof=1))
    half = student(n) * spread * math.sqrt(1 / n + 1 / (folds - 1))
    return mean - half, mean + half


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    """The correlation of ranks, equal values sharing the mean of theirs; 0 where one of both is constant."""
    a, b = (_ranks(values) - (len(values) - 1) / 2 for values in (one, other))
    length = np.sqrt((a * a).sum() * (b * b).sum())
    return float((a * b).sum() / length) if length else 0.0


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = counts.cumsum()
    return ((last - counts + last - 1) / 2)[place]
