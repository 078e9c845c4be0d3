"""Rows of token ids that need not fit in memory: flat ids, in the cache on disk where they are many, and lengths."""

import contextlib
import tempfile
import zlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from headway.data.batches.cache import CachedTokens, held_if_small, replacing, warn_of_damage
from headway.data.batches.tokens import Tokens
from headway.data.records.rows import LazySequence
from headway.io.file_lock import cache_directory

IN_MEMORY = 1 << 22
"""Ids up to which rows are kept in memory, without a file."""
AT_ONCE = 1 << 18
"""Ids that are written, or read in their order, at a time."""
FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""Odd, and of 64 random bits: what ids are multiplied by to tell rows apart."""


class Rows(LazySequence[list[int]]):
    """Rows of numbers, of different lengths; each is a list when it is asked for."""

    @property
    @abstractmethod
    def lengths(self) -> np.ndarray:
        """The numbers of each row, int64 (N,)."""


@dataclass(frozen=True, eq=False)
class EncodedRows(Rows):
    """Rows of ids in one array or file.

    A row of more than ``longest`` ids is cut as it is read: what ends a text (one of ``ends``, [SEP]) stays its end.
    """

    tokens: Tokens
    """All ids, row after row."""
    starts: np.ndarray
    """Where each row begins, int64 (N,), ascending."""
    sizes: np.ndarray
    """The ids of each row before it is cut, uint32 (N,)."""
    longest: int | None = None
    ends: frozenset[int] = frozenset()
    below: int | None = None
    """what 0 stands for; every other number is one less than it is written; None for numbers as they are"""

    def cut(self, longest: int, ends: frozenset[int]) -> "EncodedRows":
        """The same rows of at most so many ids."""
        return replace(self, longest=longest, ends=ends)

    def part(self, rows: np.ndarray | slice) -> "EncodedRows":
        """Some of the rows, by their numbers in ascending order."""
        starts, sizes = (np.ascontiguousarray(array[rows]) for array in (self.starts, self.sizes))
        return replace(self, starts=starts, sizes=sizes)

    def column(self, first: int, step: int, below: int | None = None) -> "EncodedRows":
        """Every ``step``-th row from the ``first`` on, where rows of several kinds take turns."""
        return replace(self.part(slice(first, None, step)), below=below)

    @property
    def lengths(self) -> np.ndarray:
        """The ids of each row, int64 (N,)."""
        lengths = self.sizes.astype(np.int64)
        return lengths if self.longest is None else np.minimum(lengths, self.longest)

    def __len__(self) -> int:
        return len(self.starts)

    def item(self, at: int) -> list[int]:
        """The ids of one row."""
        start = int(self.starts[at])
        ids = self.tokens[start : start + int(self.sizes[at])].tolist()
        if self.longest is not None and len(ids) > self.longest:
            ids = cut_row(ids, self.longest, self.ends)
        return ids if self.below is None else [number - 1 if number else self.below for number in ids]

    def __iter__(self) -> Iterator[list[int]]:
        for ids, lengths in self.parts():
            held, end = ids.tolist(), 0
            for length in lengths.tolist():
                yield held[end : (end := end + length)]

    def parts(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The ids of some rows, one after another, and the length of each, int64; until all rows have come."""
        first = 0
        while first < len(self):
            end = int(np.searchsorted(self.starts, self.starts[first] + AT_ONCE))
            yield self._read(slice(first, end))
            first = end

    def _read(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        starts, sizes = self.starts[rows], self.sizes[rows].astype(np.int64)
        begin = int(starts[0])
        ids, starts = np.asarray(self.tokens[begin : int(starts[-1] + sizes[-1])]), starts - begin
        lengths = sizes if self.longest is None else np.minimum(sizes, self.longest)
        kept = ids[np.repeat(starts, lengths) + _places(lengths)]
        cut = np.flatnonzero(sizes > lengths)
        last = ids[(starts + sizes - 1)[cut]]
        stays = np.isin(last, list(self.ends))
        kept[np.cumsum(lengths)[cut[stays]] - 1] = last[stays]
        if self.below is not None:
            kept = np.where(kept == 0, self.below, kept.astype(np.int64) - 1)
        return kept, lengths

    def hashes(self) -> np.ndarray:
        """A number for each row, uint64 (N,): equal rows have equal ones, others, but for one in 2 ** 64, do not."""
        parts = [np.zeros(0, dtype=np.uint64)]
        for ids, lengths in self.parts():
            powers = np.cumprod(np.full(int(lengths.max()) + 1, FACTOR, dtype=np.uint64))
            values = (ids.astype(np.uint64) + np.uint64(1)) * powers[_places(lengths)]
            ends = np.cumsum(lengths)
            sums = np.concatenate([[np.uint64(0)], np.cumsum(values)])
            parts.append(sums[ends] - sums[ends - lengths])
        return np.concatenate(parts)


def _places(lengths: np.ndarray) -> np.ndarray:
    """The place of each id in its row, from 0, of rows of these lengths, one after another."""
    return np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def cut_row(ids: list[int], longest: int, ends: frozenset[int]) -> list[int]:
    """The first ids of a longer row; what ends a text stays its end."""
    return [*ids[: longest - 1], ids[-1]] if ids[-1] in ends else ids[:longest]


def row_lengths(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """How many ids each row has, int64 (N,)."""
    if isinstance(rows, Rows):
        return rows.lengths
    return np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))


def row_hashes(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """A number for each row, (N,), as ``EncodedRows.hashes`` says; compare those of one kind of rows alone."""
    if isinstance(rows, EncodedRows):
        return rows.hashes()
    return np.fromiter((hash(tuple(row)) for row in rows), dtype=np.int64, count=len(rows))


def encoded_rows(
    rows: Iterable[Sequence[int]], *, vocab_size: int, key: str, directory: Path | None = None
) -> EncodedRows:
    """Rows of ids, written as they come where they are many, to the cache unless another ``directory`` is given.

    ``key`` names the texts, the tokenizer and all that the ids depend on; a complete file of that name is used again
    without reading ``rows``.  Files appear under their name only when complete.
    """
    cached = CachedTokens(directory or cache_directory(), key, vocab_size, {"rows": True})
    if (existing := _existing(cached)) is not None:
        return existing
    parts = _packed_parts(rows, cached)
    held, many = held_if_small(parts, lambda part: len(part[0]) // cached.dtype.itemsize, IN_MEMORY)
    if many is not None:
        return _written(cached, many)
    tokens = np.frombuffer(b"".join(data for data, _ in held), dtype=cached.dtype)
    return EncodedRows(tokens, *_bounds([lengths for _, lengths in held]))


def unnamed_rows(rows: Iterable[Sequence[int]], vocab_size: int) -> EncodedRows:
    """The same for rows that are never asked for again: their file has no name once it is written."""
    with tempfile.TemporaryDirectory(dir=cache_directory()) as folder:
        return encoded_rows(rows, vocab_size=vocab_size, key="rows", directory=Path(folder))


def _packed_parts(rows: Iterable[Sequence[int]], cached: CachedTokens) -> Iterator[tuple[bytes, np.ndarray]]:
    """The ids of some rows as bytes, and the length of each, uint32."""
    rest = iter(rows)
    while True:
        ids, lengths = list[int](), list[int]()
        for row in rest:
            ids.extend(row)
            lengths.append(len(row))
            if len(ids) >= AT_ONCE:
                break
        if not lengths:
            return
        yield cached.packed(ids), np.array(lengths, dtype="<u4")


def _bounds(lengths: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Where each row begins, int64, and its length."""
    whole = np.concatenate([np.zeros(0, dtype="<u4"), *lengths])
    starts = np.cumsum(whole, dtype=np.int64)
    starts -= whole
    return starts, whole


def _written(cached: CachedTokens, parts: Iterator[tuple[bytes, np.ndarray]]) -> EncodedRows:
    """Write the files, the record of them last."""
    beside, kept = {"sum_of_lengths": 0}, list[np.ndarray]()

    def ids() -> Iterator[bytes]:
        with replacing(cached.path("lengths")) as file:
            for data, lengths in parts:
                file.write(lengths.tobytes())
                beside["sum_of_lengths"] = zlib.crc32(lengths.tobytes(), beside["sum_of_lengths"])
                kept.append(lengths)
                yield data

    return EncodedRows(cached.written(ids(), beside), *_bounds(kept))


def _existing(cached: CachedTokens) -> EncodedRows | None:
    """The rows written earlier; None when there are none, and, with a warning, when they are damaged."""
    if (kept := cached.opened()) is None:
        return None
    (tokens, beside), lengths = kept, b""
    with contextlib.suppress(OSError):
        lengths = cached.path("lengths").read_bytes()
    if zlib.crc32(lengths) != beside.get("sum_of_lengths") or len(lengths) % 4:
        tokens.close()
        warn_of_damage(cached.path("lengths"))
        return None
    return EncodedRows(tokens, *_bounds([np.frombuffer(lengths, dtype="<u4")]))
