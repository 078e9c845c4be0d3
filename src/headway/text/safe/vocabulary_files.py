"""A tokenizer's files other than ``tokenizer.json``, read within limits."""

from pathlib import Path

from headway.errors import InputError
from headway.io.regular_file import open_regular, other_kind, read_within
from headway.text.safe.tokenizer_json import MAX_BYTES, MAX_IDS, read_object

MAX_LINE = 4096
"""Limit of characters in a line of a vocabulary or of merges."""


def read_bytes(path: Path, what: str) -> bytes:
    """The content of a regular file of at most 64 MiB; ``what`` describes the expected file in an InputError."""
    with open_regular(path, f"expected {what}") as file:
        data = read_within(file, path, MAX_BYTES)
    if kind := other_kind(data[:256]):
        raise InputError(f"{path}: found {kind[0]}, expected {what}; {kind[1] or 'get the file again'}")
    if not data:
        raise InputError(f"{path}: found an empty file, expected {what}")
    return data


def read_lines(path: Path, what: str) -> list[str]:
    """The lines of a UTF-8 text file, without line ends and without empty lines at the end of the file."""
    try:
        text = read_bytes(path, what).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}; expected {what}") from None
    lines = text.replace("\r\n", "\n").split("\n")
    while lines and not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, start=1):
        if len(line) > MAX_LINE:
            raise InputError(f"{path}: line {number}: found {len(line)} characters, expected at most {MAX_LINE}")
    if not lines:
        raise InputError(f"{path}: found no lines, expected {what}")
    return lines


def read_vocabulary(path: Path) -> dict[str, int]:
    """The tokens of a ``vocab.json`` with their ids, each unique."""
    vocabulary, _ = read_object(path)
    owner: dict[int, str] = {}
    for token, number in vocabulary.items():
        if type(number) is not int or not 0 <= number < MAX_IDS:
            found = repr(number)[:40]
            raise InputError(
                f"{path}: id of {token[:40]!r}: found {found}, expected an integer from 0 to {MAX_IDS - 1}"
            )
        if owner.setdefault(number, token) != token:
            raise InputError(
                f"{path}: token id {number}: found for {owner[number][:40]!r} and {token[:40]!r}, "
                "expected one token per id"
            )
    if not owner:
        raise InputError(f"{path}: found no tokens, expected at least one")
    return vocabulary
