"""The forms of a scaling law, the published ones, and the best use of a budget by them.

Letters: N parameters, D tokens trained on, C = 6 N D FLOPs, L loss in nats for each token.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

FLOPS = 6.0
"""FLOPs of training for each parameter and token: a forward pass takes 2 and a backward pass 4 (Kaplan et al. 2020)."""

CONSTANTS = ("E", "A", "B", "alpha", "beta")
"""The constants of the joint form, in the order in which they are reported."""


@dataclass(frozen=True)
class Law:
    """L(N, D) = E + A / N^alpha + B / D^beta (Hoffmann et al. 2022, equation 2).

    E is what no model of this kind gets below, A / N^alpha what a finite model lacks, B / D^beta what finite data cost.
    """

    E: float
    A: float
    B: float
    alpha: float
    beta: float

    def loss(self, n: Any, d: Any) -> Any:
        """Nats per token of N parameters trained on D tokens; arrays of one shape give an array."""
        return self.E + self.A / np.power(n, self.alpha) + self.B / np.power(d, self.beta)

    def plain(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True)
class Kaplan:
    """L(N, D) = [(Nc / N)^(alpha / beta) + Dc / D]^beta (Kaplan et al. 2020, equation 1.5); N without embeddings."""

    Nc: float
    Dc: float
    alpha: float
    beta: float

    def loss(self, n: Any, d: Any) -> Any:
        """Nats per token of N parameters trained on D tokens."""
        return (np.power(self.Nc / n, self.alpha / self.beta) + self.Dc / d) ** self.beta


PUBLISHED: dict[str, Law | Kaplan] = {
    "Kaplan et al. 2020": Kaplan(6.4e13, 1.8e13, 0.076, 0.103),
    "Hoffmann et al. 2022": Law(1.69, 406.4, 410.7, 0.34, 0.28),
    "Besiroglu et al. 2024": Law(1.8172, 482.01, 2085.43, 0.3478, 0.3658),
}
"""Kaplan: table 2, N without embeddings, 770 to 1.5e9; Hoffmann ("Chinchilla"): appendix D.3, N with embeddings, 4.4e7
to 1.6e10; Besiroglu: a new fit to the runs in Hoffmann's figure 4.

Their losses are those of other texts, cut into other tokens: exponents and the best tokens for each parameter can be
compared with your own, losses cannot.
"""

KAPLAN_OPTIMUM = (1.3e9, 0.73)
"""Kaplan et al. 2020, table 6: the best N is 1.3e9 C^0.73, with C in PF-days.

Their joint form was fitted to runs stopped early and does not give this by itself.
"""
PF_DAY = 8.64e19
"""FLOPs of a PF-day."""


def compute(n: Any, d: Any) -> Any:
    """FLOPs of training N parameters on D tokens, about: 6 N D."""
    return FLOPS * n * d


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


def best_sizes(law: Law, flops: np.ndarray) -> dict[str, np.ndarray]:
    """The best N by a study's own law and by each published one, by its name, for budgets (n,)."""
    sizes = {"this study": optimal(law, flops)[0]}
    for name, published in PUBLISHED.items():
        scale, exponent = KAPLAN_OPTIMUM
        known = optimal(published, flops)[0] if isinstance(published, Law) else scale * (flops / PF_DAY) ** exponent
        sizes[name] = known
    return sizes
