"""Locks on files and directories, which the operating system ends with the process that holds them."""

import contextlib
import os
import tempfile
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


def cache_directory() -> Path:
    """Where caches are kept: $HEADWAY_CACHE, $XDG_CACHE_HOME/headway or ~/.cache/headway; created.

    Where that cannot be written, a folder for temporary files that belongs to this user alone.
    """
    chosen = os.environ.get("HEADWAY_CACHE")
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        path = Path(chosen) if chosen else (Path(base) if base else Path.home() / ".cache") / "headway"
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except (OSError, RuntimeError):
        pass
    user = os.getuid() if hasattr(os, "getuid") else "user"
    shared = Path(tempfile.gettempdir()) / f"headway-cache-{user}"
    try:
        shared.mkdir(mode=0o700, exist_ok=True)
        status = shared.lstat()
        if shared.is_dir() and not shared.is_symlink() and status.st_uid == user and not status.st_mode & 0o022:
            return shared
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="headway-cache-"))
