"""Labels of which a text may have several: as lists in a column ("delay;cancel"), or as columns of 0 and 1.

How they are written, which column holds them, and how good sets of labels are.  Letters: N texts, C labels.
"""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from operator import methodcaller
from typing import Any

import numpy as np

from headway.data.formats.tags import listed
from headway.data.open.columns import Column
from headway.data.records.label_typing import composed
from headway.data.records.labels import BETWEEN, Labelled
from headway.data.records.rows import shorten
from headway.errors import InputError, shown
from headway.tasks.data_facts import DataFacts

HASHTAG = re.compile(r"#[^\s#]+")
NUMBERS = re.compile(r"[\[\]\s\d.,;|eE+-]*")
HOLDS_LISTS = "column {0!r} holds lists of labels, {1} ({2})"
"""What ``label_lists`` finds, in words."""
HALF = 0.5
"""The probability from which a text has a label, where none was chosen."""


def found_labels(facts: DataFacts) -> tuple[str, ...]:
    """The column that holds lists of labels, or the columns of 0 and 1; nothing where labels are of another kind."""
    text = facts.possible_text
    if text is None:
        return ()
    named = [column for column in facts.columns if column.name == facts.label]
    likely = named if facts.label else facts.likely_labels(text)
    if len(likely) > 1:
        flags = all(one.counts is not None and {*map(str.casefold, one.counts)} <= FLAGS.keys() for one in likely)
        return tuple(column.name for column in likely) if flags else ()
    among = likely or [one for one in facts.columns if one.name != text and _may_be_lists(one)]
    lists = (one.name for one in among if label_lists(replace(facts, text=text, label=one.name)))
    return tuple(lists)[:1]


def _may_be_lists(column: Column) -> bool:
    """Whether a column is called so, or holds few values and not numbers alone: vectors, places."""
    called = column.called("list", "label")
    return column.distinct > 1 and (called or not all(map(NUMBERS.fullmatch, column.counts or "0")))


def label_lists(facts: DataFacts) -> tuple[str, str, str] | None:
    """Labels that are lists of labels, each of which occurs in several lists or alone: "delay", "delay;cancel".

    The column, how they are written, and the first list.
    """
    column = facts.column(facts.label)
    if column is None or column.numeric:
        return None
    values = sorted(set(facts.distinct(column)))
    for how, cut in LISTS.items():
        lists = {value: parts for value in values if (parts := cut(value)) is not None}
        several = [value for value, parts in lists.items() if len(parts) > 1]
        if several and len(lists) == len(values) and (cut is listed or _share_parts(lists.values())):
            return column.name, how, shorten(several[0])
    return None


def _share_parts(lists: Iterable[Sequence[str]]) -> bool:
    """Whether the parts of lists are labels that also occur in other lists."""
    cut = [[part.strip() for part in parts] for parts in lists if parts]
    several = [parts for parts in cut if len(parts) > 1]
    if len(several) < 2 or any(not part or len(part) > 40 or len(part.split()) > 4 for one in cut for part in one):
        return False
    occurs = Counter(part for parts in cut for part in set(parts))
    atoms = {part for parts in several for part in parts}
    places = {(part, at) for parts in several for at, part in enumerate(parts)}
    free = len({len(parts) for parts in cut}) > 1 or len(places) > len(atoms)  # no table of fixed places
    shared = sum(occurs[part] > 1 for part in atoms)
    reordered = len(set(map(frozenset, several))) < len(set(map(tuple, several)))  # "a, b" and "b, a"
    return free and len(atoms) > 1 and (reordered or shared >= 0.8 * len(atoms))


AS_JSON, HASHTAGS = "as JSON writes them", "as hashtags"
LISTS: dict[str, Callable[[str], list[str] | None]] = {
    AS_JSON: listed,
    **{f"separated by {sign}": methodcaller("split", sign) for sign in ";|,"},
    HASHTAGS: lambda value: words if all(map(HASHTAG.fullmatch, words := value.split())) else None,
}
"""How lists of labels are written, and what cuts one."""
FLAGS = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}
"""What columns of 0 and 1 hold, one for each label."""
PLAIN = "one label each"
"""How labels are written of which no text has two."""


@dataclass(frozen=True)
class Lists:
    """How the labels of texts are written."""

    how: str | tuple[str, ...]
    """a way of ``LISTS``, or PLAIN, or the labels that columns of 0 and 1 are for, whose cells are one (``BETWEEN``)"""

    @classmethod
    def of(cls, written: Iterable[str], columns: tuple[str, ...] = (), recorded: str | None = None) -> "Lists":
        """That of all distinct cells, unless known: JSON where most are, else as most with several labels are."""
        if columns or recorded in (PLAIN, *LISTS):
            return cls(columns or str(recorded))
        cells = list(written)
        if 2 * sum(listed(cell.strip()) is not None for cell in cells) > len(cells):
            return cls(AS_JSON)
        several = {how: sum(len(cut(cell.strip()) or ()) > 1 for cell in cells) for how, cut in LISTS.items()}
        way = max(several, key=lambda how: several[how])
        return cls(way if several[way] else PLAIN)

    def labels(self, cell: str) -> tuple[str, ...] | None:
        """The labels of a cell, each once, in alphabetical order; None for a cell that is not written so.

        Of lists only JSON can say that a text has none.
        """
        if not isinstance(self.how, str):
            flags = [FLAGS.get(flag.strip().casefold()) for flag in cell.split(BETWEEN)]
            return None if None in flags else tuple(sorted(compress(self.how, flags)))
        parts = [cell] if self.how == PLAIN else LISTS[self.how](cell.strip())
        bare = [part.strip().removeprefix("#") if self.how == HASHTAGS else part.strip() for part in parts or ()]
        labels = sorted({composed(label) for label in bare} - {""})
        return None if parts is None or not (labels or parts == []) else tuple(labels)

    def counts(self, rows: Labelled) -> dict[str, int]:
        """How many rows have each label, in alphabetical order; the rows warn of a label that all have.

        Raises InputError where there is nothing to learn.
        """
        sets = [self.labels(cell) or () for cell in rows.classes]
        counts: Counter[str] = Counter()
        for labels, count in zip(sets, rows.counts().values(), strict=True):
            counts.update(dict.fromkeys(labels, count))
        if len(set(sets)) < 2 or len(counts) < 2:
            what = "the same labels" if len(counts) > 1 else f"no label but {shown(*counts)}" if counts else "no label"
            raise InputError(f"{rows.name}: the rows have {what}: nothing to learn. Add rows with other labels.")
        everywhere = [label for label, count in counts.items() if count == len(rows)]
        rows.warnings.extend(f"every row has the label {label!r}, so it says nothing" for label in everywhere)
        return dict(sorted(counts.items()))

    def sets(self, rows: Labelled, known: Sequence[str]) -> np.ndarray:
        """Whether each distinct cell has each of the C labels that are known, bool (D, C).

        Raises InputError for others.
        """
        sets = [self.labels(cell) or () for cell in rows.classes]
        columns = {label: column for column, label in enumerate(known)}
        if strange := sorted({label for labels in sets for label in labels} - set(columns)):
            raise InputError(
                f"{rows.name}: has labels that the model does not know: {', '.join(map(shown, strange[:5]))}; known: "
                f"{', '.join(known[:20])}{', ...' * (len(known) > 20)}."
            )
        matrix = np.zeros((len(sets), len(columns)), dtype=bool)
        for row, labels in zip(matrix, sets, strict=True):
            row[[columns[label] for label in labels]] = True
        return matrix


def best_thresholds(scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The score of each label, (C,), from which F1 is the highest, half-way between those of two texts.

    ``scores`` (N, C) are higher where a label is likelier, ``targets`` (N, C) are 0 or 1.  A label that no text has
    keeps ``HALF``.
    """
    thresholds = np.full(scores.shape[1], HALF)
    for label in np.flatnonzero(targets.any(axis=0)).tolist():
        order = np.argsort(-scores[:, label], kind="stable")
        ranked, hits = scores[order, label], targets[order, label]
        f1 = 2 * hits.cumsum() / (np.arange(1, len(scores) + 1) + hits.sum())  # of the first n
        after = np.append(ranked[1:], ranked[-1] - 1e-3)
        best = np.where(ranked > after, f1, -1.0).argmax()
        thresholds[label] = (ranked[best] + after[best]) / 2
    return thresholds


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
