"""The labels of a classifier, as its ``config.json`` names them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from headway.errors import InputError
from headway.hub.directory import read_json

HALF = 0.5
"""The share of known tokens below which an answer says it."""


def labels_of(directory: Path, n_classes: int) -> list[str]:
    """The names of the classes in order; LABEL_0, LABEL_1 and so on where ``config.json`` has none.

    Raises InputError for a classifier that does not name one label for each input, and for names that are not right.
    """
    path = directory / "config.json"
    entries = read_json(path)
    kind = entries.get("problem_type")
    if kind not in (None, "single_label_classification"):
        raise InputError(
            f"{path}: problem_type is {str(kind)[:60]!r}; a classifier here names one label for each text "
            "(single_label_classification), and reading its scores so would be wrong."
        )
    if n_classes < 2:
        raise InputError(f"{path}: the model gives a number and no label; a classifier has 2 classes or more.")
    names = entries.get("id2label") or {str(i): f"LABEL_{i}" for i in range(n_classes)}
    if not isinstance(names, dict) or {str(i) for i in range(n_classes)} != set(names):
        raise InputError(f"{path}: id2label must name each of the {n_classes} classes, from 0 to {n_classes - 1}.")
    labels = [str(names[str(i)]) for i in range(n_classes)]
    if nameless := [i for i in range(n_classes) if names[str(i)] is None or not labels[i].strip()]:
        raise InputError(f"{path}: id2label has no name for class {nameless[0]}.")
    if len(set(labels)) < n_classes:
        raise InputError(f"{path}: id2label gives two classes the same name; found {', '.join(labels)}.")
    back = entries.get("label2id")
    if isinstance(back, dict) and set(back) == set(labels) and any(back[labels[i]] != i for i in range(n_classes)):
        raise InputError(f"{path}: id2label and label2id contradict each other; correct the one that is wrong.")
    return labels


def label_answers(
    labels: Sequence[str], probabilities: Tensor, known: Sequence[float] | None = None
) -> list[dict[str, Any]]:
    """{"label", "score", "scores"} for each row of probabilities (N, C): the likeliest label, and all.

    ``known`` (N,) is the share of known tokens of each text: below ``HALF`` it is in the answer, and of 0 there is no
    label.
    """
    results: list[dict[str, Any]] = []
    for row, share in zip(probabilities.tolist(), known or [1.0] * len(probabilities), strict=True):
        scores = dict(zip(labels, row, strict=True)) if share else {}
        best = max(scores, key=scores.__getitem__) if scores else None
        results.append({"label": best, "score": None if best is None else scores[best], "scores": scores})
        if 0 < share < HALF:
            results[-1]["known"] = share
    return results
