"""SHA-256 of files, read in pieces: a file of gigabytes takes no more memory than a small one."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal.  Raises OSError."""
    with path.open("rb") as file:
        return sha256_of(file)


def sha256_of(file: BinaryIO) -> str:
    """The SHA-256 of an open file from its current position to its end, in hexadecimal."""
    digest = hashlib.sha256()
    add_file(digest, file)
    return digest.hexdigest()


def changed_file(directory: Path, sums: Mapping[str, Any]) -> Path | None:
    """The first file of a directory whose SHA-256 is not the one that is told, or that cannot be read; or None."""
    for name, expected in sums.items():
        path = directory / name
        try:
            if path.is_file() and sha256(path) == expected:
                continue
        except OSError:
            pass
        return path
    return None


def add_file(digest: "hashlib._Hash", file: BinaryIO) -> None:
    """Add the rest of an open file to a digest."""
    hashlib.file_digest(file, lambda: digest)  # type: ignore[arg-type]
