"""JSON from untrusted sources, read strictly: ambiguous or needlessly expensive JSON is refused."""

import json
import re
from pathlib import Path
from typing import Any, TypeVar

from headway.errors import InputError
from headway.io.regular_file import open_regular, other_kind, read_within

T = TypeVar("T")
MAX_BYTES = 10 * 2**20
MAX_DEPTH = 64
MAX_DIGITS = 40
"""Digits of a whole number; transformers writes 10^30 for "any length", which has 31."""
BYTES_PER_VALUE = 8
"""Bytes of the file's limit for each value it may hold: a value takes up to ten times that in memory."""


def read_object(path: Path, *, max_bytes: int = MAX_BYTES, advice: str = "expected a JSON file") -> dict[str, Any]:
    """The JSON object in a file; see ``parse_object`` for what is refused.

    The file must be a regular file of at most ``max_bytes``; ``advice`` ends the message when it is missing or damaged.
    Raises InputError naming the file.
    """
    return parse_object(read_text(path, max_bytes=max_bytes, advice=advice), str(path), max_bytes, advice)


def read_list(path: Path, *, max_bytes: int = MAX_BYTES, advice: str = "expected a JSON file") -> list[Any]:
    """The JSON array in a file, with the same refusals."""
    return _checked(read_text(path, max_bytes=max_bytes, advice=advice), str(path), max_bytes, advice, list, "a list")


def read_text(path: Path, *, max_bytes: int = MAX_BYTES, advice: str = "expected a JSON file") -> str:
    """The text of a regular UTF-8 file of at most ``max_bytes``.  Raises InputError naming the file."""
    with open_regular(path, advice) as file:
        content = read_within(file, path, max_bytes)
    if kind := other_kind(content[:256]):
        raise InputError(f"{path}: not JSON: found {kind[0]}; {kind[1] or advice}")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}; expected a JSON file") from None


def parse_object(
    text: str,
    where: str,
    max_bytes: int = MAX_BYTES,
    advice: str = "expected a JSON file",
    max_depth: int = MAX_DEPTH,
) -> dict[str, Any]:
    """The JSON object in a text.

    Refused: duplicate keys, NaN and infinity (``1e400`` too), whole numbers of more than 40 digits, lone surrogates,
    more than ``max_depth`` levels of nesting, and more values than a file of ``max_bytes`` could sensibly hold.
    Raises InputError beginning with ``where``.
    """
    return _checked(text, where, max_bytes, advice, dict, "an object", max_depth)


def _checked(
    text: str, where: str, max_bytes: int, advice: str, kind: type[T], expected: str, max_depth: int = MAX_DEPTH
) -> T:
    """The value in a text, which must be of a kind."""
    values = text.count(",") + text.count("[") + text.count("{")  # an upper bound
    if values > max_bytes // BYTES_PER_VALUE:
        raise InputError(f"{where}: found {values} values, expected at most {max_bytes // BYTES_PER_VALUE}")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_without_duplicates,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_bounded,
        )
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except RecursionError:
        raise InputError(f"{where}: nested too deeply; expected at most {max_depth} levels") from None
    except ValueError as error:
        raise InputError(f"{where}: not JSON ({error}); {advice}") from None
    if not isinstance(value, kind):
        raise InputError(f"{where}: found a JSON {type(value).__name__}, expected {expected}")
    if _depth(value) > max_depth:
        raise InputError(f"{where}: found more than {max_depth} levels of nesting, expected at most {max_depth}")
    if re.search(r"\\u[dD][89a-fA-F]", text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise InputError(f"{where}: found a lone surrogate in a string, expected Unicode text") from None
    return value


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InputError(f"found the key {twice[:200]!r} twice in one object, expected it once")
    return value


def _refuse_constant(name: str) -> float:
    raise InputError(f"found {name}, expected a finite number")


def _finite(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise InputError(f"found {digits[:40]}, expected a finite number")
    return value


def _bounded(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise InputError(
            f"not JSON within limits: found a whole number of {len(digits)} digits, expected at most {MAX_DIGITS}"
        )
    return int(digits)


def _depth(value: Any) -> int:
    """Levels of nesting; counting stops just past the limit."""
    level, depth = [value], 0
    while level and depth <= MAX_DEPTH:
        depth += 1
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, (dict, list))
        ]
    return depth
