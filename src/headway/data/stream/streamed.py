"""Running text in Parquet shards, read as needed: it may be larger than memory and disk."""

import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from headway.data.batches.cache import VERSION, cache_key, recorded, replacing, warn_of_damage
from headway.data.batches.tokens import file_sums, sealed
from headway.data.formats.parquet import Unreachable, cell_batches, column_of, opened, paths_of, readable_columns
from headway.data.open.files import Tally
from headway.data.records.corpus import Corpus, Document, Facts, Source, row_documents
from headway.data.records.rows import check_same_columns, chunked
from headway.data.records.table import Table
from headway.errors import InputError
from headway.hub.download import DatasetId, dataset_id, loaded, parquet_files
from headway.io.file_lock import cache_directory
from headway.io.quantities import counted

HELD_OUT = 0.1
"""The maximum share of the rows that is held out."""
HELD_CHARACTERS, HELD_GROUPS = 2_000_000, 16
"""The maximum number of characters that are held out, about, and of row groups from which they come."""
LOOKED_AT = 64
"""Rows of each of these by which the length of all others is judged."""
SAMPLED_GROUPS, SAMPLED_ROWS = 16, 4096
"""Row groups from which a sample comes at most, and the rows of that of a table."""
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
        stop = self.groups[group] if count is None else start + count
        with self._unchanged(group) as file:
            for _, part in cell_batches(file, columns, self.place(group), [group], start, stop):
                yield from map(list, zip(*part, strict=True))

    def column(self, group: int, name: str) -> Any:
        """One column of a row group as an Arrow array, whose elements have ``.as_py()``.

        Raises InputError, naming file and row group, where it cannot be read or the file has changed.
        """
        with self._unchanged(group) as file:
            return column_of(file.read_row_group(group, columns=paths_of(file, [name])), name)

    def place(self, group: int) -> str:
        """A row group, for messages."""
        return f"{self.name}, row group {group + 1} of {len(self.groups)}"

    @contextmanager
    def _unchanged(self, group: int) -> Iterator[Any]:
        """The open file, to read a row group.  Raises InputError, naming both, where that fails."""
        name = self.place(group)

        def check(file: IO[bytes]) -> None:
            if _fingerprint(self.name, file)[1] != self.fingerprint:
                raise InputError(f"{name}: this file has changed while it was in use.")

        try:
            with opened(name, self.open, check) as file:
                yield file
        except InputError as error:
            raise InputError(f"{error} Restore the file and run the same command again.") from None


def look_at(name: str, open_file: Callable[[], Any]) -> Shard:
    """The facts in the footer of a file.  Raises InputError if it is not Parquet or is cut short."""
    known: list[tuple[int, str]] = []
    with opened(name, open_file, lambda file: known.append(_fingerprint(name, file))) as file:
        columns = readable_columns(name, file)
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    ((size, fingerprint),), rows = known, tuple(group.num_rows for group in groups)
    n_bytes = sum(group.total_byte_size for group in groups)
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
    check_same_columns({shard.name: shard.columns for shard in shards})
    columns = list(shards[0].columns)
    filled = [(at, group) for at, shard in enumerate(shards) for group, rows in enumerate(shard.groups) if rows]
    chosen = [filled[at] for at in spread(len(filled), SAMPLED_GROUPS)]
    rows, starts = list[tuple[int, list[str]]](), []
    for at, shard in enumerate(shards):
        starts.append(len(rows))
        for group in [group for place, group in chosen if place == at]:
            first = sum(shard.groups[:group]) + 1
            rows += enumerate(shard.rows(group, columns, 0, -(-SAMPLED_ROWS // len(chosen))), start=first)
    paths, numbers = tuple(Path(shard.name) for shard in shards), [number for number, _ in rows]
    return Table(paths, columns, list(chunked(columns, rows)).__iter__, numbers, "", starts=starts)


def spread(count: int, most: int) -> list[int]:
    """At most ``most`` of the numbers from 0 to below ``count``, evenly spread, in order."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int)).tolist() if count else []


@dataclass(frozen=True)
class Group:
    """A row group that has rows."""

    shard: int
    """the number of its file"""
    number: int
    """its number in the file"""
    rows: int


class Streamed(Corpus):
    """One column of Parquet shards, each row a document; only the requested rows are read.

    What a ``Corpus`` counts is here known without reading everything: documents from the footers, characters
    by a sample of the rows.  The fingerprint covers the column's name and the shards (see ``Shard``).
    """

    def __init__(self, shards: Sequence[Shard], column: str) -> None:
        """Raises InputError where there are fewer than two rows."""
        self.shards, self.column = tuple(shards), column
        super().__init__([Source(Path(shard.name), partial(_documents, shard, column), column) for shard in shards])
        self.groups = tuple(
            Group(at, number, rows)
            for at, shard in enumerate(shards)
            for number, rows in enumerate(shard.groups)
            if rows
        )
        self.n_rows = sum(group.rows for group in self.groups)
        if self.n_rows < 2:
            raise InputError(f"{self.name}: has {counted(self.n_rows, 'row')}; expected several, each with a document.")

    @cached_property
    def facts(self) -> Facts:
        """Counts (characters are estimated) and the fingerprint; reads a few rows."""
        digest = hashlib.sha256("\0".join([self.column, *(shard.fingerprint for shard in self.shards)]).encode())
        return Facts(round(self.n_rows * self._row_length), self.n_rows, 0, digest.hexdigest())

    @cached_property
    def _row_length(self) -> float:
        """Characters of a row, about."""
        lengths = [
            len(text)
            for at in spread(len(self.groups), SAMPLED_GROUPS)
            for text in self.texts(at, 0, min(LOOKED_AT, self.groups[at].rows))
        ]
        if not any(lengths):
            raise InputError(
                f"{self.name}: column {self.column!r} has no text in any of the rows looked at; name another one."
            )
        return sum(lengths) / len(lengths)

    def texts(self, group: int, start: int, count: int) -> Iterator[str]:
        """Some rows of a row group, read in order."""
        place = self.groups[group]
        return (text for (text,) in self.shards[place.shard].rows(place.number, [self.column], start, count))

    def texts_of(self, group: int) -> Any:
        """All rows of a row group, as ``Shard.column`` gives them: the only thing here that holds one in memory."""
        place = self.groups[group]
        return self.shards[place.shard].column(place.number, self.column)

    @cached_property
    def set_aside(self) -> list[int]:
        """For each row group, how many of its first rows are held out: a tenth of all rows or about two million
        characters, whichever is less, from up to 16 row groups that are spread evenly over the shards."""
        most = max(1, min(int(HELD_OUT * self.n_rows), round(HELD_CHARACTERS / self._row_length)))
        counts = [0] * len(self.groups)
        chosen = spread(len(self.groups), HELD_GROUPS)
        for place, at in enumerate(chosen):
            wanted = -(-most // (len(chosen) - place))  # what the others were too short for counts here too
            counts[at] = min(wanted, self.groups[at].rows)
            most -= counts[at]
        return counts

    @cached_property
    def held_out(self) -> Corpus:
        """The held-out rows, in memory."""
        texts = [text for at, count in enumerate(self.set_aside) if count for text in self.texts(at, 0, count)]
        return self._corpus(texts, "the rows that are held out")

    def sample(self, most: int, held: Sequence[int]) -> tuple[Corpus, int]:
        """About ``most`` characters of training, and from how many rows they are; held in memory.

        They come from row groups that are spread evenly over the shards; ``held`` are the first rows of each row group
        that are not for training.
        """
        able = [at for at, group in enumerate(self.groups) if group.rows > held[at]]
        texts, chosen, room = list[str](), [able[at] for at in spread(len(able), SAMPLED_GROUPS)], most
        for place, at in enumerate(chosen):
            left = room // (len(chosen) - place)
            for text in self.texts(at, held[at], self.groups[at].rows - held[at]):
                texts.append(text[:left])
                left, room = left - len(texts[-1]), room - len(texts[-1])
                if left <= 0:
                    break
        return self._corpus(texts, "the rows that are trained on"), len(texts)

    def _corpus(self, texts: list[str], what: str) -> Corpus:
        if not any(text.strip() for text in texts):
            raise InputError(f"{self.name}: column {self.column!r} has no text in {what}.")
        return Corpus([Source(self.sources[0].path, partial(row_documents, texts))])

    def known(self) -> list[dict[str, Any]]:
        """Every shard as headway.json records it: name, size in bytes, rows and fingerprint."""
        return [
            {"name": shard.name, "size": shard.size, "rows": sum(shard.groups), "fingerprint": shard.fingerprint}
            for shard in self.shards
        ]

    def changed(self, known: Iterable[dict[str, Any]]) -> list[str]:
        """The names of the shards that are not among those that ``known`` recorded."""
        before = {shard["fingerprint"] for shard in known}
        return [shard.name for shard in self.shards if shard.fingerprint not in before]


def _documents(shard: Shard, column: str, tally: Tally | None) -> Iterator[Document]:
    """All rows of a shard as documents, read as a stream."""
    return row_documents(text for group in range(len(shard.groups)) for (text,) in shard.rows(group, [column]))


AT_ONCE = 16
"""Files whose footers are fetched at the same time."""


def fetched(inputs: Sequence[str | Path]) -> list[str | Path]:
    """The inputs with each id of a data set replaced by a Parquet file of its rows, in Headway's cache.

    The file is named by what ``datasets`` calls the rows' fingerprint, and written once, and again where it is damaged.
    Raises InputError as ``loaded`` does.
    """
    return [place if (wanted := dataset_id(place)) is None else _kept(wanted) for place in inputs]


def _kept(wanted: DatasetId) -> Path:
    name = re.sub(r"[^\w.-]+", "-", f"{wanted.name}-{wanted.split}")
    with loaded(wanted) as rows:
        path = cache_directory() / f"{name}-{cache_key(rows._fingerprint, rows.features)[:16]}.parquet"
        facts_path = path.with_suffix(".json")
        if not _is_whole(path, facts_path):
            with replacing(path) as file:
                rows.to_parquet(file)
            with replacing(facts_path) as file:
                file.write(sealed({"version": VERSION, "bytes": path.stat().st_size}, file_sums(path)))
    return path


def _is_whole(path: Path, facts_path: Path) -> bool:
    """Whether a file is there as it was written.  All of it is read, as it is when it is trained on."""
    if (record := recorded(path, facts_path)) is None:
        return False
    if not (whole := np.array_equal(file_sums(path), record[1])):
        warn_of_damage(path)
    return whole


def remote_shards(wanted: DatasetId) -> list[Shard]:
    """The Parquet files of a data set, left where they are, described by their footers.  Raises InputError."""
    files = parquet_files(wanted)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda file: look_at(file, partial(_Remote, file)), files))


class _Remote(io.RawIOBase):
    """A remote file, open for reading; every error on the way becomes ``Unreachable``."""

    def __init__(self, file: str):
        import fsspec

        self._file = self._tried(lambda: fsspec.open(file, "rb").open())

    def _tried(self, do: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return do(*arguments)
        except FileNotFoundError:
            raise
        except Exception as error:  # of fsspec, of what it reads by, and of what that connects with
            raise Unreachable(str(error).strip() or type(error).__name__) from None

    def read(self, size: int = -1) -> bytes:
        return self._tried(self._file.read, size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._tried(self._file.seek, offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    seekable = readable

    def close(self) -> None:
        if not self.closed and hasattr(self, "_file"):
            self._file.close()
        super().close()
