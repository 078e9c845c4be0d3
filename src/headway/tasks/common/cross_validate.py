"""A small table is judged by repeated stratified cross-validation of what is cheap to repeat.

Of a few dozen rows so few are held out that they say nothing.  The baselines, and logistic regression on a pretrained
model's vectors, take moments to fit, so every row can be held out in turn, again and again; a model that is trained or
tuned step by step cannot be repeated so, and is not judged by it.  Intervals are those of as many rows, each held out
once: repeats show each row again, not other rows.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headway.data.records.repeats import text_key
from headway.tasks.common.linear import linear_guess, most_frequent
from headway.training.evaluation import intervals

MOST_ROWS = 1000
"""Rows of the largest table that is judged so."""
FOLDS, REPEATS, LEAST_REPEATS = 5, 10, 2

Guess = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""The classes that a model gives rows, by the numbers of the rows it is fitted on and of those it is to guess."""


def cross_validated(
    texts: Sequence[str], targets: Sequence[int], others: dict[str, Guess], *, seconds: float | None = None
) -> dict[str, Any] | None:
    """What headway.json says as ``cross_validation``: the baselines and ``others`` by name, accuracy and interval.

    ``difference`` is that of the last of ``others``, or of the linear model, to the best of those before it.  At most
    REPEATS repeats are made, fewer where ``seconds`` are over.  None where a class has a single text.
    """
    y = np.asarray(targets)
    folds = min(FOLDS, min(len(set(map(text_key, group))) for group in _by_class(texts, y)))
    if folds < 2:
        return None
    most = most_frequent(y)  # of all rows: of equal classes the rest of a fold has the fewer
    models: dict[str, Guess] = {
        "majority class": lambda train, rest: np.full(len(rest), most),
        "linear model": lambda train, rest: linear_guess(
            [texts[i] for i in train.tolist()], y[train].tolist(), [texts[i] for i in rest.tolist()]
        ),
        **others,
    }
    by_row = {name: np.zeros(len(y)) for name in models}
    began, repeats = time.monotonic(), 0
    while repeats < REPEATS:
        for train, rest in _split(texts, y, folds, repeats):
            for name, guess in models.items():
                by_row[name][rest] += guess(train, rest) == y[rest]
        repeats += 1
        if repeats >= LEAST_REPEATS and seconds is not None and time.monotonic() - began > seconds:
            break
    means = {name: float(by_row[name].mean()) / repeats for name in models}
    n, t = len(y), intervals.student(len(y))
    ends = {name: intervals.wilson(mean * n, n, t) for name, mean in means.items()}
    lines = [{"name": name, "accuracy": means[name], "interval": list(ends[name])} for name in models]
    *before, last = models
    rival = max(before, key=lambda name: means[name])
    one, other = (by_row[name] / repeats - means[name] for name in (last, rival))
    alike = float(one @ other / np.sqrt((one @ one + 1) * (other @ other + 1)))  # as if one more row were not
    found = intervals.of_difference(means[last], ends[last], means[rival], ends[rival], alike)
    return {
        "rows": n,
        "folds": folds,
        "repeats": repeats,
        "models": lines,
        "difference": {"of": last, "over": rival, "value": means[last] - means[rival], "interval": list(found)},
    }


def _by_class(texts: Sequence[str], y: np.ndarray) -> list[list[str]]:
    return [[texts[i] for i in np.flatnonzero(y == label).tolist()] for label in np.unique(y)]


def _split(texts: Sequence[str], y: np.ndarray, folds: int, seed: int) -> Any:
    """Rows to fit on and rows to guess, for each fold; every class in each, equal texts on one side."""
    from sklearn.model_selection import StratifiedGroupKFold

    keys = [text_key(text) for text in texts]
    return StratifiedGroupKFold(folds, shuffle=True, random_state=seed).split(np.zeros(len(y)), y, keys)
