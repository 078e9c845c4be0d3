"""The analysis of a set of runs: the law with its intervals, the left-out run, the best sizes for a budget."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from headway.errors import InputError
from headway.science.scaling.bootstrap import DRAWS, LEVEL, Draws, bootstrap
from headway.science.scaling.curves import fit_curve, lowest
from headway.science.scaling.fit import Fit, fit_law, variable_projection
from headway.science.scaling.frontier import planned
from headway.science.scaling.points import COUNTED, Run, arrays, check_varied

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
    fit, drawn = _fitted(fitted, seed, draws)
    unseen = _unseen(fit, fitted)
    largest, used = max(run.compute for run in runs), {id(run) for run in fitted}
    found: dict[str, Any] = {
        "fit": _fit_facts(fit, drawn, fitted, count),
        "held_out": None if left_out is None else _held_out(fit, drawn, left_out, fitted),
        "curves": _curves(fitted, seed),
        "optimal": [planned(fit.law, drawn, times * largest, not unseen) for times in BUDGETS],
        "rows": [_row(run, fit, id(run) not in used) for run in sorted(runs, key=lambda run: run.compute)],
    }
    found["notes"] = [*refused, *_doubts(fit, fitted, unseen, found["optimal"][1])]
    if budgets:
        found["predicted"] = [
            {**planned(fit.law, drawn, flops, not unseen), "times_largest": flops / largest, "runs": len(fitted)}
            for flops in budgets
        ]
    return found


def _fitted(runs: Sequence[Run], seed: int, draws: int) -> tuple[Fit, Draws]:
    n, d, loss = arrays(runs)
    fit = fit_law(n, d, loss)
    return fit, bootstrap(fit, n, d, loss, seed=seed, draws=draws)


def _fit_facts(fit: Fit, drawn: Draws, runs: Sequence[Run], count: str) -> dict[str, Any]:
    return {
        **fit.law.plain(),
        "intervals": drawn.intervals(fit.law),
        "level": LEVEL,
        "runs": len(runs),
        "spread": fit.spread,
        "starts": fit.starts,
        "check": variable_projection(*arrays(runs)).plain(),
        "counted": COUNTED[count],
    }


def _falls(fit: Fit, runs: Sequence[Run]) -> dict[str, float]:
    """By how much the law's loss falls from the least to the most of each, over the runs."""
    n, d, _ = arrays(runs)
    law = fit.law
    return {
        "parameters": law.A * (n.min() ** -law.alpha - n.max() ** -law.alpha),
        "tokens": law.B * (d.min() ** -law.beta - d.max() ** -law.beta),
    }


def _unseen(fit: Fit, runs: Sequence[Run]) -> list[str]:
    """What the loss does not fall with: by less, over the runs, than some of them differ from the law by."""
    n, d, loss = arrays(runs)
    least = max(CHANCE * float(np.median(np.abs(fit.law.loss(n, d) - loss))), LEAST_FALL * float(np.median(loss)))
    return [name for name, fall in _falls(fit, runs).items() if fall < least]


def _doubts(fit: Fit, runs: Sequence[Run], unseen: Sequence[str], farther: dict[str, Any]) -> list[str]:
    """Why the law should not be relied on, if there is a reason."""
    doubts = [f"with {name} the loss does not fall by more than chance: that term of the law is unknown"
              for name in unseen]  # fmt: skip
    if fit.spread > ROUGH:
        doubts.append(f"the runs differ from the law by {fit.spread:.0%}: not all of them follow it")
    if farther["loss"] is not None:
        other = float(variable_projection(*arrays(runs)).loss(farther["parameters"], farther["tokens"]))
        if abs(other / farther["loss"] - 1) > APART:
            doubts.append(
                f"the two ways to fit disagree, so the law is uncertain: for {farther['compute']:.2e} FLOPs one "
                f"predicts {farther['loss']:.3f}, the other {other:.3f}"
            )
    if len(runs) < MANY or min(_falls(fit, runs).values()) < CLEAR * fit.spread * float(np.median(arrays(runs)[2])):
        doubts.append("the intervals are too narrow: runs so few, or so far from the law, hide how uncertain it is")
    return doubts


def _held_out(fit: Fit, drawn: Draws, run: Run, fitted: Sequence[Run]) -> dict[str, Any]:
    """The left-out run: the law's prediction, the measured loss, and a naive prediction."""
    predicted = float(fit.law.loss(run.parameters, run.tokens))
    nearest = max(fitted, key=lambda other: other.compute)
    error, naive_error = (abs(guess / run.loss - 1) for guess in (predicted, nearest.loss))
    low, high = drawn.of_a_run(run.parameters, run.tokens)
    return {
        "name": run.name,
        "parameters": run.parameters,
        "tokens": run.tokens,
        "compute": run.compute,
        "times_compute": run.compute / nearest.compute,
        "far_enough": run.compute >= FARTHER * nearest.compute * (1 - 1e-9),
        "predicted": predicted,
        "check_predicted": float(variable_projection(*arrays(fitted)).loss(run.parameters, run.tokens)),
        "interval": [low, high],
        "measured": run.loss,
        "error": error,
        "naive": nearest.loss,
        "naive_error": naive_error,
        "better_than_naive": error < naive_error,
        "inside": low <= run.loss <= high,
    }


def _curves(runs: Sequence[Run], seed: int) -> dict[str, Any]:
    """L(N) with a floor for each D, L(D) with a floor for each N, and L(C) along the runs that no other beats."""
    n, d, loss = arrays(runs)
    compute = np.array([run.compute for run in runs])
    best = lowest(compute, loss)
    return {
        "N": fit_curve(n, loss, d, seed=seed),
        "D": fit_curve(d, loss, n, seed=seed),
        "C": fit_curve(compute[best], loss[best], seed=seed),
    }


def _row(run: Run, fit: Fit, left_out: bool) -> dict[str, Any]:
    return {
        **run.more,
        "name": run.name,
        "N": run.parameters,
        "tokens": run.tokens,
        "compute": run.compute,
        "loss": run.loss,
        "fitted": float(fit.law.loss(run.parameters, run.tokens)),
        "held_out": left_out,
    }
