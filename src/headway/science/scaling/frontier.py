"""The best use of a budget: how many parameters on how many tokens, for C = 6 N D FLOPs."""

from typing import Any

import numpy as np

from headway.science.scaling.bootstrap import Draws, interval
from headway.science.scaling.law import FLOPS, KAPLAN_OPTIMUM, PF_DAY, PUBLISHED, Law


def optimal(law: Law, flops: Any) -> tuple[Any, Any]:
    """N and D of the least loss for C FLOPs: N = G (C / 6)^(beta / (alpha + beta)), D = (C / 6) / N.

    G = (alpha A / (beta B))^(1 / (alpha + beta)), where both terms fall alike (Hoffmann et al. 2022, equation 4).
    A law without one of the two terms has no optimum: both are nan.
    """
    alpha, beta = np.asarray(law.alpha, dtype=float), np.asarray(law.beta, dtype=float)
    pairs = np.asarray(flops, dtype=float) / FLOPS
    with np.errstate(all="ignore"):
        n = (alpha * law.A / (beta * law.B)) ** (1 / (alpha + beta)) * pairs ** (beta / (alpha + beta))
        n = np.where((n > 0) & np.isfinite(n), n, np.nan)
        return n, pairs / n


def planned(law: Law, draws: Draws, flops: float, known: bool = True) -> dict[str, Any]:
    """The best N and D for a budget, and the loss there, each with its interval; None where there is no best.

    ``known`` says whether the runs show both terms: without, what they are balanced by is noise.
    """
    n, d = optimal(law, flops)
    many = Law(*draws.laws.T)
    every_n, every_d = optimal(many, flops)
    losses = many.loss(every_n, every_d)
    fine = np.isfinite(losses)
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


def best_sizes(law: Law, flops: np.ndarray) -> dict[str, np.ndarray]:
    """The best N by a study's own law and by each published one, by its name, for budgets (n,)."""
    found = {"this study": optimal(law, flops)[0]}
    for one in PUBLISHED:
        if isinstance(one.law, Law):
            found[one.name] = optimal(one.law, flops)[0]
        else:
            scale, exponent = KAPLAN_OPTIMUM
            found[one.name] = scale * (flops / PF_DAY) ** exponent
    return found
