"""Running text in Parquet shards, read as needed: it may be larger than memory and disk."""

import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.data.open.files import Tally
from headway.data.records.corpus import Corpus, Document, Facts, Source, row_chunks, texts_source
from headway.data.stream.shards import Shard, spread
from headway.errors import InputError
from headway.io.quantities import counted

HELD_OUT = 0.1
"""The maximum share of the rows that is held out."""
HELD_CHARACTERS = 2_000_000
"""The maximum number of characters that are held out, about."""
HELD_GROUPS = 16
"""Row groups from which they come at most."""
SAMPLED_GROUPS = 16
"""Row groups from which a sample of the training rows comes at most."""
LOOKED_AT = 64
"""Rows of each of these by which the length of all others is judged."""


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

    What a ``Corpus`` counts is here known without reading everything: bytes and documents from the footers, characters
    by a sample of the rows.  The fingerprint covers the column's name and the shards (see ``Shard``).
    """

    def __init__(self, shards: Sequence[Shard], column: str) -> None:
        """Raises InputError where there are fewer than two rows."""
        self.shards, self.column = tuple(shards), column
        super().__init__([_source(shard, column) for shard in shards])
        self.groups = tuple(
            Group(at, number, rows)
            for at, shard in enumerate(shards)
            for number, rows in enumerate(shard.groups)
            if rows
        )
        self.n_rows = sum(group.rows for group in self.groups)
        if self.n_rows < 2:
            raise InputError(f"{self.name}: has {counted(self.n_rows, 'row')}; expected several, each with a document.")

    @functools.cached_property
    def facts(self) -> Facts:
        """Counts (characters are estimated) and the fingerprint; reads a few rows."""
        digest = hashlib.sha256("\0".join([self.column, *(shard.fingerprint for shard in self.shards)]).encode())
        n_bytes = sum(shard.size for shard in self.shards)
        return Facts(n_bytes, round(self.n_rows * self._row_length), self.n_rows, 0, digest.hexdigest())

    @functools.cached_property
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
        found = self.groups[group]
        for (text,) in self.shards[found.shard].rows(found.number, [self.column], start, count):
            yield text

    def texts_of(self, group: int) -> Any:
        """All rows of a row group, as ``Shard.column`` gives them: the only thing here that holds one in memory."""
        found = self.groups[group]
        return self.shards[found.shard].column(found.number, self.column)

    @functools.cached_property
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

    @functools.cached_property
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
        texts: list[str] = []
        chosen = [able[at] for at in spread(len(able), SAMPLED_GROUPS)]
        room = most
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
        return Corpus([texts_source(self.sources[0].path, texts)])

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


def _source(shard: Shard, column: str) -> Source:
    """All rows of a shard as documents, read as a stream."""

    def documents(tally: Tally | None) -> Iterator[Document]:
        number = 0
        for group in range(len(shard.groups)):
            for (text,) in shard.rows(group, [column]):
                number += 1
                yield Document(f"{shard.name}:{number}", functools.partial(row_chunks, text))

    return Source(Path(shard.name), documents, column)
