"""Whether a model is better than its baselines on the held-out data, decided in one place for all commands."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from headway.training.evaluation import intervals
from headway.training.evaluation.metric import MACRO_F1, Metric

BEFORE = "the model before training"
"""The name of the baseline of a run that starts from a model of its own task."""
FEW, FEW_UNITS, FEW_OF_CLASS = 30, 5, 10
"""The fewest held-out examples (accuracy, correlation, chrF) and held-out units (loss) for a verdict, and rows of each
class for one by macro F1, where the rarest class decides as much as the most common one."""

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
    worse, undecided, too few, alone (no baseline), unknown (no interval) or constant (one answer for everything).

    ``units`` and those ``of_baselines`` are what ``Objective.evaluate`` passes to ``each``, (N, 2).  Models that were
    measured on the same ones are compared unit by unit (``intervals.of_paired_seeds``), since hard units are often hard
    for both; accuracies of others as independent shares.  A difference counts where zero is outside its interval.
    """
    metric = next((one for one in headlines if is_number(metrics.get(one.key))), None)
    if metric is None:
        return {"metric": None, "result": "unknown", "against": None}
    key, kind = metric.key, metric.units
    value, n = float(metrics[key]), _count(metric, metrics, units)
    found: dict[str, Any] = {"metric": key, "value": value, "units": n, "unit": unit, "interval": None, "against": None}
    found["interval"] = _own_interval(metric, metrics, units, n)
    best = best_baseline(baselines, metric)
    constant = _is_constant(metric, metrics, units)
    if best is None:
        return {**found, "result": "constant" if constant else "alone"}
    other = float(best[key])
    theirs = (of_baselines or {}).get(str(best.get("name")))
    if theirs is not None and units is not None and len(theirs) == len(units) and value_of(metric, theirs) is not None:
        other = float(value_of(metric, theirs) or 0.0)  # on the same units, which may be some of all
    apart, paired = _difference(metric, metrics, units, theirs, other, n)
    found |= {"against": best.get("name"), "against_value": other, "difference": metric.better(value, other)}
    found |= {"difference_interval": apart, "paired": paired, "result": "unknown"}
    if too_few(metric, n):
        found["result"] = "too few"
    elif apart is not None:
        found["result"] = "better" if apart[0] > 0 else "worse" if apart[1] < 0 else "undecided"
    if constant:
        found["result"] = "constant"
    if kind == "class" and found["result"] in ("better", "undecided"):
        found["macro_f1"] = _macro_f1(metrics, baselines, units, of_baselines or {})
    return found


def too_few(metric: Metric, units: float | None) -> bool:
    """Whether so many held-out units are too few to decide by a metric."""
    return units is not None and units < (FEW_UNITS if metric.units == "loss" else FEW)


def value_of(metric: Metric, units: np.ndarray) -> float | None:
    """The metric of held-out units; None for one that is not made of them."""
    return SCORES[metric.units][0](units)[0] if metric.units in SCORES else None


def clearly_lower(after: np.ndarray, before: np.ndarray) -> bool:
    """Whether the loss on the same units has fallen by more than the standard error of the difference.

    The one-standard-error rule (Breiman et al. 1984, *Classification and Regression Trees*, 3.4.3): of models that so
    few units cannot tell apart, it takes the simplest, which in training is the earliest.
    """
    if len(after) != len(before) or len(after) < 2:
        return True
    fell, influence = intervals.ratio(np.stack([before[:, 0] - after[:, 0], after[:, 1]], axis=1))
    return fell > math.sqrt(len(after) / (len(after) - 1) * float(influence @ influence))


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
    if units is not None and kind in SCORES and kind != "class":
        return over_seeds(kind, [units])
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
        return better_over_seeds(kind, [units], [theirs]), True
    shares = float(metrics[metric.key]), other
    if kind == "class" and n and all(0 <= share <= 1 for share in shares):
        return list(intervals.of_shares(shares[0], n, other, n)), False
    return None, False


def _is_constant(metric: Metric, metrics: Figures, units: np.ndarray | None) -> bool:
    """Whether a model answers everything alike: where what is wanted differs, it has learnt nothing."""
    if metric.units == "text":
        return _of_texts(metric, metrics).get("answers") == 1
    if units is None or metric.units not in ("class", "correlation", "area") or len(units) < 2:
        return False
    same = (units == units[0]).all(axis=0)
    return bool(same[0] and not same[1])


def _of_texts(metric: Metric, metrics: Figures) -> dict[str, Any]:
    """The intervals of texts as ``evaluate`` gives them."""
    found = metrics.get("intervals")
    return found if isinstance(found, dict) and metric.units == "text" else {}


SCORES: dict[str, tuple[Callable[[np.ndarray], tuple[float, np.ndarray]], float, float]] = {
    "class": (lambda units: intervals.ratio(np.stack([units[:, 0] == units[:, 1], np.ones(len(units))], 1)), 0, 1),
    "loss": (intervals.ratio, -math.inf, math.inf),
    "quotient": (intervals.ratio, 0, 1),
    "correlation": (lambda units: intervals.rank_correlation(units[:, 0], units[:, 1]), -1, 1),
    "area": (lambda units: intervals.area(units[:, 0], units[:, 1] > 0.5), 0, 1),
    "macro": (lambda units: _macro(units), 0, 1),
}
"""By the kind of the units (N, 2): the value of all together with the influence of each, and its least and most."""


def over_seeds(kind: str, units: Sequence[np.ndarray]) -> list[float] | None:
    """The interval of a metric's mean over models that differ in their seeds, each measured on the same N units.

    ``units`` are (N, 2) for each seed, of this ``kind`` (``Metric.units``), as ``Objective.evaluate`` gives them; the
    interval is that of other rows and other seeds (``intervals.of_seeds``).  None where there is none, and for two
    seeds, which hardly show how much seeds differ: an interval would be too wide, or too narrow.
    """
    score, low, high = SCORES[kind]
    counted = _counted(kind, units)
    if counted < 2 or len(units) == 2:
        return None
    return list(intervals.of_seeds(*intervals.of_each(score, units), low, high, counted))


def better_over_seeds(kind: str, units: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> list[float] | None:
    """The interval of how much better the mean of ``units`` is than that of ``theirs``, as for ``over_seeds``.

    Both are of the same N units in the same order; the numbers of seeds may differ.  None where there is none.
    """
    counted = min(_counted(kind, units), _counted(kind, theirs)) if kind in SCORES else 0
    if counted < 2 or len(units[0]) != len(theirs[0]) or 2 in (len(units), len(theirs)):
        return None
    score, low, high = SCORES[kind]
    one, other = (intervals.of_each(score, part) for part in (units, theirs))
    bounds = intervals.of_paired_seeds(one, other, low, high, counted)
    if kind == "class" and len(units) == len(theirs) == 1:  # as sure as the exact test, where few rows decide
        right, theirs_right = (part[0][:, 0] == part[0][:, 1] for part in (units, theirs))
        more, fewer = int((right & ~theirs_right).sum()), int((~right & theirs_right).sum())
        exact = intervals.of_unlike(more, fewer, counted)
        bounds = min(bounds[0], exact[0]), max(bounds[1], exact[1])
    return [-bounds[1], -bounds[0]] if kind == "loss" else list(bounds)


def _counted(kind: str, units: Sequence[np.ndarray]) -> int:
    """How many units decide: of a quotient those that count, of classes that weigh alike C times the rarest one's."""
    one = units[0]
    if kind in ("area", "macro"):
        rows = np.unique(one[:, 1], return_counts=True)[1]
        return int(len(rows) * rows.min()) if len(rows) > 1 else 0
    return int((one[:, 1] > 0).sum()) if kind == "quotient" else len(one)


def _macro(units: np.ndarray) -> tuple[float, np.ndarray]:
    """Macro F1 over the classes that occur or are predicted, and the influence of each row."""
    predicted, true = units.astype(np.int64).T
    size, right = 1 + int(units.max()), predicted == true
    answered = predicted >= 0  # the others have no class
    both = np.bincount(predicted[answered], minlength=size) + np.bincount(true, minlength=size)
    f1 = 2 * np.bincount(true[right], minlength=size) / np.maximum(both, 1)
    present, share = int((both > 0).sum()), f1 / np.maximum(both, 1)
    influence = (2 * right / both[true] - share[true] - answered * share[predicted]) / present
    return float(f1.sum()) / present, influence


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
    line = {"against": best["name"], "value": ours, "against_value": best["macro_f1"]}
    rows = np.unique(units[:, 1], return_counts=True)[1]
    if len(rows) < 2 or rows.min() < FEW_OF_CLASS:
        return {**line, "behind": None, "fewest": int(rows.min())}
    apart = better_over_seeds("macro", [theirs], [units])
    return None if apart is None or apart[0] <= 0 else {**line, "behind": apart}


def in_order(each: Sequence[np.ndarray], order: np.ndarray | None) -> np.ndarray:
    """The units of all batches in their original order, (N, 2); ``order`` has the number of each."""
    found = np.concatenate(each)
    if order is None:
        return found
    units = np.empty_like(found)
    units[order] = found
    return units
