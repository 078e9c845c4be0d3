"""Standard input, output and error as a shell may leave them: closed, on a full disk, or with no reader.

Messages on standard error may be lost, which ends no command.  Standard output carries the result: when it cannot be
written, the command says so and ends.  Where the reader has gone, as with ``| head``, it ends quietly.
"""

import errno
import io
import os
import sys
from typing import Any, TextIO, cast


class OutputLost(Exception):
    """Standard output cannot be written.  ``reader_left``: because its reader has gone."""

    def __init__(self, error: OSError):
        super().__init__(f"standard output cannot be written ({error.strerror or error})")
        self.reader_left = error.errno == errno.EPIPE


class _Lossy(io.FileIO):
    """A file that drops bytes it cannot write."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(memoryview(data))


class _Output(io.FileIO):
    """A file that raises OutputLost once when it cannot be written and drops the rest, so that the program can end."""

    lost = False

    def write(self, data: Any) -> int:
        size = len(memoryview(data))
        try:
            return size if self.lost else super().write(data)
        except OSError as error:
            self.lost = True
            raise OutputLost(error) from None


def never_failing(stream: TextIO) -> TextIO:
    """A stream to the same file that drops what cannot be written; the stream itself where it has no file."""
    return _over(_Lossy, stream)


def guard_standard_streams() -> None:
    """Make the process's standard streams behave as this module describes.  Streams replaced by tests stay as they are.

    A closed stream becomes the null device, so that a file opened later does not get its number.  ``sys.stdin`` stays
    None where standard input is closed, and ``sys.stdout`` drops what is written.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            os.set_inheritable(descriptor, True)
    if sys.stdout is None:
        sys.stdout = _opened(_Lossy(1, "w", closefd=False))
    elif sys.stdout is sys.__stdout__:
        sys.stdout = _over(_Output, cast(TextIO, sys.stdout))
    if sys.stderr is None:
        sys.stderr = _opened(_Lossy(2, "w", closefd=False))
    elif sys.stderr is sys.__stderr__:
        sys.stderr = _over(_Lossy, cast(TextIO, sys.stderr))


def _over(kind: type[io.FileIO], stream: TextIO) -> TextIO:
    """A text stream to the file of another stream."""
    try:
        stream.flush()
        raw = kind(stream.fileno(), "w", closefd=False)
    except (OSError, ValueError, AttributeError):
        return stream
    ways = {name: getattr(stream, name, False) for name in ("line_buffering", "write_through")}
    return _opened(raw, stream.encoding, **ways)


def _opened(raw: io.FileIO, encoding: str | None = "utf-8", **ways: Any) -> TextIO:
    """Characters that a terminal cannot show are written as their codes."""
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors="backslashreplace", **ways)
