"""Duplicate texts, found by hashes instead of the texts themselves."""

import hashlib
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

ASCII_BLANK = "\t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"
BLANK = ASCII_BLANK + "\x85\u1680\u2028\u2029"
"""What ``str.split`` takes for blank space, other than a space, and NFKC leaves as it is."""


def text_key(text: str) -> str:
    """What two texts share that read the same: NFKC, case folded, blank space collapsed."""
    return " ".join(_folded(text).split())


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def text_hashes(texts: Sequence[str]) -> np.ndarray:
    """A number for each text, int64 (N,), the same in every process: texts with one ``text_key`` have one number.

    Among five million texts, two others have the same one with a probability of 7e-7, and are taken for one text.
    """
    whole = "\0".join(texts)
    if whole.count("\0") != len(texts) - 1:  # no text, or one with a NUL
        return _hashes(map(text_key, texts))
    whole = _folded(whole)
    keys = whole.split("\0")
    if any(blank in whole for blank in (ASCII_BLANK if whole.isascii() else BLANK)):
        keys = [" ".join(key.split()) for key in keys]
    else:
        keys = [" ".join(key.split()) if "  " in key else key.strip() for key in keys]
    return _hashes(keys)


def _hashes(keys: Iterable[str]) -> np.ndarray:
    digests = [hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest() for key in keys]
    return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64, copy=False)


def group_numbers(hashes: np.ndarray) -> tuple[np.ndarray, int]:
    """The number of the group of equal hashes that each is in, int32 (N,), by its first member; and how many there are.

    Takes about 36 bytes for each hash meanwhile.
    """
    if not len(hashes):
        return np.zeros(0, dtype=np.int32), 0
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    del ordered
    first = order[new]
    rank = np.empty(len(first), dtype=np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    numbers = np.empty(len(hashes), dtype=np.int32)
    numbers[order] = rank[np.cumsum(new, dtype=np.int32) - 1]
    return numbers, len(first)


def shared(known: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The indices of those of other hashes that are known, int64."""
    return np.flatnonzero(np.isin(others, known))


def unknown(rows: Any, known: np.ndarray) -> Any:
    """Those of some rows, which have ``hashes`` and ``part``, whose hashes are not known."""
    new = ~np.isin(rows.hashes, known)
    return rows if new.all() else rows.part(np.flatnonzero(new))
