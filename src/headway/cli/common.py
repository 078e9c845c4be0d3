"""What the verbs share: the options --json and --quiet, results, and texts from an argument, a file or a pipe."""

import contextlib
import csv
import io
import json
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
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


def text_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """--text-column and --encoding: how a file of texts is read."""
    function = click.option("--encoding", help="Encoding of the file, if not UTF-8.")(function)
    return click.option("--text-column", help="Column that holds the text, if the file is a table.")(function)


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


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, for a verb that has something to clear away or to say first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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


def check_output(to: str | None, read: str, endings: tuple[str, ...]) -> None:
    """Raise InputError when results cannot go to ``to``: the file that is read, no kind that is written, no folder."""
    if to is not None and is_file(read) and Path(to).resolve() == Path(read).resolve():
        raise InputError(f"--to {to}: is the file that is read; name another, so that nothing is lost.")
    if to is not None and not to.endswith(endings):
        kinds = " or ".join([", ".join(endings[:-1]), endings[-1]])
        raise InputError(f"--to {to}: results are written as {kinds}; name the file so.")
    if to is not None and not os.access(Path(to).resolve().parent, os.W_OK | os.X_OK):
        raise InputError(f"--to {to}: the folder it is to be in is not there, or cannot be written to.")
    if to is not None and Path(to).is_dir():
        raise InputError(f"--to {to}: is a folder; name a file.")


def texts_of(run: str, text: str, text_column: str | None, encoding: str | None) -> list[str]:
    """The texts that an argument stands for: itself, a file's (by its text column or line by line), or "-"."""
    return rows_of(run, text, text_column, encoding)[0]


def rows_of(
    run: str, text: str, text_column: str | None, encoding: str | None
) -> tuple[list[str], list[dict[str, str]] | None]:
    """``texts_of``, and where they stand in a table its rows."""
    if text == "-":
        return lines_of(standard_input()), None
    if not is_file(text):
        check_not_path(text)
        return [text], None
    from headway.data.corpus import file_chunks
    from headway.data.files import kind
    from headway.data.read import read
    from headway.data.table import Table

    path = Path(text)
    if kind(path) == "text":
        return lines_of("".join(file_chunks(path, encoding))), None
    source = read([path], encoding=encoding)
    if isinstance(source, Table):
        return source.column(text_column or _trained_column(run, source)), source.rows
    return ["".join(document.chunks()) for document in source.documents()], None


def place_of(text: str, number: int) -> str:
    """Where one of the texts of an argument stands, counted from 0, for messages: "notes.txt, line 7"."""
    if text == "-":
        return f"standard input, line {number + 1}"
    from headway.data.files import kind

    return f"{text}, {'line' if kind(Path(text)) == 'text' else 'row'} {number + 1}"


def _trained_column(run: str, table: Any) -> str:
    """The column the model was trained on, where the file has it, else the one that ``train`` would take for the text.

    Raises InputError when none or several could be it.
    """
    from headway.data.detect import find_text

    try:
        facts = json.loads((Path(run) / "headway.json").read_text(encoding="utf-8"))
        trained = facts["data"]["text_column"]
    except (OSError, ValueError, KeyError):
        trained = None
    return trained if trained in table.columns else find_text(table)


def write_output(to: str, text: str) -> None:
    """Write a results file, whole or not at all.  Raises InputError when that is impossible."""
    from headway.storage import write_whole

    path = Path(to)
    try:
        write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8", newline=""))
    except OSError as error:
        raise InputError(f"{to}: cannot be written ({error.strerror or error}).") from None


def as_csv(header: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """A table as the text of a .csv file."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(header)
    table.writerows(rows)
    return file.getvalue()


def as_jsonl(rows: Iterable[dict[str, Any]]) -> str:
    """Objects as the text of a .jsonl file."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
