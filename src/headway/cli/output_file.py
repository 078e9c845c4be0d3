"""Files of results: one that is written at once, and one that grows as answers come, which is resumed after a kill."""

import contextlib
import json
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from headway.errors import InputError, RunFailed
from headway.io.atomic_write import flush, why_not, write_whole
from headway.io.file_lock import locked

FORMAT = 1
SYNC = 5.0
"""Seconds between two flushes of the results to disk."""


def make_folder(path: Path) -> None:
    """Make the folder of a file, and those above it.  Raises InputError if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path.parent}: this folder cannot be made ({error.strerror or error}).") from None


def write_output(to: str, parts: Iterable[bytes]) -> None:
    """Write a file, completely or not at all.  Raises InputError if that fails."""

    def write(new: Path) -> None:
        with new.open("wb") as file:
            file.writelines(parts)

    path = Path(to)
    make_folder(path)
    try:
        write_whole(path, write)
    except OSError as error:
        raise InputError(f"{to}: cannot be written ({error.strerror or error}).") from None


class OutputFile(contextlib.AbstractContextManager["OutputFile"]):
    """The results for many inputs, in order, at ``to``; the file gets that name when it is complete.

    Until then they are in ``to``.part, and ``to``.journal records after each chunk how many inputs are answered and
    what the file holds so far: bytes and their CRC-32.  Anything beyond that, after a kill or a power failure, is
    truncated.  ``asked`` identifies everything that the answers depend on; results for anything else are discarded.
    ``header`` comes before the first answer.
    """

    def __init__(self, to: str | Path, asked: str, header: bytes = b""):
        """Raises InputError if another command is writing the file, or if ``to``.part is not ours."""
        self.to, self.header = Path(to), header
        make_folder(self.to)
        self.part, self.journal = (self.to.with_name(f"{self.to.name}.{ending}") for ending in ("part", "journal"))
        self.inputs = 0
        """how many inputs are answered"""
        self.results: list[Any] = []
        """the results given to ``add``, including those of earlier commands"""
        self._bytes = self._sum = 0
        self._synced = time.monotonic()
        self._lock, self._descriptor = contextlib.ExitStack(), -1
        try:
            self._lock.enter_context(locked(self.part))
            self._descriptor = os.open(self.part, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
            with self._writing():
                self._begin(asked)
        except BlockingIOError:
            raise InputError(
                f"{to}: another command is writing this file; wait for it, or name another file with --to."
            ) from None
        except OSError as error:
            self.close()
            raise InputError(f"{to}: cannot be written ({error.strerror or error}).") from None
        except BaseException:
            self.close()
            raise

    def __exit__(self, *error: object) -> None:
        self.close()

    def add(self, data: bytes, inputs: int, results: list[Any] | None = None) -> None:
        """Write a chunk, after which ``inputs`` inputs are answered.  Raises RunFailed if writing fails."""
        with self._writing():
            _write(self._descriptor, data)
            if time.monotonic() - self._synced >= SYNC:
                os.fsync(self._descriptor)
                self._synced = time.monotonic()
            self._bytes, self._sum = self._bytes + len(data), zlib.crc32(data, self._sum)
            mark: dict[str, Any] = {"inputs": inputs, "bytes": self._bytes, "crc": self._sum}
            if results is not None:
                mark["results"] = results
                self.results += results
            self._note(mark)
            self.inputs = inputs

    def finish(self, convert: Callable[[Path], None] = lambda part: None) -> None:
        """Give the complete file its name, after ``convert``, which may replace it."""
        with self._writing():
            os.fsync(self._descriptor)
            convert(self.part)
            self.part.replace(self.to)
            self.journal.unlink(missing_ok=True)
            flush(self.to.parent)

    def discard(self) -> None:
        """Remove the partial file and its journal, which are no longer needed."""
        for path in (self.part, self.journal):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file; the same command can resume it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._lock.close()

    def read(self) -> bytes:
        return self.part.read_bytes()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            kept = f" The answers for {self.inputs:,} inputs are saved; run the same command again to resume."
            raise RunFailed(
                f"{self.to}: cannot be written {why_not(self.to, error)}.{kept if self.inputs else ''}"
            ) from None

    def _begin(self, asked: str) -> None:
        """Resume after the last complete chunk, or start over."""
        head, marks, end = self._noted()
        size = os.fstat(self._descriptor).st_size
        if head is None and size:
            raise InputError(f"{self.part}: this file exists and was not written by this command; remove or rename it.")
        if head is not None and head.get("asked") == asked:
            for mark, after in marks:
                if not self._holds(mark):
                    break
                self.inputs, end = mark["inputs"], after
                self._bytes, self._sum = mark["bytes"], mark["crc"]
                self.results += mark.get("results", [])
            if self._bytes:
                os.truncate(self.journal, end)
                os.ftruncate(self._descriptor, self._bytes)
                os.lseek(self._descriptor, 0, os.SEEK_END)
                return
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        with self.journal.open("wb") as file:
            file.write(_line({"headway": "results", "format": FORMAT, "asked": asked}))
            file.flush()
            os.fsync(file.fileno())
        self.add(self.header, 0)

    def _noted(self) -> tuple[dict[str, Any] | None, list[tuple[dict[str, Any], int]], int]:
        """The first line of the journal, its other lines, each with its end in bytes, and the end of the first.

        Reading stops at the first incomplete line.
        """
        found: list[tuple[dict[str, Any], int]] = []
        at = 0
        with contextlib.suppress(FileNotFoundError):
            for line in self.journal.read_bytes().splitlines(keepends=True):
                values = _values(line)
                if values is None:
                    break
                at += len(line)
                found.append((values, at))
        if not found or found[0][0].get("format") != FORMAT:
            return None, [], 0
        return found[0][0], found[1:], found[0][1]

    def _holds(self, mark: dict[str, Any]) -> bool:
        """Whether the part file continues as a line of the journal says."""
        count, total = mark["bytes"] - self._bytes, self._sum
        os.lseek(self._descriptor, self._bytes, os.SEEK_SET)
        while count > 0:
            data = os.read(self._descriptor, min(count, 1 << 20))
            if not data:
                return False
            total, count = zlib.crc32(data, total), count - len(data)
        return total == mark["crc"]

    def _note(self, mark: dict[str, Any]) -> None:
        descriptor = os.open(self.journal, os.O_WRONLY | os.O_APPEND)
        try:
            _write(descriptor, _line(mark))
        finally:
            os.close(descriptor)


def _line(values: dict[str, Any]) -> bytes:
    """A line of the journal; it begins with its checksum."""
    content = json.dumps(values).encode()
    return b"%08x %s\n" % (zlib.crc32(content), content)


def _values(line: bytes) -> dict[str, Any] | None:
    """The content of a line of the journal; None if the line is incomplete."""
    said, _, content = line.partition(b" ")
    whole = content.endswith(b"\n") and said == b"%08x" % zlib.crc32(content[:-1])
    return json.loads(content) if whole else None


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while len(rest):
        rest = rest[os.write(descriptor, rest) :]
