"""Files written whole or not at all."""

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headway.io.quantities import size


def new_mode() -> int:
    """The rights of a new file, as the user's umask leaves them.

    It is read where the system tells it: to ask for it by setting it would change it for other threads meanwhile.
    """
    try:
        with Path("/proc/self/status").open(encoding="utf-8") as file:
            mask = next(int(line.split()[1], 8) for line in file if line.startswith("Umask:"))
    except (OSError, StopIteration):
        mask = os.umask(0o077)
        os.umask(mask)
    return 0o666 & ~mask


def why_not(place: Path, error: Exception, needed: int = 0) -> str:
    """Why ``place`` cannot be written, with the bytes that are ``needed``, where known, and those that are free."""
    reason = getattr(error, "strerror", None) or str(error)
    sizes = [f"it needs {size(needed)}"] if needed else []
    if getattr(error, "errno", None) == errno.EFBIG:
        sizes.append("files may not be so large there (ulimit -f, or the file system)")
    with contextlib.suppress(OSError, StopIteration):
        folder = next(folder for folder in place.parents if folder.exists())
        sizes.append(f"{size(shutil.disk_usage(folder).free)} are free there")
    return f"({reason}); {', and '.join(sizes)}"


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a file beside ``path``, flush it to disk, then put it in place in one step.

    Whoever reads ``path`` sees the old file or the new one, never half of one; an error leaves the old one untouched.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(beside)
        beside.chmod(new_mode())
        flush(beside)
        beside.replace(path)
        flush(path.parent)
    except OSError as error:
        if error.errno is not None:
            error.filename = error.filename or str(path)  # a disk that is full does not say so by itself
        raise
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as JSON, whole or not at all; NaN and infinity raise ValueError."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8"))


def append_line(path: Path, line: str) -> None:
    """Add a line to a file, below what a program that was killed may have left of one."""
    with path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            line = line if file.read(1) == b"\n" else f"\n{line}"
        file.write(f"{line}\n".encode())


def flush(path: Path) -> None:
    """Make the operating system write a file or a directory to disk now."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
