"""Tokens in a file: only the requested part is read into memory, and checked by its checksums."""

import contextlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from headway.errors import InputError

BLOCK = 1 << 16
"""Bytes of a block, except the last of a file, which may be shorter; each has a CRC-32 (``zlib.crc32``).

It finds every change of up to 32 bits in a row, and misses one in 4e9 of all others.  A cache is damaged by disks and
by accidents, not by attackers: a cryptographic hash would add only time (0.35 instead of 1.6 GB/s on one core).
"""


def blocks(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in blocks."""
    held = b""
    for part in parts:
        held += part
        whole = len(held) - len(held) % BLOCK
        yield from (held[at : at + BLOCK] for at in range(0, whole, BLOCK))
        held = held[whole:]
    if held:
        yield held


def file_sums(path: Path) -> np.ndarray:
    """The checksums of a file, uint32."""
    with path.open("rb") as file:
        return np.array([zlib.crc32(block) for block in iter(partial(file.read, BLOCK), b"")], dtype="<u4")


def first_damaged(data: bytes | memoryview, sums: np.ndarray) -> int | None:
    """The number of the first block that is not as its checksum says, None where all are."""
    view = memoryview(data)
    actual = (zlib.crc32(view[number * BLOCK : (number + 1) * BLOCK]) for number in range(len(sums)))
    return next((number for number, sum_ in enumerate(actual) if sum_ != sums[number]), None)


def sealed(facts: dict[str, Any], sums: np.ndarray) -> bytes:
    """What is recorded of a file, with the checksums of its blocks and a checksum of the record itself, as JSON."""
    facts = {**facts, "sums": sums.astype("<u4").tobytes().hex()}
    return json.dumps({**facts, "checksum": _sum_of(facts)}).encode()


def unsealed(facts: dict[str, Any]) -> tuple[dict[str, Any], np.ndarray]:
    """What ``sealed`` was given, from its JSON.  Raises ValueError where the record is damaged."""
    if facts.pop("checksum", None) != _sum_of(facts):
        raise ValueError("its checksum is another")
    return facts, np.frombuffer(bytes.fromhex(facts.pop("sums")), dtype="<u4")


def _sum_of(facts: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(facts).encode())


class Damaged(InputError):
    """A file of the cache has changed since it was written."""


class TokenFile:
    """A row of token ids in a file: its length, slices and single ids, as of an array that cannot be written.

    A memory map would do as well, but each of its pages that was looked at once counts as memory of the process, until
    all of the file does.  ``sums`` are the checksums of the file's blocks: a block is checked when it is first read.
    Raises Damaged when a block has changed since it was written, or when the file has become shorter.
    """

    def __init__(self, path: Path, dtype: np.dtype, count: int, sums: np.ndarray):
        self.path, self.dtype, self._count, self._sums = path, dtype, count, sums
        self._checked = bytearray(len(sums))  # 1 where this process has read the block and found it whole
        self._file = path.open("rb", buffering=0)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int | slice) -> np.ndarray:
        """The ids of a slice without steps, or the id (a scalar) at a place."""
        if not isinstance(index, slice):
            place = index + self._count if index < 0 else index
            if not 0 <= place < self._count:
                raise IndexError(f"there is no token {index} of {self._count}")
            return self._read(place, 1)[0]
        start, stop, step = index.indices(self._count)
        if step != 1:
            raise ValueError(f"step is {step}, expected 1")
        return self._read(start, max(0, stop - start))

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        """All of them."""
        return self._read(0, self._count).astype(self.dtype if dtype is None else dtype)

    def tolist(self) -> list[int]:
        """All of them."""
        return self._read(0, self._count).tolist()

    def check(self) -> None:
        """Check every block now, a few at a time.  Raises Damaged."""
        for first in range(0, len(self._sums), 16):
            self._check(first, min(first + 16, len(self._sums)))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read(self, start: int, count: int) -> np.ndarray:
        begin, end = start * self.dtype.itemsize, (start + count) * self.dtype.itemsize
        first, last = begin // BLOCK, -(-end // BLOCK)
        if self._checked.find(0, first, last) < 0:
            data = self._bytes(begin, end)
        else:
            data = self._check(first, last)[begin - first * BLOCK : end - first * BLOCK]
        return np.frombuffer(data, dtype=self.dtype)

    def _check(self, first: int, last: int) -> bytes:
        """The bytes of some blocks, checked."""
        whole = self._bytes(first * BLOCK, min(last * BLOCK, self._count * self.dtype.itemsize))
        damaged = first_damaged(whole, self._sums[first:last])
        if damaged is not None:
            number = first + damaged + 1
            raise self._damaged(f"block {number:,} of {len(self._sums):,} has changed since it was written")
        self._checked[first:last] = b"\1" * (last - first)
        return whole

    def _bytes(self, begin: int, end: int) -> bytes:
        try:
            data = os.pread(self._file.fileno(), end - begin, begin)  # threads and workers share the file's place
        except OSError as error:
            raise self._damaged(f"it cannot be read ({error.strerror or error})") from None
        if len(data) < end - begin:
            raise self._damaged("it is shorter than it was")
        return data

    def _damaged(self, what: str) -> Damaged:
        """The message; the file is removed, so that the next command makes it again."""
        with contextlib.suppress(OSError):
            self.path.unlink()
        todo = "remove it, and" if self.path.exists() else "it was removed;"
        return Damaged(f"{self.path}: this cache file is damaged: {what}; {todo} run the command again.")


Tokens = np.ndarray | TokenFile
"""A long row of token ids, in memory or in a file."""
