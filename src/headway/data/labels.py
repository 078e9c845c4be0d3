"""Texts with labels, checked before training: what is missing, what contradicts itself, what leaks."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from headway.data.label_typing import Merging, suggestion
from headway.data.rows import SKIP_SHARE, check_policy, check_skipped, shorten
from headway.data.table import Table
from headway.errors import InputError
from headway.io.quantities import counted, plural

MISSING = frozenset(["", "nan", "null", "<na>", "#n/a", "n/a"])
"""What stands for no label, in lower case; "NA" too, but in capitals alone."""

RARE = 10
"""A class of fewer rows is warned about."""

MOJIBAKE = re.compile("Ã[\x80-\xbf\u0192\u2020-\u203a\u0152-\u0178\u02c6\u02dc]|â€|Â[\xa0-\xbf]")
"""UTF-8 that was decoded as Windows-1252 and saved again."""

SPECIAL = re.compile(r"<\|[a-z_]+\|>|\[(?:CLS|SEP|MASK|PAD|UNK)\]|</?s>|<(?:pad|unk|mask|bos|eos)>")
"""What tokenizers use as special tokens."""

ENTITY = re.compile("&(?:amp|lt|gt|quot|apos|nbsp|#[0-9]{2,5}|#x[0-9a-fA-F]{2,5});")
"""Letters as HTML writes them."""

HIDDEN = re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069]")
"""Zero-width characters and those that turn the direction of writing; not joiners, which emoji and scripts need."""


@dataclass(frozen=True)
class Labelled:
    """Texts with a label each, in the order of the table."""

    name: str
    texts: list[str]
    labels: list[str]
    row_numbers: list[int]
    warnings: list[str] = field(default_factory=list)
    """One line each, for a person."""
    dropped: int = 0
    """Rows left out because text or label was missing."""

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def classes(self) -> list[str]:
        """The distinct labels in alphabetical order."""
        return sorted(set(self.labels))


def text_key(text: str) -> str:
    """What two texts share that read the same: NFKC, case folded, blank space collapsed."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


def is_missing(label: str) -> bool:
    """Whether a label, without the blank space around it, stands for none."""
    return label.casefold() in MISSING or label == "NA"


def label_counts(table: Table, label_column: str) -> Counter[str]:
    """How many rows have each label as it is written, without the blank space around it."""
    counts = Counter(label.strip() for label in table.column(label_column))
    return Counter({label: count for label, count in counts.items() if not is_missing(label)})


def labelled(
    table: Table,
    text_column: str,
    label_column: str,
    *,
    on_bad_row: str = "error",
    to_learn: bool = True,
    merging: Merging | None = None,
    classes: Sequence[str] = (),
) -> Labelled:
    """The texts and labels of a table; labels lose the blank space around them, texts stay as they are.

    ``merging`` joins labels, also with ``classes`` that were known before.  Rows with an empty text are left out with a
    warning, 1 % of all at most.  Raises InputError for more of them and for missing labels ("skip" drops and counts
    both), for labels that are the same number written twice (1 and 1.0) and, if they are ``to_learn`` from, for a
    single label and for a column that is no label.
    """
    check_policy(on_bad_row)
    texts = table.column(text_column)
    written = table.column(label_column)
    labels = [label.strip() for label in written]
    blank = {i for i, row in enumerate(table.rows) if not any(cell.strip() for cell in row.values())}
    empty = [i for i, text in enumerate(texts) if not text.strip() and i not in blank]
    missing = [i for i, label in enumerate(labels) if is_missing(label) and i not in blank]
    if merging is not None:
        labels = merging.merged(labels, classes)
    if on_bad_row == "error":
        if len(empty) > SKIP_SHARE * len(texts):
            _refuse(table, empty, "empty text", f"column {text_column!r}")
        _refuse(table, missing, "no label", f"column {label_column!r}", [labels[i] for i in missing])
    bad = set(empty) | set(missing)
    kept = [i for i in range(len(texts)) if i not in bad and i not in blank]
    if on_bad_row == "error":
        check_skipped(table.name, len(bad), len(kept), "without text or label")
    counts = Counter(labels[i] for i in kept)
    _check_classes(table.name, label_column, counts, len(kept), to_learn)
    warnings = []
    if bad:
        warnings.append(f"{counted(len(bad), 'row')} without text or label left out ({table.places(sorted(bad))})")
    if blank:
        warnings.append(f"{counted(len(blank), 'row')} without anything in any column left out")
    warnings += (
        _label_warnings(counts, [written[i] for i in kept])
        + _text_warnings(table, texts, kept)
        + _repeat_warnings(table, texts, labels, kept)
    )
    return Labelled(
        table.name,
        [texts[i] for i in kept],
        [labels[i] for i in kept],
        [table.row_numbers[i] for i in kept],
        warnings,
        len(bad) + len(blank),
    )


def _refuse(table: Table, rows: list[int], what: str, where: str, written: Sequence[str] = ()) -> None:
    """Raise InputError for rows where there is nothing, or what is ``written`` there stands for nothing."""
    if rows:
        have = "row has" if len(rows) == 1 else "rows have"
        words = " and ".join(repr(word) for word in dict.fromkeys(written) if word)
        raise InputError(
            f"{table.name}: {len(rows):,} {have} {what} in {where} ({table.places(rows)})"
            f"{f'; {words} there is read as {what}' if words else ''}. Fill them in, or pass --on-bad-row skip."
        )


def _check_classes(name: str, column: str, counts: Counter[str], n_rows: int, to_learn: bool) -> None:
    if len(counts) == 1 and to_learn:
        label = next(iter(counts))
        rows = counted(n_rows, "row")
        raise InputError(f"{name}: only one label in column {column!r} ({label!r}, {rows}): nothing to learn.")
    if not counts:
        raise InputError(f"{name}: no row has both a text and a label.")
    if len(counts) > max(2, n_rows / 2) and to_learn:
        raise InputError(
            f"{name}: column {column!r} has {len(counts):,} distinct values in {n_rows:,} rows, which does not look "
            "like a label. Choose another with --label-column."
        )
    numbers: dict[float, str] = {}
    for label in counts:
        if re.fullmatch(r"[-+]?\d+(\.\d+)?", label):
            other = numbers.setdefault(float(label), label)
            if other != label:
                raise InputError(
                    f"{name}: column {column!r} writes one label as {other!r} and {label!r}; use one form."
                )


def _label_warnings(counts: Counter[str], written: Sequence[str]) -> list[str]:
    warnings = []
    rare = sorted((n, label) for label, n in counts.items() if n < RARE)
    if rare:
        shown = ", ".join(f"{label!r} ({n})" for n, label in rare[:5]) + (", ..." if len(rare) > 5 else "")
        warnings.append(f"{len(rare)} of {len(counts)} labels have fewer than {RARE} rows: {shown}")
    for label in counts:
        if label.casefold() in ("none", "na"):
            warnings.append(
                f"label {label!r} ({counted(counts[label], 'row')}) is taken as a class of its own, not as missing"
            )
    whole = set(written)
    around = Counter(label.strip() for label in written if label != label.strip() and label.strip() in whole)
    if around:
        shown = ", ".join(f"{label!r} ({counted(n, 'row')})" for label, n in around.most_common(5))
        warnings.append(f"blank space around labels is left out, which makes one class of two: {shown}")
    return warnings + suggestion(counts)


def _text_warnings(table: Table, texts: list[str], kept: list[int]) -> list[str]:
    warnings = []
    for pattern, words in (
        (MOJIBAKE, "'Ã©'-style text: probably decoded twice"),
        (re.compile("\ufffd"), "U+FFFD, a sign of letters lost in an earlier conversion"),
        (re.compile("[\x01-\x08\x0e-\x1b\x7f]"), "control characters"),
        (SPECIAL, "text that looks like special tokens, such as <|endoftext|>; it is read as plain text"),
        (ENTITY, "HTML entities such as &amp;, read as they stand; html.unescape of Python makes letters of them"),
        (HIDDEN, "zero-width or direction-turning characters"),
    ):
        rows = [i for i in kept if pattern.search(texts[i])]
        if rows:
            warnings.append(
                f"{counted(len(rows), 'row')} ({len(rows) / len(kept):.1%}) with {words} ({table.places(rows)})"
            )
    return warnings


def _repeat_warnings(table: Table, texts: list[str], labels: list[str], kept: list[int]) -> list[str]:
    groups: dict[str, list[int]] = {}
    for i in kept:
        groups.setdefault(text_key(texts[i]), []).append(i)
    warnings = []
    repeats = [rows for rows in groups.values() if len(rows) > 1]
    if repeats:
        extra = sum(len(rows) - 1 for rows in repeats)
        warnings.append(
            f"{counted(extra, 'row')} ({extra / len(kept):.1%}) with a text seen before ({table.places(repeats[0])})"
        )
    conflicts = [rows for rows in repeats if len({labels[i] for i in rows}) > 1]
    if conflicts:
        rows = conflicts[0]
        pair = [rows[0], next(i for i in rows if labels[i] != labels[rows[0]])]
        marks = " and ".join(repr(labels[i]) for i in pair)
        subject = counted(len(conflicts), "text")
        warnings.append(
            f"{subject} with more than one label: {shorten(texts[pair[0]])} is {marks} ({table.places(pair)})"
        )
    return warnings


def check_labels(train_labels: Sequence[str], other: Labelled, name: str) -> None:
    """Raise InputError when `other`, which is called `name` ("validation"), has labels that training never shows."""
    known = set(train_labels)
    rows = [i for i, label in enumerate(other.labels) if label not in known]
    if not rows:
        return
    unseen = sorted({other.labels[i] for i in rows})
    shown = ", ".join(repr(label) for label in unseen[:5]) + (", ..." if len(unseen) > 5 else "")
    numbers = ", ".join(str(other.row_numbers[i]) for i in rows[:5]) + (", ..." if len(rows) > 5 else "")
    raise InputError(
        f"{other.name}: {name} has {counted(len(unseen), 'label')} absent from training: {shown} "
        f"({counted(len(rows), 'row')}, {plural(len(rows), 'line')} {numbers}). "
        f"Training has: {', '.join(repr(label) for label in sorted(known)[:10])}."
    )


def leaks(train_texts: Sequence[str], other_texts: Sequence[str]) -> list[int]:
    """The indices of those of `other_texts` that also occur in training, compared by `text_key`."""
    known = {text_key(text) for text in train_texts}
    return [i for i, text in enumerate(other_texts) if text_key(text) in known]
