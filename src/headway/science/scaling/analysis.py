"""The analysis of a set of runs: the law with its intervals, the left-out run, the best sizes for a budget.

Beside the law, L(N), L(D) and L(C): how the loss falls with one of them, L = floor + K / x^exponent.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from headway.errors import InputError
from headway.science.scaling.fit import DRAWS, LEVEL, Draws, Fit, bootstrap, fit_law, interval, variable_projection
from headway.science.scaling.law import COUNTED, Law, Run, arrays, check_varied, optimal
from headway.training.evaluation.intervals import Z, student

FARTHER = 2.0
"""The left-out run should take this many times the compute of any other, so that it is a real prediction."""
ROUGH = 0.05
"""Runs that differ from the law by more, typically, do not follow it."""
APART = 0.02
"""The two ways to fit agree if their predictions for ten times the compute differ by less than this."""
CHANCE = 3.0
"""Times the median difference from the law, two standard deviations about: a term that falls by less is not seen."""
MANY, CLEAR = 16, 20.0
"""Fewer runs, or a term that falls by fewer times the spread, make intervals too narrow (benchmarks/coverage.py)."""
LEAST_FALL = 1e-5
"""Of the loss, over all runs: a term that falls by less is not there, however well the runs follow the law."""
BUDGETS = (1.0, 10.0, 100.0)
"""Times the compute of the largest run: the budgets for which the best sizes are always given."""
EXPONENTS = np.geomspace(0.02, 3.0, 160)
"""Those that are tried; between the best and its neighbours a parabola is laid."""
LEAST = 4
"""Values of x below which there is no curve: three constants go through any three."""


def analyse(
    runs: Sequence[Run], count: str, *, budgets: Sequence[float] = (), seed: int = 0, draws: int = DRAWS
) -> dict[str, Any]:
    """The results of a scaling study as ``--json`` gives them.  Raises InputError where no exponent can be given.

    The runs that are marked as held out, or else the one with the most compute, are left out of ``fit``; the largest of
    them is predicted by it and compared.  Where the others do not suffice for a law, all are fitted, and ``notes`` say
    so.  ``predicted`` answers for ``budgets`` in FLOPs, by the same fit.
    """
    marked = [run for run in runs if run.held_out]
    left_out = max(marked or runs, key=lambda run: run.compute, default=None)
    fitted = [run for run in runs if run is not left_out and not run.held_out]
    refused = []
    try:
        check_varied(fitted)
    except InputError as error:
        check_varied(runs)  # raises where all of them do not suffice
        names = ", ".join(run.name for run in runs if run.held_out or run is left_out)
        refused = [f"the held-out test is refused, and {names} is in the fit: without it {error}"]
        left_out, fitted = None, list(runs)
    n, d, loss = arrays(fitted)
    fit, check = fit_law(n, d, loss), variable_projection(n, d, loss)
    drawn = bootstrap(fit, n, d, loss, seed=seed, draws=draws)
    off = float(np.median(np.abs(fit.law.loss(n, d) - loss)))
    least = max(CHANCE * off, LEAST_FALL * float(np.median(loss)))
    falls = _falls(fit.law, n, d)
    unseen = [name for name, fall in falls.items() if fall < least]
    """what the loss does not fall with: by less, over the runs, than some of them differ from the law by"""
    largest, used = max(run.compute for run in runs), {id(run) for run in fitted}
    optimal = [planned(fit.law, drawn, times * largest, not unseen) for times in BUDGETS]
    compute = np.array([run.compute for run in fitted])
    best = lowest(compute, loss)
    results: dict[str, Any] = {
        "fit": {
            **fit.law.plain(),
            **{"intervals": drawn.intervals(fit.law), "level": LEVEL, "runs": fit.runs, "spread": fit.spread},
            **{"starts": fit.starts, "check": check.plain(), "counted": COUNTED[count]},
        },
        "held_out": None if left_out is None else _held_out(left_out, fitted, fit.law, check, drawn),
        "curves": {  # L(N) with a floor for each D, L(D) with one for each N, L(C) along the runs that none beats
            "N": fit_curve(n, loss, d, seed=seed),
            "D": fit_curve(d, loss, n, seed=seed),
            "C": fit_curve(compute[best], loss[best], seed=seed),
        },
        "optimal": optimal,
        "rows": [
            {
                **{**run.more, "name": run.name, "N": run.parameters, "tokens": run.tokens, "compute": run.compute},
                **{"loss": run.loss, "fitted": float(fit.law.loss(run.parameters, run.tokens))},
                "held_out": id(run) not in used,
            }
            for run in sorted(runs, key=lambda run: run.compute)
        ],
        "notes": [*refused, *_doubts(fit, check, optimal[1], unseen, min(falls.values()) / float(np.median(loss)))],
    }
    if budgets:
        more = [{"times_largest": flops / largest, "runs": len(fitted)} for flops in budgets]
        predicted = [planned(fit.law, drawn, flops, not unseen) for flops in budgets]
        results["predicted"] = [{**best, **one} for best, one in zip(predicted, more, strict=True)]
    return results


def _doubts(fit: Fit, check: Law, farther: dict[str, Any], unseen: Sequence[str], fall: float) -> list[str]:
    """Why the law should not be relied on, if there is a reason; ``fall`` is that of the loss by its smaller term."""
    doubts = [
        f"with {name} the loss does not fall by more than chance: that term of the law is unknown" for name in unseen
    ]
    if fit.spread > ROUGH:
        doubts.append(f"the runs differ from the law by {fit.spread:.0%}: not all of them follow it")
    if farther["loss"] is not None:
        other = float(check.loss(farther["parameters"], farther["tokens"]))
        if abs(other / farther["loss"] - 1) > APART:
            doubts.append(
                f"the two ways to fit disagree, so the law is uncertain: for {farther['compute']:.2e} FLOPs one "
                f"predicts {farther['loss']:.3f}, the other {other:.3f}"
            )
    if fit.runs < MANY or fall < CLEAR * fit.spread:
        doubts.append("the intervals are too narrow: runs so few, or so far from the law, hide how uncertain it is")
    return doubts


def _held_out(run: Run, fitted: Sequence[Run], law: Law, check: Law, drawn: Draws) -> dict[str, Any]:
    """The left-out run: the law's prediction, the measured loss, and a naive prediction."""
    predicted = float(law.loss(run.parameters, run.tokens))
    nearest = max(fitted, key=lambda other: other.compute)
    error, naive_error = (abs(guess / run.loss - 1) for guess in (predicted, nearest.loss))
    low, high = drawn.of_a_run(run.parameters, run.tokens)
    return {
        **{name: getattr(run, name) for name in ("name", "parameters", "tokens", "compute")},
        "times_compute": run.compute / nearest.compute,
        "far_enough": run.compute >= FARTHER * nearest.compute * (1 - 1e-9),
        "predicted": predicted,
        "check_predicted": float(check.loss(run.parameters, run.tokens)),
        "interval": [low, high],
        "measured": run.loss,
        **{"error": error, "naive": nearest.loss, "naive_error": naive_error},
        "better_than_naive": error < naive_error,
        "inside": low <= run.loss <= high,
    }


def _falls(law: Law, n: np.ndarray, d: np.ndarray) -> dict[str, float]:
    """By how much the law's loss falls from the least to the most of each, over the runs."""
    return {
        "parameters": law.A * (n.min() ** -law.alpha - n.max() ** -law.alpha),
        "tokens": law.B * (d.min() ** -law.beta - d.max() ** -law.beta),
    }


def planned(law: Law, draws: Draws, flops: float, known: bool = True) -> dict[str, Any]:
    """The best N and D for a budget, and the loss there, each with its interval; None where there is no best.

    ``known`` says whether the runs show both terms: without, what they are balanced by is noise.
    """
    n, d = optimal(law, flops)
    many = Law(*draws.laws.T)
    every_n, every_d = optimal(many, flops)
    losses = many.loss(every_n, every_d)
    fine = np.isfinite(every_n) & np.isfinite(losses)  # nan ** 0 is 1: a loss may be there where no size is
    if not known or fine.sum() < len(fine) / 2 or np.isnan(n):
        return {"compute": float(flops), "parameters": None, "tokens": None, "loss": None}
    return {
        "compute": float(flops),
        "parameters": float(n),
        "parameters_interval": interval(every_n[fine], float(n)),
        "tokens": float(d),
        "tokens_interval": interval(every_d[fine], float(d)),
        "loss": float(law.loss(n, d)),
        "loss_interval": interval(losses[fine], float(law.loss(n, d))),
    }


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
    before = np.minimum.accumulate(np.concatenate([[np.inf], loss[order]]))[:-1]
    frontier = np.zeros(len(loss), bool)
    frontier[order] = loss[order] < before
    return frontier
