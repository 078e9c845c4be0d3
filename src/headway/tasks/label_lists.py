"""Labels of which a text may have several: as lists in a column ("delay;cancel"), or as columns of 0 and 1."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import methodcaller

import numpy as np

from headway.data.formats.tags import listed
from headway.data.records.label_typing import composed
from headway.data.records.labels import BETWEEN, Labelled
from headway.data.records.rows import shorten
from headway.errors import InputError, shown
from headway.tasks.data_facts import DataFacts

HASHTAG = re.compile(r"#[^\s#]+")
HOLDS_LISTS = "column {0!r} holds lists of labels, {1} ({2})"
"""What ``label_lists`` finds, in words."""


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

    def targets(self, rows: Labelled, known: Sequence[str]) -> np.ndarray:
        """1 where a row has a label, else 0: float32 (N, C) of the C labels that are known.

        Raises InputError for others.
        """
        sets = [self.labels(cell) or () for cell in rows.classes]
        columns = {label: column for column, label in enumerate(known)}
        if strange := sorted({label for labels in sets for label in labels} - set(columns)):
            raise InputError(
                f"{rows.name}: has labels that the model does not know: {', '.join(map(shown, strange[:5]))}; known: "
                f"{', '.join(known[:20])}{', ...' * (len(known) > 20)}."
            )
        matrix = np.zeros((len(sets), len(columns)), dtype=np.float32)
        for row, labels in zip(matrix, sets, strict=True):
            row[[columns[label] for label in labels]] = 1
        return matrix[rows.targets]
