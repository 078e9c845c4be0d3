"""How sure a fit is: the Bayesian bootstrap by run (Rubin 1981).

Each run gets a weight drawn from the exponential distribution, the law is fitted again, and so on: what 95 of 100 such
laws say lies in the 95 % interval, each as much farther from the fit as its five constants hide of the noise.  No shape
of the noise is supposed.  Drawing runs with replacement, the usual way, may draw no second size or no second number of
tokens where runs are few; weights are never 0.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.science.scaling.fit import Fit, Frame, predicted, refit
from headway.science.scaling.law import CONSTANTS, Law
from headway.training.evaluation.intervals import Z, student

DRAWS = 400
LEVEL = 0.95
"""Of the intervals."""


@dataclass(frozen=True)
class Draws:
    """The laws of all draws, and what a single run differs from its law by."""

    laws: np.ndarray
    """(k, 5), in the order of CONSTANTS"""
    noise: np.ndarray
    """differences in ln L that single runs may have, (k,)"""

    def intervals(self, law: Law) -> dict[str, list[float]]:
        """The interval of each constant by name, of the law that was fitted."""
        return {name: interval(self.laws[:, i], getattr(law, name)) for i, name in enumerate(CONSTANTS)}

    def losses(self, n: Any, d: Any) -> np.ndarray:
        """The loss by each law: (k,) and the shape of n and d."""
        law = Law(*(column.reshape(-1, *[1] * np.ndim(n)) for column in self.laws.T))
        return np.asarray(law.loss(n, d))

    def of_a_run(self, n: float, d: float) -> list[float]:
        """Where the loss of one more run lies: by the laws, and by what runs differ from them by."""
        return interval(self.losses(n, d) * np.exp(self.noise))


def interval(values: np.ndarray, estimate: float | None = None) -> list[float]:
    """The middle part of some values, as its two ends; with the estimate, which lopsided draws may leave outside."""
    low, high = (float(end) for end in np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
    return [low, high] if estimate is None else [min(low, estimate), max(high, estimate)]


def bootstrap(fit: Fit, n: np.ndarray, d: np.ndarray, loss: np.ndarray, *, draws: int = DRAWS, seed: int = 0) -> Draws:
    """Fit again ``draws`` times to runs weighed at random, beginning from the law that was found."""
    random = np.random.default_rng(seed)
    frame, target = Frame.of(n, d), np.log(loss)
    x, y = np.log(n) - frame.n, np.log(d) - frame.d
    begin = frame.theta(fit.law)
    counts = random.exponential(size=(draws, len(n)))
    found = refit(x, y, np.broadcast_to(target, counts.shape), np.broadcast_to(begin, (draws, 5)), counts=counts)
    free = max(1, len(n) - len(CONSTANTS))
    hidden = student(free + 1) / Z * np.sqrt(len(n) / free)
    a, b, e, alpha, beta = (begin + hidden * (found - begin)).T
    alpha, beta = np.maximum(alpha, 0.0), np.maximum(beta, 0.0)
    laws = np.stack([np.exp(e), np.exp(a + alpha * frame.n), np.exp(b + beta * frame.d), alpha, beta], axis=1)
    return Draws(laws, random.choice(hidden * (target - predicted(begin[None], x, y)[0]), draws))
