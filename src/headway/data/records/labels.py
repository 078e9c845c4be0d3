"""Texts with labels, checked before training: what is missing, what contradicts itself, what leaks."""

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from headway.data.open.columns import NUMBER, number
from headway.data.records.label_typing import Merging, apart, composed, suggestion
from headway.data.records.repeats import group_numbers, text_hashes
from headway.data.records.rows import SKIP_SHARE, Chunk, check_policy, check_skipped, missing_column, shorten
from headway.data.records.table import Table
from headway.data.records.text_rows import FIRST, Growing, TextChecks, TextRows
from headway.errors import InputError
from headway.io.quantities import counted

RARE = 10
"""A class of fewer rows is warned about."""
HEAVIEST = 1e9
"""The largest weight of a row."""
BETWEEN = "\x1f"
"""What stands between the cells of several label columns of a row."""


class Classed:
    """Rows that have a class each."""

    classes: list[str]
    """The distinct labels in alphabetical order."""
    targets: np.ndarray
    """The number of each row's label among the classes, int32 (N,)."""

    @property
    def labels(self) -> list[str]:
        """The label of each row."""
        return [self.classes[target] for target in self.targets]

    def numbered(self, classes: Sequence[str]) -> np.ndarray:
        """The number of each row's label among other classes, which have all of them, int32 (N,)."""
        place = {name: at for at, name in enumerate(classes)}
        return np.array([place.get(name, -1) for name in self.classes], dtype=np.int32)[self.targets]


@dataclass(frozen=True)
class Labelled(Classed, TextRows):
    """Rows that have a text, or two, and a label."""

    classes: list[str]
    targets: np.ndarray
    are_values: bool = False
    """Whether the labels are values, of which there may be any number."""
    weights: np.ndarray | None = None
    """How much each row counts in training, float32 (N,), where they differ."""

    @property
    def strata(self) -> np.ndarray:
        return super().strata if self.are_values else self.targets

    @property
    def texts(self) -> list[str]:
        """The texts, held in memory."""
        return list(self)

    def weighed(self, column: str) -> "Labelled":
        """The same rows with the weights of a column.  Raises InputError for what is no number from 0 to HEAVIEST."""
        try:
            cells = (cell for (cell,) in self.table.cells([column], self.index))
            weights = np.fromiter(map(number, cells), np.float64, len(self))
        except KeyError:
            raise missing_column(self.name, column, self.table.columns) from None
        wrong = np.flatnonzero(~((weights >= 0) & (weights <= HEAVIEST)))
        if len(wrong):
            rows = self.index[wrong]
            (cell,) = next(self.table.cells([column], rows))
            raise InputError(
                f"{self.name}: column {column!r} holds {shorten(cell)} ({self.table.places(rows.tolist())}); the "
                f"weight of a row is a number from 0 to {HEAVIEST:g}."
            )
        return replace(self, weights=weights.astype(np.float32))

    def counts(self) -> dict[str, int]:
        """How many rows each class has."""
        return dict(zip(self.classes, np.bincount(self.targets, minlength=len(self.classes)).tolist(), strict=True))


def label_counts(table: Table, label_column: str, as_text: bool = False) -> Counter[str]:
    """How many rows have each label in NFC, without the blank space around it unless ``as_text``."""
    table.check_column(label_column)
    (column,) = table.judged(label_column)
    counts = None if as_text else column.counts
    if counts is None:
        counts = Counter(cell if as_text else cell.strip() for cell in table.values(label_column) if cell.strip())
    composed_counts: Counter[str] = Counter()
    for label, count in counts.items():
        composed_counts[composed(label)] += count
    return composed_counts


class _Numbers(dict[str, int]):
    """A number for each label as it is written, in the order in which they are first asked for."""

    def __init__(self, is_missing: Callable[[str], bool]) -> None:
        self._is_missing = is_missing
        self.missing: list[int] = []
        """the numbers of those that mean a missing label"""

    def __missing__(self, label: str) -> int:
        self[label] = number = len(self)
        if self._is_missing(label):
            self.missing.append(number)
        return number


class _Rows:
    """The facts that one pass over the rows of a table finds."""

    def __init__(
        self,
        table: Table,
        text_columns: Sequence[str],
        label_columns: Sequence[str],
        is_missing: Callable[[str], bool],
        partly: bool,
    ):
        for column in (*text_columns, *label_columns):
            table.check_column(column)
        self.checks, self.written = TextChecks(), _Numbers(is_missing)
        self.empty, self.missing = array("q"), array("q")
        """rows without a text, and rows without a label"""
        self.none: dict[str, None] = {}
        """the cells in place of a label there, in the order of the rows"""
        self.n_blank = self.count = 0
        """rows without anything at all, and all rows"""
        no_label, growing = Merging().is_missing, Growing(index="q", hashes="q", lengths="i", numbers="i")
        for chunk in table.chunks():
            texts = _joined([chunk.columns[name] for name in text_columns], "\n")
            cells = [chunk.columns[name] for name in label_columns]
            if partly:
                cells = [["" if no_label(cell) else cell.strip() for cell in column] for column in cells]
            labels = _joined(cells, BETWEEN, any if partly else all)
            numbers = np.fromiter(map(self.written.__getitem__, labels), np.int32, len(chunk))
            if bad := self._bad(chunk, texts, labels, numbers):
                rows = np.delete(np.arange(len(chunk)), bad)
                texts, numbers = [texts[i] for i in rows], numbers[rows]
            else:
                rows = np.arange(len(chunk))
            self.checks.add(texts, self.count + rows)
            growing.add(index=self.count + rows, hashes=text_hashes(texts), lengths=[*map(len, texts)], numbers=numbers)
            self.count += len(chunk)
        self.index, self.hashes, self.lengths, self.numbers = growing.arrays().values()

    def _bad(self, chunk: Chunk, texts: list[str], labels: list[str], numbers: np.ndarray) -> list[int]:
        """Record and return the rows that cannot be used.  Labels are ``found`` as numbers."""
        empty = [i for i, text in enumerate(texts) if not text or text.isspace()]
        blank = {i for i in empty if not any(values[i].strip() for values in chunk.columns.values())}
        missing = np.flatnonzero(np.isin(numbers, self.written.missing)).tolist() if self.written.missing else []
        self.n_blank += len(blank)
        self.empty.extend(self.count + i for i in empty if i not in blank)
        self.missing.extend(self.count + i for i in missing if i not in blank)
        self.none |= dict.fromkeys(labels[i] for i in missing if i not in blank)
        return sorted({*empty, *missing})

    def counts(self) -> dict[str, int]:
        """How many rows that are kept have each label as it is written, in the order of their first rows."""
        labels = list(self.written)
        used, first, counts = np.unique(self.numbers, return_index=True, return_counts=True)
        return {labels[used[at]]: int(counts[at]) for at in np.argsort(first)}


def _joined(columns: list[list[str]], between: str, enough: Callable[[Iterable[str]], bool] = all) -> list[str]:
    """The cells of some rows; of several columns as one text with that between them; "" for too few of them."""
    if len(columns) == 1:
        return columns[0]
    return [between.join(row) if enough(map(str.strip, row)) else "" for row in zip(*columns, strict=True)]


def labelled(
    table: Table,
    text_column: str,
    label_column: str | Sequence[str],
    *,
    second_column: str | None = None,
    on_bad_row: str = "error",
    to_learn: bool = True,
    merging: Merging | None = None,
    classes: Sequence[str] = (),
    as_labels: bool = True,
    partly: bool = False,
) -> Labelled:
    """The texts and labels of a table; labels lose the blank space around them, texts stay as they are.

    With a ``second_column`` each row has two texts, and neither may be empty.  Of several label columns the cells of a
    row are one label, with ``BETWEEN`` between them; ``partly`` allows some to be missing, which are "" then.

    ``merging`` says how labels are read and joins them, also with ``classes`` that were known before.  Without
    ``as_labels`` they are values, of which there may be any number, written in any way.  Rows with an empty text are
    left out with a warning, 1 % of all at most.  Raises InputError for more of them and for missing labels ("skip"
    drops and counts both), for labels that are the same number written twice (1 and 1.0) and, if they are ``to_learn``
    from, for a single label and for a column that is no label.  The table is read once, some rows at a time.
    """
    check_policy(on_bad_row)
    merging = merging or Merging(as_text=partly)  # what stands between cells counts as blank space
    columns = (text_column,) if second_column is None else (text_column, second_column)
    label_columns = [label_column] if isinstance(label_column, str) else list(label_column)
    rows = _Rows(table, columns, label_columns, merging.is_missing, partly)
    written, times = list(rows.written), rows.counts() if as_labels else {}
    rows.written.clear()  # of numbers nearly every row has its own
    meant = merging.merged(written, classes)
    words = " and ".join(dict.fromkeys(repr(cell.strip()) for cell in rows.none if cell.strip()))
    bad = sorted({*rows.empty, *rows.missing})
    if on_bad_row == "error":
        if len(rows.empty) > SKIP_SHARE * rows.count:
            _refuse(table, rows.empty, "empty text", f"column {' or '.join(map(repr, columns))}")
        where = "any of the columns" if partly else "column"
        _refuse(table, rows.missing, "no label", f"{where} {' or '.join(map(repr, label_columns))}", words, as_labels)
        check_skipped(table.name, len(bad), len(rows.index), "without text or label")
    names, place = _in_order(meant, np.bincount(rows.numbers, minlength=len(written)))
    counts: Counter[str] = Counter()
    for label, meaning in zip(written, meant, strict=True) if as_labels else ():
        counts[meaning] += times.get(label, 0)
    counts = +counts
    if as_labels or not names:
        _check_classes(table.name, label_columns[0], counts, len(rows.index), to_learn)
    targets = place[rows.numbers]
    own: dict[str, Any] = {"index": rows.index, "hashes": rows.hashes}
    result = Labelled(table, columns, rows.lengths, names, targets, not as_labels, **own)
    if as_labels and not merging.as_text:
        _check_numbers(result, label_columns[0])
    warnings = []
    if bad:
        read = f"; {words} there is read as no label{' without --labels-as-text' * as_labels}" if words else ""
        warnings.append(f"{counted(len(bad), 'row')} without text or label left out ({table.places(bad)}){read}")
    if rows.n_blank:
        warnings.append(f"{counted(rows.n_blank, 'row')} without anything in any column left out")
    warnings += _label_warnings(counts, times) if as_labels else []
    for one in rows.checks.found:
        if one.count:
            share = f"{counted(one.count, 'row')} ({one.count / len(result):.1%})"
            warnings.append(f"{share} with {one.what} ({table.places(one.first)})")
    return replace(result, warnings=warnings + _repeat_warnings(result))


def _in_order(labels: Sequence[str], times: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The distinct labels that occur, in alphabetical order, and the number of each among them, int32; -1 for none."""
    names: list[str] = []
    numbers = np.full(len(labels), -1, dtype=np.int32)
    for at in sorted(np.flatnonzero(times).tolist(), key=labels.__getitem__):
        if not names or names[-1] != labels[at]:
            names.append(labels[at])
        numbers[at] = len(names) - 1
    return names, numbers


def _refuse(table: Table, rows: Sequence[int], what: str, where: str, words: str = "", as_labels: bool = False) -> None:
    """Raise InputError for rows with empty cells, or with ``words`` that mean a missing label, or a class."""
    if rows:
        have = "row has" if len(rows) == 1 else "rows have"
        raise InputError(
            f"{table.name}: {len(rows):,} {have} {what} in {where} ({table.places(rows)})"
            f"{f'; {words} there is read as {what}' if words else ''}. Fill them in, or pass --on-bad-row skip"
            f"{', or --labels-as-text to make classes of them' if words and as_labels else ''}."
        )


def _check_classes(name: str, column: str, counts: Counter[str], n_rows: int, to_learn: bool) -> None:
    if len(counts) == 1 and to_learn:
        (label,), rows = counts, counted(n_rows, "row")
        raise InputError(
            f"{name}: only one label in column {column!r} ({label!r}, {rows}): nothing to "
            "learn. Add rows with other labels, or name another column with --label-column."
        )
    if not counts:
        raise InputError(f"{name}: no row has both a text and a label.")
    if len(counts) > max(2, n_rows / 2) and to_learn:
        raise InputError(
            f"{name}: column {column!r} has {len(counts):,} distinct values in {n_rows:,} rows, which does not look "
            f"like a label{_as_numbers(counts)}. Choose another with --label-column."
        )


def _as_numbers(labels: Iterable[str]) -> str:
    """What a message about a column of many values adds where most are numbers."""
    others = [label for label in labels if not NUMBER.fullmatch(label)]
    numbers = sum(1 for label in labels) - len(others)
    if numbers <= len(others):
        return ""
    named = f", and names what is none, such as {shorten(others[0])}" if others else ""
    return f"; {numbers:,} of them are numbers, which --task regression learns{named}"


def _check_numbers(rows: Labelled, column: str) -> None:
    """Raise InputError for labels that are equal as numbers."""
    numbers: dict[Decimal, int] = {}
    for at, label in enumerate(rows.classes):
        if re.fullmatch(r"[-+]?\d+(\.\d+)?", label) and (other := numbers.setdefault(Decimal(label), at)) != at:
            first = [int(rows.index[(rows.targets == target).argmax()]) for target in (other, at)]
            raise InputError(
                f"{rows.name}: column {column!r} writes one label as {rows.classes[other]!r} and {label!r} "
                f"({rows.table.places(first)}); use one form, or pass --labels-as-text to keep both."
            )


def rare_labels(counts: Mapping[str, int], labels: str = "labels", rows: str = "rows") -> list[str]:
    """A line about the labels of few rows, if there are any."""
    rare = sorted((count, label) for label, count in counts.items() if count < RARE)
    shown = ", ".join(f"{label!r} ({count})" for count, label in rare[:5]) + ", ..." * (len(rare) > 5)
    return [f"{len(rare)} of {len(counts)} {labels} have fewer than {RARE} {rows}: {shown}"] if rare else []


def _label_warnings(counts: Counter[str], written: Mapping[str, int]) -> list[str]:
    warnings = rare_labels(counts)
    for label, count in counts.items():
        if label.casefold() in ("none", "na"):
            rows = counted(count, "row")
            warnings.append(f"label {label!r} ({rows}) is taken as a class of its own, not as missing")
    around: Counter[str] = Counter()
    for label, n in written.items():
        if label != label.strip() and label.strip() in written:
            around[label.strip()] += n
    if around:
        shown = ", ".join(f"{label!r} ({counted(n, 'row')})" for label, n in around.most_common(5))
        warnings.append(f"whitespace around labels is removed, which merges classes: {shown}")
    return warnings + suggestion(counts)


def _repeat_warnings(rows: Labelled) -> list[str]:
    numbers, n_groups = group_numbers(rows.hashes)
    if not (extra := len(rows) - n_groups):
        return []

    def places(index: np.ndarray) -> str:
        return rows.table.places(rows.index[index[:FIRST]].tolist())

    first = np.flatnonzero(numbers == np.argmax(np.bincount(numbers) > 1))
    warnings = [f"{counted(extra, 'row')} ({extra / len(rows):.1%}) with a text seen before ({places(first)})"]
    one = np.full(n_groups, len(rows.classes), dtype=np.int32)
    other = np.full(n_groups, -1, dtype=np.int32)
    np.minimum.at(one, numbers, rows.targets)
    np.maximum.at(other, numbers, rows.targets)
    conflicts = np.flatnonzero(one != other)
    if len(conflicts):
        members = np.flatnonzero(numbers == conflicts[0])
        pair = members[[0, int(np.argmax(rows.targets[members] != rows.targets[members[0]]))]]
        marks = " and ".join(repr(rows.classes[target].replace(BETWEEN, ", ")) for target in rows.targets[pair])
        (text,), subject = rows.part(pair[:1]), counted(len(conflicts), "text")
        warnings.append(f"{subject} with more than one label: {shorten(text)} is {marks} ({places(pair)})")
    return warnings


def check_labels(train_labels: Sequence[str], other: Labelled, name: str) -> None:
    """Raise InputError when `other`, which is called `name` ("validation"), has labels that training never shows."""
    known = set(train_labels)
    strange = [at for at, label in enumerate(other.classes) if label not in known]
    rows = other.index[np.isin(other.targets, strange)]
    if not len(rows):
        return
    unseen = [other.classes[at] for at in strange]
    shown = ", ".join(repr(label) + apart(label, train_labels) for label in unseen[:5]) + ", ..." * (len(unseen) > 5)
    raise InputError(
        f"{other.name}: {name} has {counted(len(unseen), 'label')} absent from training: {shown} "
        f"({counted(len(rows), 'row')}: {other.table.places(rows.tolist())}). "
        f"Training has: {', '.join(repr(label) for label in sorted(known)[:10])}."
    )
