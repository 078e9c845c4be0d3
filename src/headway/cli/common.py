"""What the verbs share: the options --json and --quiet, results, and texts from an argument, a file or a pipe."""

import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from headway.errors import InputError

ENDINGS = (".csv", ".tsv", ".jsonl", ".txt", ".gz")
"""What a file of texts is called."""


def output_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """--json and --quiet."""
    function = click.option("--quiet", is_flag=True, help="Show no progress.")(function)
    return click.option("--json", "as_json", is_flag=True, help="End with one JSON object on standard output.")(
        function
    )


def emit(result: dict[str, Any], as_json: bool, lines: list[str]) -> None:
    """Print a result: as one JSON object, or as lines for a person."""
    if as_json:
        unicode = (sys.stdout.encoding or "").casefold().startswith("utf")
        print(json.dumps(_finite(result), ensure_ascii=not unicode, allow_nan=False))
    else:
        for line in lines:
            print(line)


def _finite(value: Any) -> Any:
    """The same with None for numbers that JSON cannot hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    return [_finite(entry) for entry in value] if isinstance(value, list | tuple) else value


def standard_input() -> str:
    """All of standard input as UTF-8 text.  Raises InputError when it is something else."""
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not UTF-8 text (byte {error.start}).") from None


def lines_of(text: str) -> list[str]:
    """Lines, cut at line feeds alone; a carriage return before one is dropped, and no line follows the last."""
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def is_file(argument: str) -> bool:
    """Whether an argument names a file rather than being a text."""
    try:
        return Path(argument).is_file()
    except (OSError, ValueError):
        return False


def check_not_path(argument: str) -> None:
    """Raise InputError when an argument that is no file was surely meant as one: a folder, or a name with an ending."""
    path = Path(argument)
    if "\n" in argument or "\0" in argument or len(argument) > 255:
        return
    if os.sep in argument and path.is_dir():
        raise InputError(f"{argument}: this is a folder; name a file in it.")
    if " " not in path.name and path.suffix in ENDINGS:
        raise InputError(f"{argument}: there is no such file. (To use these very words as the text, pipe them to `-`.)")


def write_output(to: str, text: str) -> None:
    """Write a results file, whole or not at all.  Raises InputError when that is impossible."""
    from headway.storage import write_whole

    path = Path(to)
    try:
        write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8", newline=""))
    except OSError as error:
        raise InputError(f"{to}: cannot be written ({error.strerror or error}).") from None
