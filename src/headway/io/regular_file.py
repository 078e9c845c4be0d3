"""Untrusted files: kept inside their directory, opened without blocking, hashed, and named when they are otherwise.

A directory that was downloaded or unpacked may hold anything under an expected name: a link to elsewhere, a pipe that
never ends, a device, or the small text that Git LFS or a web server leaves in place of the file.
"""

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from headway.errors import InputError, shown

_OTHER_KINDS = (
    (b"version https://git-lfs", "a Git LFS pointer", "run `git lfs pull` to get the file itself"),
    (b"PK\x03\x04", "a zip file", ""),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", ""),
    (b"\x1f\x8b", "a gzip file", "unpack it first"),
    (b"\x7fELF", "a program (ELF)", ""),
    (b"MZ", "a program (PE)", ""),
    (b"GGUF", "a GGUF file", ""),
    (b"\x93NUMPY", "a NumPy array", ""),
    *((bytes([128, protocol]), "a Python pickle", "it can run code; get the safetensors") for protocol in range(2, 6)),
)  # fmt: skip
"""First bytes, what such a file is, and what to do about it."""


def check_name(name: str, what: str = "") -> str:
    """The name of a file or folder, unchanged.  Raises InputError for one that is empty or not valid text.

    An empty name would mean the working directory and everything in it.
    """
    begin = f"{what} " if what else ""
    if not name.strip():
        raise InputError(f"{begin}is empty; name a file or a folder (. is the working directory)".strip())
    if "\0" in name:
        raise InputError(f"{begin}{shown(name)}: has a NUL character, which no file name can have")
    try:
        longest = max(len(part.encode("utf-8")) for part in (Path(name).parts or (".",)))
    except UnicodeEncodeError:
        raise InputError(f"{begin}{shown(name)}: is not valid UTF-8; rename the file or the folder") from None
    if longest > 255 or len(name.encode()) > 4095:
        raise InputError(
            f"{begin}{shown(name)}: is longer than a file name can be (255 bytes); give the name of a file"
        )
    return name


def inside(directory: Path, name: str) -> Path:
    """The path of a file in a directory.  A symbolic link must stay inside the directory.

    The exception is the cache of the Hugging Face hub, ``models--…/snapshots/REVISION``, whose files are links into the
    ``blobs`` next to ``snapshots``, and from there into the ``blobs`` shared by all models: there a link may stay
    inside ``models--…`` or lead to those.  Raises InputError for a link that leaves.  A missing file is no error here.
    """
    path = directory / name
    try:
        if not path.is_symlink():
            return path
        root = directory.resolve()
        cached = root.parent.name == "snapshots"
        root = root.parent.parent if cached else root
        target = path.resolve()
        contained = target.is_relative_to(root) or (cached and target.is_relative_to(root.parent / "blobs"))
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{path}: cannot be read ({_reason(error)})") from None
    if not contained:
        raise InputError(
            f"{path}: found a link to {target}, expected a link that stays inside {root}; "
            "copy the file here if you trust it"
        )
    return path


def open_regular(path: Path, missing: str = "expected a file") -> BinaryIO:
    """Open a regular file for reading.  Nothing else is opened, and opening never blocks.

    Raises InputError; ``missing`` is the advice where there is no such file.
    """
    try:
        _check_regular(path, path.stat().st_mode)
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {missing}") from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be read ({_reason(error)})") from None
    file = os.fdopen(descriptor, "rb", buffering=0)
    try:
        _check_regular(path, os.fstat(descriptor).st_mode)  # check the opened file again: it may have been replaced
    except InputError:
        file.close()
        raise
    return file


def read_within(file: BinaryIO, path: Path, max_bytes: int) -> bytes:
    """All of an open file of at most ``max_bytes``.  Raises InputError naming ``path``."""
    size = os.fstat(file.fileno()).st_size
    if size > max_bytes:
        raise InputError(f"{path}: found {size} bytes, expected at most {max_bytes}")
    content = bytearray()
    try:
        while len(content) <= max_bytes and (piece := file.read(2**20)):
            content += piece  # read to the end: the reported size may be wrong, or change
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({_reason(error)})") from None
    if len(content) > max_bytes:
        raise InputError(f"{path}: found more than {max_bytes} bytes, expected at most that many")
    return bytes(content)


def other_kind(head: bytes) -> tuple[str, str] | None:
    """What a file that is neither JSON nor safetensors is, by its first bytes, and what to do about it."""
    for start, what, advice in _OTHER_KINDS:
        if head.startswith(start):
            return what, advice
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:64].lower()
    if text.startswith((b"<html", b"<!doctype html", b"<?xml")):
        return "a web page", "the download went wrong; get the file again"
    return None


def _check_regular(path: Path, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    what = kinds.get(stat.S_IFMT(mode), "a device")
    raise InputError(f"{path}: cannot be read: found {what}, which is not a regular file; expected a regular file")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


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
