"""The forms of a scaling law, the published ones, and the best use of a budget by them.

Letters: N parameters, D tokens trained on, C = 6 N D FLOPs, L loss in nats for each token.
"""

import csv
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headway.errors import InputError, shown

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


COUNTS = {"total": "parameters", "blocks": "parameters_without_embeddings"}
"""How N may be counted, and the column: all parameters, or those of the blocks, without embeddings and output."""
COUNTED = {
    "total": "all parameters, embeddings and output matrix included",
    "blocks": "parameters of the blocks, without embeddings and output matrix",
}
OTHER_NAMES = {
    "parameters": ("n", "params", "n_params", "model size"),
    "parameters_without_embeddings": ("n_blocks", "non_embedding_parameters"),
    "tokens": ("d", "training tokens", "n_tokens"),
    "loss": ("l", "val_loss", "validation_loss"),
}
"""What others call the columns, in small letters."""
LEAST_RUNS = 6
"""One more than the law has constants."""
LEAST_VALUES = 3
"""Of N, and of D: two show a slope and no bend."""
TOGETHER = 0.95
"""The greatest correlation of ln N and ln D at which their effects are told apart."""


@dataclass(frozen=True)
class Run:
    parameters: float
    """N, as it is counted for this fit"""
    tokens: float
    loss: float
    name: str = ""
    held_out: bool = False
    more: dict[str, Any] = field(default_factory=dict)
    """the other columns"""

    @property
    def compute(self) -> float:
        """FLOPs, 6 N D."""
        return float(compute(self.parameters, self.tokens))


def arrays(runs: Sequence[Run]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """N, D and L of runs, float64 (n,) each."""
    return tuple(np.array([getattr(run, key) for run in runs], float) for key in ("parameters", "tokens", "loss"))  # type: ignore[return-value]


def read_points(path: Path, count: str | None = None) -> tuple[list[Run], str]:
    """The runs of a CSV file, and how N is counted: as asked, else all parameters if the file says them.

    Raises InputError that names the row for what is no run.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: this is not a CSV file in UTF-8 ({error}).") from None
    if not rows:
        raise InputError(f"{path}: holds no runs; expected a header with parameters, tokens, loss and a row for each.")
    held = {column.strip().casefold(): column for column in rows[0] if column is not None}
    known = {
        key: next((held[name] for name in (key, *others) if name in held), None) for key, others in OTHER_NAMES.items()
    }
    names = {key: column for key, column in known.items() if column is not None}
    counts = [kind for kind, column in COUNTS.items() if column in names]
    if count is not None and count not in counts:
        raise InputError(f"{path}: there is no column {COUNTS[count]!r}, which --count {count} needs.")
    missing = [column for column in ("tokens", "loss") if column not in names]
    if missing or not counts:
        needed = " and ".join([*missing, *([] if counts else ["parameters"])])
        raise InputError(
            f"{path}: has no column for {needed}; found {', '.join(map(str, rows[0]))}. Expected parameters, tokens "
            "and loss (nats for each token)."
        )
    kind = count or counts[0]
    used = {"parameters": names[COUNTS[kind]], "tokens": names["tokens"], "loss": names["loss"]}
    return [_run(path, number, row, used) for number, row in enumerate(rows, start=2)], kind


def _run(path: Path, number: int, row: dict[str, Any], used: dict[str, str]) -> Run:
    values = {}
    for key, column in used.items():
        try:
            values[key] = float(row[column])
        except (TypeError, ValueError):
            values[key] = math.nan
        if not 0 < values[key] < math.inf:
            what = "missing" if row[column] is None else shown(row[column])
            raise InputError(f"{path}, row {number}: {column} is {what}; expected a number above 0.")
    more = {column: value for column, value in row.items() if column is not None}
    left_out = str(row.get("held_out") or "").strip().casefold() in ("1", "true", "yes")
    return Run(**values, name=str(row.get("name") or f"row {number}"), held_out=left_out, more=more)


def check_varied(runs: Sequence[Run]) -> None:
    """Raise InputError where the runs cannot tell what N does from what D does: no exponent is given then."""
    n, d, _ = arrays(runs)
    if len(runs) < LEAST_RUNS:
        raise InputError(
            f"{len(runs)} runs to fit are too few for a law of five constants; expected {LEAST_RUNS} or more, with "
            "numbers of parameters and of tokens varied independently."
        )
    for values, what, exponent in ((n, "numbers of parameters", "alpha"), (d, "numbers of tokens", "beta")):
        if (count := len(np.unique(values))) < LEAST_VALUES:
            raise InputError(
                f"the runs have {count} different {what}, so {exponent} cannot be known; expected {LEAST_VALUES} or "
                "more. Add runs that vary it while the other is constant."
            )
    together = float(np.corrcoef(np.log(n), np.log(d))[0, 1])
    if abs(together) > TOGETHER:
        raise InputError(
            f"parameters and tokens were varied together (the correlation of their logarithms is {together:.3f}, "
            f"above {TOGETHER}), so the loss does not say which of the two it fell by: alpha and beta are refused. Add "
            "runs of one size on several numbers of tokens, and of several sizes on one."
        )
