"""Runs as points: N parameters, D tokens and a loss each; in a CSV file that others can write too, and what is refused.

Columns: ``parameters`` (N, embeddings and output matrix included), ``parameters_without_embeddings``, ``tokens`` (D)
and ``loss`` in nats for each token; other columns are allowed.  One of the two counts of parameters is enough.
"""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headway.errors import InputError, shown
from headway.science.scaling.law import compute

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
