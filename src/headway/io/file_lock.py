"""Locks on files and directories, which the operating system ends with the process that holds them."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on this system
    fcntl = None  # type: ignore[assignment]

_held: set[int] = set()
"""File descriptors that this process has locked."""


def _let_go() -> None:
    """Close the locks in a forked process: a worker that outlives its parent must not lock others out."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = False, shared: bool = False) -> Iterator[bool]:
    """Hold the lock of a directory, or of a file, which is made for it; gives whether no other process holds it.

    Without ``wait`` raises BlockingIOError where another process holds it; of a ``shared`` lock, where another holds
    one that is not.  A file system without locks has none.
    """
    if fcntl is None:
        yield True
        return
    descriptor, alone = _locked(path, wait, shared)
    _held.add(descriptor)
    try:
        yield alone
    finally:
        _held.discard(descriptor)
        os.close(descriptor)


def _locked(path: Path, wait: bool, shared: bool) -> tuple[int, bool]:
    """What is there, open and locked, and whether no other process holds it."""
    while True:
        descriptor = os.open(path, os.O_RDONLY | (0 if path.is_dir() else os.O_CREAT), 0o666)
        alone = _is_free(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        if not (_is_free(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB) if shared else alone):
            os.close(descriptor)
            raise BlockingIOError(f"{path}: another process holds its lock")
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor, alone
        os.close(descriptor)  # meanwhile another process has renamed or removed it


def _is_free(descriptor: int, how: int) -> bool:
    """Lock a file or directory, if no other process holds it; a file system without locks has none."""
    try:
        fcntl.flock(descriptor, how)
    except OSError as error:
        return not isinstance(error, BlockingIOError)
    return True
