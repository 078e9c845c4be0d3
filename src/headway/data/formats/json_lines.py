"""JSON Lines, one object per line, or one JSON list of objects: the same keys in each, of one type."""

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any, Never

from headway.data.open.files import longest_list
from headway.data.records.rows import BadRows, Native, OpenTable, chunked, shorten
from headway.errors import InputError

BLANK = " \t\n\r"
"""What may stand between values in JSON."""
PAIRS = "translation"
"""The key whose object holds a text in each language."""


class Malformed(ValueError):
    """One line is wrong; the message says how."""


@dataclass(frozen=True)
class _Number:
    """A number as it is written in the file."""

    text: str


def open_json_lines(path: Path, lines: Iterator[str], bad: BadRows) -> OpenTable:
    """Read the first object of a JSON Lines file, which fixes the columns, and return columns and rows.

    A string is taken as it is, a number as it is written, true and false as those words, null as "", a list or an
    object as JSON.  Raises InputError for a file that is no JSON Lines, and through `bad` for malformed lines.
    """
    objects = json_objects(path, lines, bad)
    first = next(objects, None)
    if first is None:
        raise InputError(f"{path}: this file has no rows; expected one JSON object per line.")
    columns = list(first[1])
    if not columns:
        raise InputError(f'{path}, line {first[0]}: the first object is empty; expected keys such as "text".')
    return OpenTable(columns, chunked(columns, _rows(chain([first], objects), columns, bad)))


def _rows(objects: Iterable[tuple[int, dict]], columns: list[str], bad: BadRows) -> Iterator[tuple[int, list[str]]]:
    types, first = dict[str, tuple[str, int]](), 0
    for line, value in objects:
        first = first or line
        try:
            row = _values(value, line, columns, types, first)
        except Malformed as error:
            bad.add(line, str(error))
            continue
        yield line, row


def json_objects(path: Path, lines: Iterator[str], bad: BadRows) -> Iterator[tuple[int, dict]]:
    """The object on each line, or each object of a list, with its line; blank lines are left out."""
    started = False
    for line, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        if not started and text.lstrip().startswith("["):
            yield from _list_of_objects(path, "\n" * (line - 1) + text, lines, bad)
            return
        started = True
        try:
            if "\0" in text:
                column = text.index("\0") + 1
                raise Malformed(f"a NUL byte at column {column}; expected text. Remove it and run again.")
            value, end = _decode(text, _after_blank(text, 0))
            if rest := text[end:].strip(BLANK):
                raise Malformed(f"after the JSON object comes {shorten(rest, 20)}; expected one object per line.")
            yield line, _flat(_checked(value, text))
        except Malformed as error:
            bad.add(line, str(error))


def _list_of_objects(path: Path, head: str, lines: Iterator[str], bad: BadRows) -> Iterator[tuple[int, dict]]:
    """The objects of one JSON list, which begins in ``head`` and is held in memory.

    Raises InputError where the list is no JSON: what follows cannot be told apart then, so no row can be left out.
    """
    parts, size, most = [head], len(head), longest_list(path)
    for text in lines:
        parts.append(text)
        if (size := size + len(text) + 1) > most:
            raise InputError(
                f"{path}: this JSON list has more than {most:,} characters; write one object per line (JSON "
                "Lines), which is read as a stream."
            )
    whole = "\n".join([*parts, ""])
    parts.clear()

    def wrong(at: int, what: str) -> InputError:
        return InputError(f"{path}, line {line + whole.count(chr(10), seen, at)}: {what}")

    line, seen = 1, 0
    if "\0" in whole:
        raise wrong(whole.index("\0"), "a NUL byte; expected text. Remove it and run again.")
    at = _after_blank(whole, whole.index("[") + 1)
    while not whole.startswith("]", at):
        line, seen = line + whole.count("\n", seen, at), at
        try:
            value, at = _decode(whole, at)
        except Malformed as error:
            raise wrong(at, str(error)) from None
        try:
            yield line, _flat(_checked(value, whole[seen:at]))
        except Malformed as error:
            bad.add(line, str(error))
        at = _after_blank(whole, at)
        if whole.startswith(",", at):
            at = _after_blank(whole, at + 1)
            if whole.startswith("]", at):
                raise wrong(at, "trailing comma at the end of the JSON list.")
        elif not whole.startswith("]", at):
            what = shorten(whole[at : at + 20], 20) if at < len(whole) else "the end of the file"
            raise wrong(at, f"{what} follows an object of the JSON list; expected a comma or its end.")
    if rest := whole[at + 1 :].strip():
        raise wrong(at, f"{shorten(rest, 20)} follows the end of the JSON list.")


def _after_blank(text: str, at: int) -> int:
    """The place of the first character from ``at`` on that is not blank in JSON."""
    return next((place for place in range(at, len(text)) if text[place] not in BLANK), len(text))


def _decode(text: str, at: int) -> tuple[object, int]:
    """The JSON value at a place of a text, and where it ends.  Raises Malformed."""
    try:
        return DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise Malformed(f"this is not a complete JSON object ({error.msg} at column {error.colno}).") from None
    except RecursionError:
        raise Malformed("this JSON is nested too deeply; expected an object of texts and numbers.") from None


def from_json(cell: str) -> Any:
    """The list or object that a cell holds as JSON; any other cell as it is."""
    try:
        value, end = _decode(cell, 0) if cell.startswith(("[", "{")) else (cell, len(cell))
    except Malformed:
        return cell
    return cell if cell[end:].strip() else value


def _checked(value: object, text: str) -> dict:
    """A value that is an object of texts and numbers, as it is in the file, without NUL and half a surrogate pair."""
    if not isinstance(value, dict):
        raise Malformed(f'this is {json_type(value)}, expected an object such as {{"text": "…"}}.')
    for key, cell in value.items() if "\\u" in text else ():  # what only an escape can put into a string
        if isinstance(cell, str) and re.search("[\0\ud800-\udfff]", cell):
            raise Malformed(f"{key!r} contains an escaped NUL or half a character; expected text. Remove it.")
    return value


def _flat(value: dict) -> dict:
    """An object whose "translation" holds the text in each language, with these as its own: Hugging Face's pairs."""
    sides = value.get(PAIRS)
    return {**{k: v for k, v in value.items() if k != PAIRS}, **sides} if isinstance(sides, dict) else value


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, value in pairs:
        if key in values:
            raise Malformed(f"the key {key!r} occurs twice; keep one.")
        values[key] = value
    return values


def _refuse(word: str) -> Never:
    raise Malformed(f"{word} is not a JSON value; write null, or leave the row out.")


def json_type(value: object) -> str:
    """What a value of a JSON file is, in words."""
    if isinstance(value, _Number):
        return "a number"
    words = {str: "a string", bool: "true or false", dict: "an object", list: "a list", type(None): "null"}
    return words[type(value)]


def _values(
    value: dict, line: int, columns: list[str], types: dict[str, tuple[str, int]], first_line: int
) -> list[str]:
    """The values of one object as strings, in the order of the columns; `types` learns the type of each column."""
    if missing := [name for name in columns if name not in value]:
        raise Malformed(f"no {missing[0]!r} here, but line {first_line} has it. Add it, or write null.")
    if len(value) > len(columns):
        extra = next(name for name in value if name not in columns)
        raise Malformed(f"the key {extra!r} is not in line {first_line}. Remove it, or add it to every line.")
    kinds = {name: (json_type(value[name]), line) for name in columns if value[name] is not None}
    for name, (kind, _) in kinds.items():
        expected, where = types.get(name, (kind, line))
        if kind != expected:
            cell = shorten(text_of(value[name]), 20)
            raise Malformed(f"{name!r} is {kind} ({cell}), expected {expected} as in line {where}.")
    types.update({**kinds, **types})
    return [text_of(value[name]) for name in columns]


def text_of(value: object) -> str:
    """A value of a file, or of data in memory, as a cell of a table: a ``Native`` one where it is no text."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, _Number):
        return Native(value.text)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list | dict):
        return Native(json.dumps(value, ensure_ascii=False, default=_in_json))
    if value is None or value != value:
        return Native()
    if isinstance(value, bool):
        return Native("true" if value else "false")
    written = str(value)
    return Native(written) if isinstance(value, int | float | Decimal) and math.isfinite(value) else written


def _in_json(value: object) -> Any:
    return json.loads(value.text) if isinstance(value, _Number) else text_of(value)


DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_refuse, parse_int=_Number, parse_float=_Number)
