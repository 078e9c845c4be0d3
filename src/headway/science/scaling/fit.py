"""Fit L(N, D) = E + A / N^alpha + B / D^beta, as Hoffmann et al. 2022 (appendix D.3) did, and check it another way.

With a = ln A, b = ln B and e = ln E, ln L = LSE(a - alpha ln N, b - beta ln D, e), so A, B and E are above 0 by
themselves; ln N and ln D are counted from their means (``Frame``), where a and alpha are nearly independent.

Letters: n runs, k fits at a time, 5 constants (a, b, e, alpha, beta).
"""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from headway.science.scaling.law import CONSTANTS, Law
from headway.training.evaluation.intervals import Z, student

DELTA = 1e-3
"""Huber's: differences in ln L below it count by their square, those above by their size, so that a run that went
astray does not pull the law with it."""
POLISHED = 4
"""How many of the starts that went best are followed by L-BFGS."""
LEAST_E = np.log(1e-4)
"""ln E is not taken below this: there E is negligible next to the other two."""
STEEPEST = 3.0
"""Exponents are looked for from 0 to here."""
EXPONENTS = (0.1, 0.3, 0.6, 1.2)
"""Where the search for each of the two begins."""
DRAWS = 400
LEVEL = 0.95
"""Of the intervals."""


@dataclass(frozen=True)
class Frame:
    """Where ln N and ln D are counted from."""

    n: float
    d: float

    @staticmethod
    def of(n: np.ndarray, d: np.ndarray) -> "Frame":
        """The middle of the runs."""
        return Frame(float(np.log(n).mean()), float(np.log(d).mean()))

    def law(self, theta: np.ndarray) -> Law:
        """The law that a, b, e, alpha and beta stand for."""
        a, b, e, alpha, beta = map(float, theta)
        return Law(
            E=float(np.exp(e)), A=float(np.exp(a + alpha * self.n)), B=float(np.exp(b + beta * self.d)),
            alpha=alpha, beta=beta,
        )  # fmt: skip

    def theta(self, law: Law) -> np.ndarray:
        """a, b, e, alpha and beta of a law, float64 (5,)."""
        a, b = np.log(law.A) - law.alpha * self.n, np.log(law.B) - law.beta * self.d
        return np.array([a, b, np.log(max(law.E, 1e-300)), law.alpha, law.beta])


@dataclass(frozen=True)
class Fit:
    """A law, and how well it goes through the runs it was fitted to."""

    law: Law
    objective: float
    """the sum of Huber's loss of the differences in ln L"""
    starts: int
    spread: float
    """the typical difference in ln L: the root of the mean square, with n - 5 degrees of freedom"""
    runs: int


def fit_law(n: np.ndarray, d: np.ndarray, loss: np.ndarray) -> Fit:
    """The law that goes best through runs of N parameters and D tokens with these losses, float64 (n,) each.

    All starts are followed at once by a few Gauss-Newton steps (``refit``), the better ones further, and the best
    POLISHED by L-BFGS to the end.
    """
    from scipy.optimize import minimize

    frame, target = Frame.of(n, d), np.log(loss)
    x, y = np.log(n) - frame.n, np.log(d) - frame.d
    begun = starts(x, y, loss)
    thetas = begun
    for rounds, kept in ((8, len(begun) // 6), (30, POLISHED)):  # few steps of all, more of those that go well
        thetas = refit(x, y, np.broadcast_to(target, (len(thetas), len(target))), thetas, rounds=rounds)
        thetas = thetas[np.argsort(objective(thetas, x, y, target))[:kept]]
    bounds = [(None, None), (None, None), (LEAST_E, None), (0.0, STEEPEST), (0.0, STEEPEST)]
    best: Any = None
    for theta in thetas:
        one = minimize(
            objective_and_gradient, theta, args=(x, y, target), jac=True, method="L-BFGS-B", bounds=bounds,
            options={"maxiter": 500, "ftol": 1e-14, "gtol": 1e-10},
        )  # fmt: skip
        if best is None or one.fun < best.fun:
            best = one
    differences = predicted(best.x[None], x, y)[0] - target
    spread = float(np.sqrt((differences**2).sum() / max(1, len(n) - 5)))
    return Fit(frame.law(best.x), float(best.fun), len(begun), spread, len(n))


def starts(x: np.ndarray, y: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """Where to begin, float64 (k, 5): exponents from 0.1 to 1.2, E from a tenth to nearly all of the least loss.

    What is above E in the middle of the runs is shared between A and B in three ways.
    """
    middle = float(np.median(loss))
    thetas = []
    for part, share, alpha, beta in product((0.1, 0.5, 0.8, 0.95), (0.2, 0.5, 0.8), EXPONENTS, EXPONENTS):
        e = part * float(loss.min())
        above = max(middle - e, 1e-6)
        thetas.append([np.log(share * above), np.log((1 - share) * above), np.log(e), alpha, beta])
    return np.array(thetas)


def terms(theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ln L (k, n), and the share of each of the three terms in L (k, n, 3), of constants (k, 5)."""
    a, b, e, alpha, beta = (theta[:, i, None] for i in range(5))
    logs = np.stack([a - alpha * x, b - beta * y, np.broadcast_to(e, (len(theta), len(x)))], axis=-1)  # (k, n, 3)
    highest = logs.max(axis=-1, keepdims=True)
    parts = np.exp(logs - highest)
    total = parts.sum(axis=-1, keepdims=True)
    return (np.log(total) + highest)[..., 0], parts / total


def predicted(theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """ln L of constants (k, 5) at ln N and ln D (n,): (k, n)."""
    return terms(theta, x, y)[0]


def huber(r: np.ndarray) -> np.ndarray:
    """Huber's loss: r² / 2 up to DELTA, then DELTA (|r| - DELTA / 2)."""
    size = np.abs(r)
    return np.where(size <= DELTA, 0.5 * r * r, DELTA * (size - 0.5 * DELTA))


def objective(theta: np.ndarray, x: np.ndarray, y: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The sum of Huber's loss over the runs: (k,)."""
    return huber(predicted(theta, x, y) - target).sum(axis=-1)


def objective_and_gradient(
    theta: np.ndarray, x: np.ndarray, y: np.ndarray, target: np.ndarray
) -> tuple[float, np.ndarray]:
    """For L-BFGS: the objective at constants (5,), and its gradient (5,), both over delta."""
    value, shares = terms(theta[None], x, y)
    r = (value - target)[0]
    slope = np.clip(r, -DELTA, DELTA) / DELTA
    return float(huber(r).sum() / DELTA), slope @ _jacobian(shares, x, y)[0]


def _jacobian(shares: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """d ln L / d (a, b, e, alpha, beta): (k, n, 5)."""
    of_n, of_d, floor = shares[..., 0], shares[..., 1], shares[..., 2]
    return np.stack([of_n, of_d, floor, -of_n * x, -of_d * y], axis=-1)


def refit(
    x: np.ndarray, y: np.ndarray, targets: np.ndarray, begin: np.ndarray, rounds: int = 25, counts: Any = 1.0
) -> np.ndarray:
    """Many fits at once: constants (k, 5) for targets ln L (k, n), from ``begin`` (k, 5).

    ``counts`` (k, n) say how often each run counts in each fit.

    Levenberg and Marquardt's steps on Huber's loss as weighted squares: each difference r has the weight
    min(1, delta / |r|).  A step that makes the objective greater is not taken, and the next is shorter.
    """
    theta = np.array(begin, dtype=float)
    damping = np.full(len(theta), 1e-2)
    value, shares = terms(theta, x, y)
    cost = (counts * huber(value - targets)).sum(axis=-1)
    for _ in range(rounds):
        r = value - targets
        weights = counts * DELTA / np.maximum(np.abs(r), DELTA)
        jacobian = _jacobian(shares, x, y)
        weighted = jacobian * weights[..., None]
        square = np.matmul(weighted.transpose(0, 2, 1), jacobian)  # (k, 5, 5)
        slope = np.matmul(weighted.transpose(0, 2, 1), r[..., None])[..., 0]  # (k, 5)
        diagonal = np.einsum("kii->ki", square)
        square[:, range(5), range(5)] += damping[:, None] * np.maximum(diagonal, 1e-9)
        step = np.linalg.solve(square, slope[..., None])[..., 0]
        tried = theta - np.clip(step, -2.0, 2.0)
        tried[:, 2] = np.maximum(tried[:, 2], LEAST_E)
        tried[:, 3:] = np.clip(tried[:, 3:], 0.0, STEEPEST)
        new_value, new_shares = terms(tried, x, y)
        new_cost = (counts * huber(new_value - targets)).sum(axis=-1)
        better = new_cost < cost
        damping = np.clip(np.where(better, damping * 0.3, damping * 4.0), 1e-9, 1e6)
        theta = np.where(better[:, None], tried, theta)
        value = np.where(better[:, None], new_value, value)
        shares = np.where(better[:, None, None], new_shares, shares)
        cost = np.where(better, new_cost, cost)
    return theta


def variable_projection(n: np.ndarray, d: np.ndarray, loss: np.ndarray) -> Law:
    """The same law by least squares of L itself: for given exponents E, A and B are linear, so only two are searched.

    A check of ``fit_law``: another objective and another way to its minimum (Golub and Pereyra 1973).
    """
    from scipy.optimize import minimize, nnls

    frame = Frame.of(n, d)
    x, y = np.log(n) - frame.n, np.log(d) - frame.d

    def linear(exponents: np.ndarray) -> tuple[np.ndarray, float]:
        columns = np.stack([np.ones_like(x), np.exp(-exponents[0] * x), np.exp(-exponents[1] * y)], axis=1)
        return nnls(columns, loss)

    grid = [np.array(exponents) for exponents in product(EXPONENTS, EXPONENTS)]
    begin = min(grid, key=lambda exponents: linear(exponents)[1])
    limits = [(1e-3, STEEPEST)] * 2
    best = minimize(
        lambda exponents: linear(exponents)[1], begin, method="Nelder-Mead", bounds=limits,
        options={"xatol": 1e-6, "fatol": 1e-12, "maxiter": 2000},
    )  # fmt: skip
    (e, a, b), _ = linear(best.x)
    alpha, beta = map(float, best.x)
    return Law(float(e), float(a * np.exp(alpha * frame.n)), float(b * np.exp(beta * frame.d)), alpha, beta)


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
    """Fit again ``draws`` times to runs weighed at random, beginning from the law: the Bayesian bootstrap (Rubin 1981).

    Weights are exponential, so never 0: a second size stays where runs are few, and no shape of the noise is supposed.
    Each law is as much farther from the fit as its constants hide of the noise.
    """
    random = np.random.default_rng(seed)
    frame, target = Frame.of(n, d), np.log(loss)
    x, y = np.log(n) - frame.n, np.log(d) - frame.d
    begin = frame.theta(fit.law)
    counts = random.exponential(size=(draws, len(n)))
    refitted = refit(x, y, np.broadcast_to(target, counts.shape), np.broadcast_to(begin, (draws, 5)), counts=counts)
    free = max(1, len(n) - len(CONSTANTS))
    hidden = student(free + 1) / Z * np.sqrt(len(n) / free)
    a, b, e, alpha, beta = (begin + hidden * (refitted - begin)).T
    alpha, beta = np.maximum(alpha, 0.0), np.maximum(beta, 0.0)
    laws = np.stack([np.exp(e), np.exp(a + alpha * frame.n), np.exp(b + beta * frame.d), alpha, beta], axis=1)
    return Draws(laws, random.choice(hidden * (target - predicted(begin[None], x, y)[0]), draws))
