"""Parquet files as shards of one table: described by their footers, read one row group at a time.

A footer says how many rows each row group has, how large its columns are, and in most files the smallest and the
largest value of each.  It is a few kilobytes at the end of a file of any size.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from headway.data.formats.parquet import batches, cells, class_names, column_of, opened, paths_of, readable_columns
from headway.data.records.table import Table
from headway.errors import InputError

SAMPLED_GROUPS, SAMPLED_ROWS = 16, 4096
"""Row groups from which a sample of a table comes, and its rows."""
LARGE = 64 << 20
"""Bytes of the columns from which on a table is judged by a sample of its rows before it is read."""


@dataclass(frozen=True)
class Shard:
    """One Parquet file by its footer."""

    name: str
    """for messages: its path, or where it is fetched from"""
    open: Callable[[], IO[bytes]] = field(repr=False, compare=False)
    size: int
    """bytes of the file"""
    groups: tuple[int, ...]
    """rows of each row group"""
    columns: tuple[str, ...]
    """those that can be read"""
    n_bytes: int
    """of all columns, unpacked"""
    fingerprint: str
    """SHA-256 of the file's name, its size and its footer, in hexadecimal; what lies between is not read.

    A rewritten file is recognised by its sizes, offsets and statistics; bytes that were changed in place,
    with all of these unchanged, go unnoticed.
    """

    def rows(self, group: int, columns: Sequence[str], start: int = 0, count: int | None = None) -> Iterator[list[str]]:
        """Some rows of a row group as cells of these columns, about a thousand at a time in memory."""
        with _unchanged(self, group) as file:
            names = class_names(file)
            at, stop = 0, self.groups[group] if count is None else start + count
            for batch in batches(file, paths_of(file, columns), [group]):
                low, high = max(start - at, 0), min(stop - at, batch.num_rows)
                if low < high:
                    part = cells(batch.slice(low, high - low), columns, names, self.place(group), at + low)
                    yield from (list(row) for row in zip(*part, strict=True))
                at += batch.num_rows
                if at >= stop:
                    return

    def column(self, group: int, name: str) -> Any:
        """One column of a row group as an Arrow array, whose elements have ``.as_py()``.

        Raises InputError, naming file and row group, where it cannot be read or the file has changed.
        """
        with _unchanged(self, group) as file:
            return column_of(file.read_row_group(group, columns=paths_of(file, [name])), name)

    def place(self, group: int) -> str:
        """A row group, for messages."""
        return f"{self.name}, row group {group + 1} of {len(self.groups)}"


@contextmanager
def _unchanged(shard: Shard, group: int) -> Iterator[Any]:
    """The open file of a shard, to read a row group.  Raises InputError, naming both, where that fails."""
    name = shard.place(group)

    def check(file: IO[bytes]) -> None:
        if _fingerprint(shard.name, file)[1] != shard.fingerprint:
            raise InputError(f"{name}: this file has changed while it was in use.")

    try:
        with opened(name, shard.open, check) as file:
            yield file
    except InputError as error:
        raise InputError(f"{error} Restore the file and run the same command again.") from None


def look_at(name: str, open_file: Callable[[], IO[bytes]]) -> Shard:
    """The facts in the footer of a file.  Raises InputError if it is not Parquet or is cut short."""
    known: list[tuple[int, str]] = []
    with opened(name, open_file, lambda file: known.append(_fingerprint(name, file))) as file:
        columns = readable_columns(name, file)
        found = file.metadata
        groups = [found.row_group(number) for number in range(found.num_row_groups)]
        n_bytes = sum(group.total_byte_size for group in groups)
        rows = tuple(group.num_rows for group in groups)
    ((size, fingerprint),) = known
    return Shard(name, open_file, size, rows, tuple(columns), n_bytes, fingerprint)


def local_shard(path: Path) -> Shard:
    """A file on this machine.  Raises InputError as ``look_at`` does."""
    return look_at(str(path), lambda: path.open("rb"))


def _fingerprint(name: str, file: IO[bytes]) -> tuple[int, str]:
    """The size of a file, and the SHA-256 of its name, its size and its footer."""
    size = file.seek(0, 2)
    file.seek(size - 8)
    length = int.from_bytes(file.read(4), "little")  # four bytes, and PAR1
    file.seek(max(0, size - 8 - length))
    digest = hashlib.sha256(f"{Path(name).name}\0{size}\0".encode("utf-8", "surrogateescape"))
    digest.update(file.read(length))
    return size, digest.hexdigest()


def sample_table(shards: Sequence[Shard]) -> Table:
    """Rows of row groups spread evenly over all shards, as a table.  Raises InputError where their columns differ."""
    columns = list(shards[0].columns)
    for shard in shards:
        if sorted(shard.columns) != sorted(columns):
            raise InputError(
                f"{shard.name}: its columns are {', '.join(shard.columns)}, but {shards[0].name} has "
                f"{', '.join(columns)}; files read together need the same columns."
            )
    rows: list[dict[str, str]] = []
    numbers: list[int] = []
    result = Table(tuple(Path(shard.name) for shard in shards), columns, rows, numbers, "", starts=[])
    filled = [(at, group) for at, shard in enumerate(shards) for group, rows in enumerate(shard.groups) if rows]
    chosen = [filled[at] for at in spread(len(filled), SAMPLED_GROUPS)]
    for at, shard in enumerate(shards):
        result.starts.append(len(rows))
        for group in [group for place, group in chosen if place == at]:
            first = sum(shard.groups[:group]) + 1
            for number, row in enumerate(shard.rows(group, columns, 0, -(-SAMPLED_ROWS // len(chosen))), start=first):
                rows.append(dict(zip(columns, row, strict=True)))
                numbers.append(number)
    return result


def spread(count: int, most: int) -> list[int]:
    """At most ``most`` of the numbers from 0 to below ``count``, evenly spread, in order."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int)).tolist() if count else []
