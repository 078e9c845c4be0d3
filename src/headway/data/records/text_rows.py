"""Rows of texts, read on demand: the one view of a table on which labelled texts and pairs of texts stand."""

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np

from headway.data.batches.cache import cache_key
from headway.data.records.split import RowView
from headway.data.records.table import Table


@dataclass(frozen=True)
class TextRows(RowView):
    """Rows of a table that have one text or several, in their order."""

    table: Table
    columns: tuple[str, ...]
    """The columns of texts."""
    lengths: np.ndarray
    """The characters of each text, int32 (N,); of the two of a pair (2, N)."""

    def __iter__(self) -> Iterator[Any]:
        """The texts, as they are read; several of a row as lines of one."""
        return map("\n".join, self.cells)

    @property
    def cells(self) -> Iterator[Any]:
        """The texts of each row, as many as there are columns, as they are read."""
        return self.table.cells(self.columns, self.index)

    @property
    def name(self) -> str:
        """The table in a few words, for messages."""
        return self.table.name

    @property
    def fingerprint(self) -> str:
        """A key for the texts."""
        return cache_key(self.table.fingerprint, self.table.reading, *self.columns, self.index_key)


class Growing:
    """Arrays of numbers that come some at a time, by name; each is as large as its numbers."""

    def __init__(self, **types: str):
        """The types are those of Python's arrays: q for int64, i for int32, d for float64."""
        self._arrays = {name: array(code) for name, code in types.items()}

    def add(self, **numbers: Any) -> None:
        """The next numbers of some arrays, as arrays or lists."""
        for name, values in numbers.items():
            own = self._arrays[name]
            own.frombytes(np.asarray(values, dtype=own.typecode).tobytes())

    def arrays(self) -> dict[str, Any]:
        """All of them."""
        return {name: np.frombuffer(own, own.typecode) for name, own in self._arrays.items()}


FIRST = 6
"""Places that are kept: one more than a message shows."""
MOJIBAKE = re.compile("Ã[\x80-\xbf\u0192\u2020-\u203a\u0152-\u0178\u02c6\u02dc]|â€|Â[\xa0-\xbf]")
"""UTF-8 that was decoded as Windows-1252 and saved again."""
SPECIAL = re.compile(r"<\|[a-z_]+\|>|\[(?:CLS|SEP|MASK|PAD|UNK)\]|</?s>|<(?:pad|unk|mask|bos|eos)>")
"""What tokenizers use as special tokens."""
ENTITY = re.compile("&(?:amp|lt|gt|quot|apos|nbsp|#[0-9]{2,5}|#x[0-9a-fA-F]{2,5});")
"""Letters as HTML writes them."""
UNSEEN = "\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069"
HIDDEN = re.compile(f"[{UNSEEN}]")
"""Zero-width characters and those that turn the direction of writing; not joiners, which emoji and scripts need."""
CONTROL = "".join(map(chr, [*range(1, 9), *range(14, 28), 127]))
"""Characters that command a terminal, other than blank space."""
CHECKS = (
    (MOJIBAKE, "'Ã©'-style text: probably decoded twice", "ÃâÂ"),
    (re.compile("\ufffd"), "U+FFFD, a sign of letters lost in an earlier conversion", "\ufffd"),
    (re.compile(f"[{CONTROL}]"), "control characters", CONTROL),
    (SPECIAL, "text that looks like special tokens, such as <|endoftext|>; it is read as plain text", "<["),
    (ENTITY, "HTML entities such as &amp;, read as they are; Python's html.unescape converts them", "&"),
    (HIDDEN, "zero-width or direction-turning characters", UNSEEN),
)
"""What is looked for, in words, and characters of which every match has one."""


@dataclass
class Found:
    """The rows where something was found: how many, and the first."""

    what: str
    count: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, rows: np.ndarray) -> None:
        """Count more rows, by number in ascending order."""
        self.first += rows[: max(0, FIRST - self.count)].tolist()
        self.count += len(rows)


class TextChecks:
    """Looks at texts that come some at a time."""

    def __init__(self) -> None:
        self.found = [Found(what) for _, what, _ in CHECKS]

    def add(self, texts: Sequence[str], rows: np.ndarray) -> None:
        """Look at the next texts, which have these numbers in the table."""
        whole = "\n".join(texts)  # no match crosses the end of a line
        starts: list[int] = []
        for (pattern, _, needed), finding in zip(CHECKS, self.found, strict=True):
            if not any(letter in whole for letter in needed):
                continue
            seen = -1
            for match in pattern.finditer(whole):
                starts = starts or [0, *accumulate(len(text) + 1 for text in texts)]
                row = bisect_right(starts, match.start()) - 1
                if row != seen:
                    finding.add(rows[row : row + 1])
                seen = row
