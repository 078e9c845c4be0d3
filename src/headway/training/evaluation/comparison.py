"""Whether a model is better than its baselines on the held-out data, decided in one place for all commands.

Models that were measured on the same held-out units are compared unit by unit, since hard units are often hard
for both: accuracies by the paired intervals of ``intervals.of_paired_shares``, losses by the mean difference over the
units (``intervals.of_mean``), rank correlations, macro F1, quotients and chrF by the paired bootstrap.  Where it
is not known how the examples pair, accuracies are compared as independent shares (``intervals.of_shares``).  A
difference counts only where zero is outside its interval of 95 %.

Units are the results that ``Objective.evaluate`` passes to ``each``: arrays (N, 2).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from headway.training.evaluation import intervals
from headway.training.evaluation.metric import MACRO_F1, Metric

BEFORE = "the model before training"
"""The name of the baseline of a run that starts from a model of its own task."""
FEW, FEW_UNITS = 30, 5
"""The fewest held-out examples (accuracy, correlation, chrF) and held-out units (loss) for a verdict."""

Figures = Mapping[str, Any]


def judged(
    headlines: Sequence[Metric],
    metrics: Figures,
    baselines: Iterable[Figures],
    *,
    units: np.ndarray | None = None,
    of_baselines: Mapping[str, np.ndarray] | None = None,
    unit: str | None = None,
) -> dict[str, Any]:
    """What ``headway.json`` and ``--json`` say as ``verdict``, by the first of ``headlines`` that was measured.

    ``metric``, its ``value`` and 95 % ``interval``, on so many ``units`` (a ``unit`` is a row, a window ...);
    ``against`` (the best baseline, or None), its ``against_value``, by how much the model is better (``difference``,
    above 0 where it is), the ``difference_interval``, and whether that is ``paired``; and the ``result``: better,
    worse, undecided, too few, alone (no baseline) or unknown (no interval).
    """
    metric = next((one for one in headlines if is_number(metrics.get(one.key))), None)
    if metric is None:
        return {"metric": None, "result": "unknown", "against": None}
    key, kind = metric.key, metric.units
    value, n = float(metrics[key]), _count(metric, metrics, units)
    found: dict[str, Any] = {"metric": key, "value": value, "units": n, "unit": unit, "interval": None, "against": None}
    found["interval"] = _own_interval(metric, metrics, units, n)
    best = best_baseline(baselines, metric)
    if best is None:
        return {**found, "result": "alone"}
    other = float(best[key])
    theirs = (of_baselines or {}).get(str(best.get("name")))
    apart, paired = _difference(metric, metrics, units, theirs, other, n)
    found |= {"against": best.get("name"), "against_value": other, "difference": metric.better(value, other)}
    found |= {"difference_interval": apart, "paired": paired, "result": "unknown"}
    if n is not None and n < (FEW_UNITS if kind == "loss" else FEW):
        found["result"] = "too few"
    elif apart is not None:
        found["result"] = "better" if apart[0] > 0 else "worse" if apart[1] < 0 else "undecided"
    if kind == "class" and found["result"] in ("better", "undecided"):
        found["macro_f1"] = _macro_f1(metrics, baselines, units, of_baselines or {})
    return found


def gain(before: np.ndarray, after: np.ndarray, metric: Metric) -> list[float] | None:
    """The interval of a model's improvement between two evaluations of the same units."""
    return _paired(metric.units, after, before)


def clearly_lower(after: np.ndarray, before: np.ndarray) -> bool:
    """Whether the loss on the same units has fallen by more than the standard error of the difference.

    The one-standard-error rule (Breiman et al. 1984, *Classification and Regression Trees*, 3.4.3): of models that so
    few units cannot tell apart, it takes the simplest, which in training is the earliest.
    """
    if len(after) != len(before) or len(after) < 2:
        return True
    fell, error = intervals.mean_and_error(before[:, 0] - after[:, 0], after[:, 1])
    return fell > error


def best_baseline(baselines: Iterable[Figures], metric: Metric) -> Figures | None:
    """The baseline with the best finite value of a metric, or None."""
    known = [line for line in baselines if is_number(line.get(metric.key))]
    return max(known, key=lambda line: metric.better(line[metric.key], 0.0), default=None)


def is_number(value: Any) -> bool:
    """Whether a value of a file is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _count(metric: Metric, metrics: Figures, units: np.ndarray | None) -> int | None:
    """The number of units of a metric, where it is known."""
    if metric.units == "text":
        written = metrics.get("written")
        return int(written) if is_number(written) else None  # type: ignore[arg-type]
    if units is not None:
        return len(units)
    return examples_of(metrics) if metric.units == "class" else None


def examples_of(metrics: Figures) -> int | None:
    """The number of examples in the confusion matrix or the table of classes; None where there is neither."""
    classes = metrics.get("per_class")
    lines = classes.values() if isinstance(classes, dict) else ()
    counted = sum(int(line["support"]) for line in lines if isinstance(line, dict) and is_number(line.get("support")))
    rows = metrics.get("confusion") if not counted else None  # which lacks the rows without a label
    if isinstance(rows, list):
        counted = int(sum(cell for row in rows if isinstance(row, list) for cell in row if is_number(cell)))
    return counted or None


def _own_interval(metric: Metric, metrics: Figures, units: np.ndarray | None, n: int | None) -> list[float] | None:
    """The interval of the model's own metric."""
    kind, value = metric.units, float(metrics[metric.key])
    if kind == "class" and n and 0 <= value <= 1:
        return list(intervals.wilson(value * n, n))
    if kind == "loss" and units is not None and len(units) > 1:
        return list(intervals.of_mean(units[:, 0], units[:, 1]))
    if kind in SCORES and units is not None and len(units) > 1:
        return list(intervals.resampled(lambda at: SCORES[kind](units[at]), len(units)))
    return _of_texts(metric, metrics).get("interval")


def _difference(
    metric: Metric,
    metrics: Figures,
    units: np.ndarray | None,
    theirs: np.ndarray | None,
    other: float,
    n: int | None,
) -> tuple[list[float] | None, bool]:
    """The interval of how much better the model is than a baseline, and whether the two are paired."""
    kind = metric.units
    if kind == "text":
        return _of_texts(metric, metrics).get("difference_interval"), True
    if units is not None and theirs is None and kind == "loss":  # the same for every target: uniform guessing
        theirs = np.stack([other * units[:, 1], units[:, 1]], axis=1)
    if units is not None and theirs is not None and len(units) == len(theirs) > 1:
        return _paired(kind, units, theirs), True
    shares = float(metrics[metric.key]), other
    if kind == "class" and n and all(0 <= share <= 1 for share in shares):
        return list(intervals.of_shares(shares[0], n, other, n)), False
    return None, False


def _paired(kind: str, units: np.ndarray, theirs: np.ndarray) -> list[float] | None:
    """The interval of how much better ``units`` are than ``theirs``, on the same held-out data."""
    if len(units) != len(theirs) or len(units) < 2:
        return None
    if kind == "class":  # right where predicted and true class, or rank and 1, are equal
        return list(intervals.of_paired_shares(units[:, 0] == units[:, 1], theirs[:, 0] == theirs[:, 1]))
    if kind == "loss":
        return list(intervals.of_mean(theirs[:, 0] - units[:, 0], units[:, 1]))
    if score := SCORES.get(kind):
        return list(intervals.resampled(lambda at: score(units[at]) - score(theirs[at]), len(units)))
    return None


def _of_texts(metric: Metric, metrics: Figures) -> dict[str, Any]:
    """The intervals of texts as ``evaluate`` gives them."""
    found = metrics.get("intervals")
    return found if isinstance(found, dict) and metric.units == "text" else {}


def _quotient(units: np.ndarray) -> float:
    """Σ of the first numbers / Σ of the second; 0 where the second is 0."""
    one, other = units.sum(axis=0)
    return float(one / other) if other else 0.0


def _spearman(units: np.ndarray) -> float:
    return intervals.spearman(units[:, 0], units[:, 1])


SCORES = {"correlation": _spearman, "quotient": _quotient}
"""Metrics of all units together, by the kind of the units."""


def _macro_f1(
    metrics: Figures, baselines: Iterable[Figures], units: np.ndarray | None, of_baselines: Mapping[str, np.ndarray]
) -> dict[str, Any] | None:
    """A baseline with significantly better macro F1, which weighs rare classes like common ones."""
    ours, best = metrics.get("macro_f1"), best_baseline(baselines, MACRO_F1)
    theirs = None if best is None else of_baselines.get(str(best.get("name")))
    if not is_number(ours) or best is None or units is None or theirs is None or len(units) != len(theirs):
        return None
    if float(best["macro_f1"]) <= float(ours):  # type: ignore[arg-type]
        return None
    n_classes = 1 + int(max(units.max(), theirs.max()))

    def score(part: np.ndarray) -> float:
        """Macro F1 over the classes that occur or are predicted."""
        predicted, true = part[:, 0].astype(np.int64), part[:, 1].astype(np.int64)
        hits = np.bincount(true[predicted == true], minlength=n_classes)
        both = np.bincount(predicted[predicted >= 0], minlength=n_classes) + np.bincount(true, minlength=n_classes)
        return float((2 * hits[both > 0] / both[both > 0]).mean())

    low, high = intervals.resampled(lambda at: score(theirs[at]) - score(units[at]), len(units))
    if low <= 0:
        return None
    return {"against": best["name"], "value": ours, "against_value": best["macro_f1"], "behind": [low, high]}


def in_order(each: Sequence[np.ndarray], order: np.ndarray | None) -> np.ndarray:
    """The units of all batches in their original order, (N, 2); ``order`` has the number of each."""
    found = np.concatenate(each)
    if order is None:
        return found
    units = np.empty_like(found)
    units[order] = found
    return units
