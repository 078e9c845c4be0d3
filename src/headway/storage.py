"""Files written whole or not at all."""

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a file beside ``path``, flush it to disk, then put it in place in one step.

    Whoever reads ``path`` sees the old file or the new one, never half of one; an error leaves the old one untouched.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(beside)
        beside.chmod(0o666 & ~_umask())
        flush(beside)
        beside.replace(path)
        flush(path.parent)
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as JSON, whole or not at all; NaN and infinity raise ValueError."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8"))


def flush(path: Path) -> None:
    """Make the operating system write a file or a directory to disk now."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
