"""One label for each input: the names of the labels, and the answers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from headway.errors import InputError
from headway.hub.directory import read_json
from headway.hub.fine_tune import named_classes
from headway.hub.kept_entries import kept
from headway.models.heads import Gives
from headway.tasks.answers import Label
from headway.tasks.task import TaskInputs

HALF = 0.5
"""The share of known tokens below which an answer says it."""


ONE_LABEL = "single_label_classification"
"""``problem_type`` of a classifier that names one label for each input; it is often left out."""


def labels_of(directory: Path, n_classes: int, problem: str | None = None) -> list[str]:
    """The names of the classes in order; LABEL_0, LABEL_1 and so on where ``config.json`` has none.

    Raises InputError for a classifier for another ``problem`` (``TaskSpec.problem``; None: one label for each input),
    and for names that are not right.
    """
    path = directory / "config.json"
    entries = read_json(path)
    kind = entries.get("problem_type")
    if (kind or ONE_LABEL) != (problem or ONE_LABEL):
        raise InputError(
            f"{path}: problem_type is {str(kind)[:60]!r}, expected {problem or ONE_LABEL}: reading "
            "its scores as those of another kind of classifier would be wrong."
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


def likeliest(scores: dict[str, float]) -> Label:
    """The answer that names the likeliest label; none where there are no scores."""
    best = max(scores, key=scores.__getitem__, default=None)
    return {"label": best, "score": None if best is None else scores[best], "scores": scores}


def label_answers(
    labels: Sequence[str],
    probabilities: Tensor,
    known: Sequence[float] | None = None,
    named: Callable[[dict[str, float]], Any] = likeliest,
) -> list[Any]:
    """The answer for each row of probabilities (N, C), which ``named`` makes of those by label.

    ``known`` (N,) is the share of known tokens of each text: below ``HALF`` it is in the answer, and of 0 there are no
    scores.
    """
    answers = []
    for row, share in zip(probabilities.tolist(), known or [1.0] * len(probabilities), strict=True):
        answers.append(named(dict(zip(labels, row, strict=True)) if share else {}))
        if 0 < share < HALF:
            answers[-1]["known"] = share
    return answers


def continued_classes(
    given: TaskInputs, classes: Sequence[str], what: Gives, problem: str | None = None
) -> tuple[list[str], bool]:
    """The classes of a model that learns ``classes``, in order, and whether its head is a new one.

    A base for the same ``problem`` (``TaskSpec.problem``) that gives ``what`` and knows all of them by their names
    keeps its head, and with it all its classes in their order.  A run that is resumed has the classes that it began
    with.
    """
    known = [] if given.base is None else named_classes(given.base.model, what)
    if given.base is not None and (kept(given.base.model, "problem_type") or ONE_LABEL) != (problem or ONE_LABEL):
        known = []
    labels = (given.earlier or {}).get("labels") or known
    labels = list(labels if set(classes) <= set(labels) else classes)
    return labels, labels != known
