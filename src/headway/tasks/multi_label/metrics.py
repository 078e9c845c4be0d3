"""How good sets of labels are, and the thresholds from which a text has a label.

Letters: N texts, C labels.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

HALF = 0.5


def best_thresholds(scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The score of each label, (C,), from which F1 is the highest, half-way between those of two texts.

    ``scores`` (N, C) are higher where a label is likelier, ``targets`` (N, C) are 0 or 1.  A label that no text has
    keeps ``HALF``.
    """
    order = np.argsort(-scores, axis=0, kind="stable")
    ranked, hits = (np.take_along_axis(values, order, axis=0) for values in (scores, targets))
    f1 = 2 * hits.cumsum(axis=0) / (np.arange(1, len(scores) + 1)[:, None] + targets.sum(axis=0))  # of the first n
    after = np.concatenate([ranked[1:], ranked[-1:] - 1e-3])
    best = np.where(ranked > after, f1, -1.0).argmax(axis=0)[None]
    halfway = (np.take_along_axis(ranked, best, axis=0) + np.take_along_axis(after, best, axis=0))[0] / 2
    return np.where(targets.any(axis=0), halfway, HALF)


def set_scores(targets: np.ndarray, scores: np.ndarray, chosen: np.ndarray, labels: Sequence[str]) -> dict[str, Any]:
    """micro_f1, macro_f1, average_precision (the mean of the labels that occur), subset_accuracy and per_class.

    ``chosen``, bool (N, C), are the labels that the texts are given, by ``scores`` (N, C).
    """
    from sklearn.metrics import average_precision_score, f1_score, precision_recall_fscore_support

    each = precision_recall_fscore_support(targets, chosen, zero_division=0)
    occurs, present = targets.any(axis=0), (targets | chosen).any(axis=0)
    rows = zip(labels, *(values.tolist() for values in each), strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of labels that every text has
        average = average_precision_score(targets[:, occurs], scores[:, occurs]) if occurs.any() else 0.0
    return {
        "micro_f1": float(f1_score(targets, chosen, average="micro", zero_division=0)),
        "macro_f1": float(each[2][present].mean()) if present.any() else 0.0,
        "average_precision": float(average),
        "subset_accuracy": float((chosen == targets).all(axis=1).mean()),
        "per_class": {name: {"precision": p, "recall": r, "f1": f, "support": n} for name, p, r, f, n in rows},
    }


def set_units(targets: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """For micro F1, of each text: twice the labels that are right, and all that are given or wanted; float64 (N, 2)."""
    return np.stack([2.0 * (targets * chosen).sum(axis=1), (targets + chosen).sum(axis=1)], axis=1)
