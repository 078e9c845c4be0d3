"""Standard input, output and error as a user's shell leaves them: closed, full, or with nobody who reads.

What is said on standard error may be lost: that ends no command.  What is written to standard output is the result: the
command says that it cannot be written, and ends.  Where the reader has gone, as with ``| head``, it ends quietly.
"""

import errno
import io
import os
import sys
from typing import Any, TextIO, cast


class OutputLost(Exception):
    """Standard output cannot be written.  ``reader_left`` says that nobody reads it any more."""

    def __init__(self, error: OSError):
        super().__init__(f"standard output cannot be written ({error.strerror or error})")
        self.reader_left = error.errno == errno.EPIPE


class _Lossy(io.FileIO):
    """A file whose bytes are lost where they cannot be written."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(memoryview(data))


class _Output(io.FileIO):
    """A file that raises OutputLost once where it cannot be written; the rest is lost, so that the program can end."""

    lost = False

    def write(self, data: Any) -> int:
        size = len(memoryview(data))
        try:
            return size if self.lost else super().write(data)
        except OSError as error:
            self.lost = True
            raise OutputLost(error) from None


def never_failing(stream: TextIO) -> TextIO:
    """A stream to the same file that loses what cannot be written; the stream itself where it has no file."""
    return _over(_Lossy, stream)


def guard_standard_streams() -> None:
    """Give the process standard streams that behave as this module says.  Streams that tests put there are left alone.

    A closed stream becomes the null device, which keeps its number from a file that is opened later.  ``sys.stdin``
    stays None where standard input is closed, and ``sys.stdout`` loses what is written.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free, which is this one
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
    """A text stream to the file of another one."""
    try:
        stream.flush()
        raw = kind(stream.fileno(), "w", closefd=False)
    except (OSError, ValueError, AttributeError):
        return stream
    ways = {name: getattr(stream, name, False) for name in ("line_buffering", "write_through")}
    return _opened(raw, stream.encoding, **ways)


def _opened(raw: io.FileIO, encoding: str | None = "utf-8", **ways: Any) -> TextIO:
    """What a terminal cannot show is written as its code."""
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors="backslashreplace", **ways)
