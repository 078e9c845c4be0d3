"""L(N), L(D) and L(C): how the loss falls with one of them, L = floor + K / x^exponent."""

from typing import Any

import numpy as np

from headway.science.scaling.bootstrap import interval
from headway.training.evaluation.intervals import Z, student

EXPONENTS = np.geomspace(0.02, 3.0, 160)
"""Those that are tried; between the best and its neighbours a parabola is laid."""
LEAST = 4
"""Values of x below which there is no curve: three constants go through any three."""


def fit_curve(
    x: np.ndarray, loss: np.ndarray, groups: np.ndarray | None = None, *, draws: int = 200, seed: int = 0
) -> dict[str, Any] | None:
    """The exponent and K of L = floor + K / x^exponent, each with its interval.

    None for too few values of x, and where the loss falls with no exponent between the ends of EXPONENTS for sure.

    Runs of one group (all with the same D, say) have a floor of their own; exponent and K are common to all.  Least
    squares: for a given exponent the rest is linear.  Intervals are by the Bayesian bootstrap by run.
    """
    groups = np.zeros(len(x), int) if groups is None else np.unique(groups, return_inverse=True)[1]
    if len(np.unique(x)) < LEAST or len(x) < groups.max() + 3:
        return None
    unit = float(np.exp(np.log(x).mean()))
    members = (groups[:, None] == np.arange(groups.max() + 1)).astype(float)  # (n, groups)
    exponent, factor, floors = _least_squares(x / unit, loss, members, np.ones((1, len(x))))
    if factor[0] <= 0:
        return None
    weights = np.random.default_rng(seed).exponential(size=(draws, len(x)))
    many, factors, _ = _least_squares(x / unit, loss, members, weights)
    free = max(1, len(x) - groups.max() - 3)
    hidden = student(free + 1) / Z * np.sqrt(len(x) / free)  # what the constants hide of the noise, as in ``bootstrap``
    many, factors = exponent * (many / exponent) ** hidden, factor * (factors / factor) ** hidden
    if not EXPONENTS[1] < interval(many)[0] <= interval(many)[1] < EXPONENTS[-2]:
        return None
    return {
        "exponent": float(exponent[0]),
        "exponent_interval": interval(many, float(exponent[0])),
        "K": float(factor[0] * unit ** exponent[0]),
        "K_interval": interval(factors * unit**many, float(factor[0] * unit ** exponent[0])),
        "floors": [float(floor) for floor in floors[0]],
        "runs": len(x),
    }


def _least_squares(
    x: np.ndarray, loss: np.ndarray, members: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Exponents (k,), K (k,) and floors (k, groups) for weights (k, n)."""
    total = weights @ members  # (k, groups)

    def parts(powers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Sums of squares about the means of the groups, and K, for powers (k or 1, p, n)."""
        mean = np.einsum("kpn,kn,ng->kpg", np.broadcast_to(powers, (len(weights), *powers.shape[1:])), weights, members)
        mean /= total[:, None]
        level = ((weights * loss) @ members) / total  # (k, groups)
        z = powers - mean @ members.T
        r = (loss - level @ members.T)[:, None]  # (k, 1, n)
        w = weights[:, None]
        factor = np.maximum((w * z * r).sum(-1) / np.maximum((w * z * z).sum(-1), 1e-300), 0.0)  # (k, p)
        return (w * (r - factor[..., None] * z) ** 2).sum(-1), factor, mean, level

    errors = parts(x[None, None] ** -EXPONENTS[None, :, None])[0]
    best = np.clip(errors.argmin(axis=1), 1, len(EXPONENTS) - 2)
    row = np.arange(len(weights))
    left, middle, right = (errors[row, best + i] for i in (-1, 0, 1))
    bend = left - 2 * middle + right
    shift = np.where(bend > 0, np.clip(0.5 * (left - right) / np.where(bend > 0, bend, 1.0), -1, 1), 0.0)
    exponent = EXPONENTS[best] * (EXPONENTS[1] / EXPONENTS[0]) ** shift
    _, factor, mean, level = parts(x[None, None] ** -exponent[:, None, None])
    return exponent, factor[:, 0], level - factor * mean[:, 0]


def lowest(compute: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """Which runs no other beats with as little compute: bool (n,), those on the frontier."""
    order = np.lexsort((loss, compute))
    found = np.zeros(len(loss), bool)
    least = np.inf
    for i in order:
        if loss[i] < least:
            found[i], least = True, loss[i]
    return found
