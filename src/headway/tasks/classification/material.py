"""Small data for a few steps of training a classifier: texts with each of its labels."""

from collections.abc import Iterable
from typing import Any

from headway.data.records.label_typing import recorded
from headway.data.records.labels import labelled
from headway.data.records.table import Table
from headway.tasks.common.material import LABEL, LONGEST_TEXT, ROWS, TEXT, Material, MaterialInputs, table
from headway.training.options import TrainOptions


def beginning(source: Table, found: Any, options: TrainOptions, given: MaterialInputs) -> Material:
    """The first texts with each label.  Raises InputError for a row that is wrong where ``options`` do not skip it."""
    labels = labelled(
        source, found.text_column, found.label_column, on_bad_row=options.data.on_bad_row, merging=recorded(given.facts)
    )
    most = max(4, ROWS // len(labels.classes))
    chosen = _first_of_each(zip(labels.texts, labels.labels, strict=True), most)
    return table([{TEXT: text[:LONGEST_TEXT], LABEL: label} for text, label in chosen], given.folder)


def _first_of_each(rows: Iterable[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """The first ``most`` texts with each label, in their order; a text that was there before is left out."""
    counts: dict[str, int] = {}
    seen: set[str] = set()
    found = []
    for text, label in rows:
        if text not in seen and counts.get(label, 0) < most:
            seen.add(text)
            counts[label] = counts.get(label, 0) + 1
            found.append((text, label))
    return found
