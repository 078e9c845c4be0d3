"""Rows of a table during reading, and what happens to malformed ones."""

import csv
import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headway.data.open.files import unit
from headway.data.records.chunks import Chunk
from headway.errors import InputError
from headway.io.quantities import counted

SKIP_SHARE = 0.01
"""The share of rows that may be skipped; more than this (and more than SKIP_ROWS) is an error."""

SKIP_ROWS = 5
SKIP = "--on-bad-row skip"
"""The option that skips them."""


def columns_named(names: str, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that a name means: itself, or several with commas between them, quoted where they have one."""
    if names in columns:
        return (names,)
    quoted = [part.strip() for part in next(csv.reader([names], skipinitialspace=True), [names])]
    parts = [part for name in quoted for part in ([name] if name in columns or '"' in names else name.split(","))]
    return tuple(parts) if all(parts) or '"' in names else (names,)


@dataclass
class OpenTable:
    """A table whose columns are known and whose rows are still to be read."""

    columns: list[str]
    chunks: Iterator[Chunk]


@dataclass
class BadRows:
    """What to do with a malformed row of `path`: "error" raises, "skip" keeps (place, reason) in `skipped`."""

    path: Path
    policy: str = "error"
    held: Callable[[int], object] | None = None
    """that of the table"""
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def add(self, number: int, reason: str) -> None:
        """Record a malformed row; under "error", raise InputError with its place."""
        place = place_of(self.path, number, self.held)
        if self.policy != "skip":
            hint = "" if SKIP in reason else f" ({SKIP} leaves such rows out.)"
            raise InputError(f"{self.path}, {place}: {reason}{hint}")
        self.skipped.append((place, reason))

    def check(self, kept: int) -> None:
        """Raise InputError when more rows were skipped than ``check_skipped`` allows."""
        check_skipped(str(self.path), len(self.skipped), kept, "malformed", self.skipped[:1])


def check_policy(policy: str) -> None:
    """Raise ValueError unless `on_bad_row` is one of its two words."""
    if policy not in ("error", "skip"):
        raise ValueError(f'on_bad_row is {policy!r}, expected "error" or "skip"')


def place_of(path: Path, number: int, held: Callable[[int], object] | None = None) -> str:
    """Where a row stands, for messages: "line 7", "row 7" or, of rows ``held`` in memory, "index 7"."""
    return f"index {held(number)}" if held else f"{unit(path)} {number}"


def check_skipped(name: str, skipped: int, kept: int, what: str, first: Sequence[tuple[str, str]] = ()) -> None:
    """Raise InputError when more than 1 % of the rows, and more than 5, were skipped."""
    total = skipped + kept
    if skipped > SKIP_ROWS and skipped > SKIP_SHARE * total:
        example = f" (first: {first[0][0]}: {first[0][1].rstrip('.')})" if first else ""
        raise InputError(
            f"{name}: {skipped:,} of {total:,} rows are {what}{example}; "
            f"at most {SKIP_SHARE:.0%}, or {SKIP_ROWS} rows, may be skipped. Correct the file."
        )


def left_out(name: str, skipped: Sequence[tuple[str, str]]) -> str:
    """A line about the malformed rows that were left out of a file, with the first three."""
    shown = [f"{place}: {reason.split('. ')[0].rstrip('.')}" for place, reason in skipped]
    more = [f"and {len(shown) - 3:,} more"] if len(shown) > 3 else []
    return f"{name}: {counted(len(skipped), 'malformed row')} left out ({'; '.join(shown[:3] + more)})"


def missing_column(name: str, wanted: str, columns: Sequence[str]) -> InputError:
    """The error for a column that is not there, with the nearest one that is."""
    folded = {column.casefold(): column for column in columns}
    near = difflib.get_close_matches(wanted.casefold(), list(folded), n=1, cutoff=0.6)
    hint = f" Did you mean {folded[near[0]]!r}?" if near else ""
    return InputError(f"{name}: no column {wanted!r}; found: {some(columns)}.{hint}")


def occurs_twice(names: Iterable[str]) -> str | None:
    """The first name, in alphabetical order, that occurs more than once."""
    return min((name for name, count in Counter(names).items() if count > 1), default=None)


def some(names: Sequence[str], most: int = 20) -> str:
    """Names in a row, for messages; of very many, the first ones."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def shorten(text: str, length: int = 40) -> str:
    """The beginning of a text, in quotes and on one line, for messages."""
    return repr(text if len(text) <= length else text[: length - 1] + "…")
