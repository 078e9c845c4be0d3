"""Shared by the verbs: options, output, and texts from an argument, a file or a pipe."""

import contextlib
import json
import math
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click

from headway.errors import InputError, printable

ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet", ".txt", ".gz")
"""Endings of text files."""

NAMES_OF_FILES = {"inputs", "run", "file", "out", "to", "validation", "from_model", "test", "points"}
"""Arguments and options that name a file, a folder or a model."""


class FileName(click.ParamType):
    """The name of a file, a folder or a model: not empty, and valid to print and to store in JSON."""

    name = "text"

    def __init__(self, kind: click.ParamType):
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from headway.io.regular_file import check_name

        what = "" if param is None else param.opts[0] if isinstance(param, click.Option) else param.opts[0].upper()
        return self.kind.convert(check_name(value, what) if isinstance(value, str) else value, param, ctx)


def check_names_of_files(command: click.Command) -> None:
    """Make a command refuse invalid names of files, folders and models."""
    for parameter in command.params:
        if parameter.name in NAMES_OF_FILES and not isinstance(parameter.type, click.Choice):
            parameter.type = FileName(parameter.type)


CLOSED = "standard input is closed; expected text from a file or a pipe."


def output_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """--json and --quiet."""
    function = click.option("--quiet", is_flag=True, help="Show no progress; warnings are still shown.")(function)
    return click.option(
        "--json", "as_json", is_flag=True, help="Print the result as one JSON object on standard output."
    )(function)


def text_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """--text-column and --encoding: how a file of texts is read."""
    function = click.option("--encoding", help="Encoding of the input, if not UTF-8.")(function)
    return click.option("--text-column", help="Text column, if the file is a table.")(function)


def device_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """--device: where a model computes."""
    words = "Device: auto, cpu, cuda, cuda:N or mps. auto is a CUDA GPU if PyTorch finds one."
    return click.option("--device", default="auto", show_default=True, help=words)(function)


def threads_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """--threads: the number of CPU threads; it takes effect by itself."""

    def chosen(_context: click.Context, _option: click.Parameter, count: int | None) -> None:
        set_threads(count)

    kind = click.IntRange(1, 1024)
    return click.option("--threads", type=kind, callback=chosen, expose_value=False, help="CPU threads.")(function)


def set_threads(count: int | None) -> None:
    """Compute with this many CPU threads from now on, if a number is given."""
    if count is not None:
        import torch

        torch.set_num_threads(count)


def emit(result: dict[str, Any], as_json: bool, lines: list[str]) -> None:
    """Print a result: as one JSON object, or as lines for a person."""
    if as_json:
        unicode = (sys.stdout.encoding or "").casefold().startswith("utf")
        print(json.dumps(_finite(result), ensure_ascii=not unicode, allow_nan=False))
    else:
        show_lines(lines)


def show_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(printable(line, keep="\t\n"))


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows of a table as lines, each column as wide as its longest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _finite(value: Any) -> Any:
    """The same with None for numbers that JSON cannot represent."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    return [_finite(entry) for entry in value] if isinstance(value, list | tuple) else value


def show(text: str) -> None:
    """Write a model's output as it comes: unchanged to a file or a pipe, without control characters to a terminal."""
    sys.stdout.write(printable(text, keep="\t\n") if sys.stdout.isatty() else text)
    sys.stdout.flush()


@contextlib.contextmanager
def interruptible(*more: int) -> Iterator[None]:
    """Ctrl-C and ``more`` signals raise KeyboardInterrupt, for a verb that cleans up or prints a message."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGINT, *more)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def standard_input(encoding: str | None = None) -> str:
    """All of standard input as text, UTF-8 unless another encoding is named.  Raises InputError if it is not."""
    from headway.data.open.files import check_encoding, surely_utf8

    name = check_encoding(encoding)
    if sys.stdin is None:
        raise InputError(CLOSED)
    try:
        content = sys.stdin.buffer.read()
        if name != "utf-8" and surely_utf8([content], name):
            warnings.warn(f"standard input is UTF-8 and is read as UTF-8, not as {name}", stacklevel=2)
            name = "utf-8"
        return content.decode("utf-8-sig" if name == "utf-8" else name).removeprefix("\ufeff")
    except OSError as error:
        raise InputError(f"standard input cannot be read ({error.strerror or error}).") from None
    except UnicodeError as error:
        at = f" (byte {error.start})" if isinstance(error, UnicodeDecodeError) else ""
        other = "name its encoding with --encoding" if encoding is None else "name another encoding with --encoding"
        raise InputError(f"standard input is not {encoding or 'UTF-8'} text{at}; {other}.") from None


def lines_of(text: str) -> list[str]:
    """Lines, split at line feeds only; a carriage return before one is dropped, and no empty line follows the last."""
    return list(_lines_in([text]))


def _lines_in(pieces: Iterable[str]) -> Iterator[str]:
    """``lines_of`` of a text in pieces."""
    begun = ""
    for piece in pieces:
        *whole, begun = (begun + piece).split("\n")
        yield from (line.removesuffix("\r") for line in whole)
    if begun:
        yield begun.removesuffix("\r")


class Texts(Sequence[str]):
    """The texts of a file, read from it on each iteration; the chunk that is being answered is held in memory."""

    def __init__(self, read: Callable[[], Iterable[str]]):
        self._read = read
        self._count: int | None = None
        self._start, self._piece = 0, list[str]()

    def __len__(self) -> int:
        if self._count is None:
            self._count = sum(1 for _ in self)
        return self._count

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def hold(self, start: int, piece: list[str]) -> None:
        """Hold a chunk, whose first text has number ``start``, so that its texts are not read from the file."""
        self._start, self._piece = start, piece

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return list(self)[index]
        at = range(len(self))[index]  # negative indices too; IndexError out of range
        if self._start <= at < self._start + len(self._piece):
            return self._piece[at - self._start]
        return next(islice(self, at, None))


def is_file(argument: str) -> bool:
    """Whether an argument names a file rather than being a text."""
    try:
        return Path(argument).is_file()
    except (OSError, ValueError):
        return False


def check_not_path(argument: str) -> None:
    """Raise InputError if an argument that is not a file was meant as one: a folder, or a name with a file ending."""
    path = Path(argument)
    if "\n" in argument or "\0" in argument or len(argument) > 255:
        return
    if os.sep in argument and path.is_dir():
        raise InputError(f"{argument}: this is a folder; name a file in it.")
    meant = argument.startswith(("./", "../", "/", "~/")) and path.parent.expanduser().is_dir()
    if " " not in argument and (meant or path.suffix in ENDINGS):
        raise InputError(f"{argument}: there is no such file. (To use this as the text, pipe it to `-`.)")


def several_texts(words: Sequence[str]) -> bool:
    """Whether the words of a command are several texts, or the name of a file or pipe that may hold several."""
    return len(words) > 1 or words[0] == "-" or is_file(words[0])


def rows_of(
    run: str, words: Sequence[str], text_column: str | None, encoding: str | None
) -> tuple[Sequence[str], Sequence[dict[str, str]] | None]:
    """The texts that words stand for (the words themselves, a file or "-"), and the rows if they come from a table.

    The texts of a file are read as they are needed.

    By default a file is read with the text column of the model's training data, if the file has it, and, if it is not
    UTF-8, with the encoding of the training data.
    """
    if len(words) > 1:
        for word in words:
            if word == "-" or is_file(word):
                what = "standard input" if word == "-" else f"the file {word}"
                raise InputError(f"{what} was given together with other words; give several texts, or one file, or -.")
            check_not_path(word)
        return list(words), None
    text = words[0]
    if text == "-":
        return lines_of(standard_input(encoding)), None
    if not is_file(text):
        check_not_path(text)
        return [text], None
    from headway.data.open.detect import find_text
    from headway.data.open.files import kind
    from headway.data.open.read import read
    from headway.data.records.corpus import file_chunks
    from headway.data.records.table import Table
    from headway.training.store.facts import read_facts

    path = Path(text)
    facts = read_facts(Path(run)) or {}
    encoding = encoding or facts.get("options", {}).get("encoding")
    if kind(path) == "text":
        return Texts(lambda: _lines_in(file_chunks(path, encoding))), None
    source = read([path], encoding=encoding)
    if isinstance(source, Table):
        trained = facts.get("data", {}).get("text_column")
        column = text_column or (trained if trained in source.columns else find_text(source))
        source.check_column(column)
        return Texts(lambda: source.values(column)), source.rows
    return Texts(lambda: ("".join(document.chunks()) for document in source.documents())), None


def warn_of_blank(texts: Collection[str] | Texts) -> None:
    """Warn if any texts are blank: answers to them are meaningless."""
    if blank := [number for number, text in enumerate(texts, start=1) if not text.strip()]:
        of = f"{len(blank):,} of {len(texts):,} texts are blank (the first is number {blank[0]:,})"
        what = of if len(texts) > 1 else "the text is blank"
        warnings.warn(f"{what}: answers to blank texts are meaningless", stacklevel=2)


def place_of(words: Sequence[str], number: int) -> str:
    """The place of one of a command's texts, counted from 0, for messages: "notes.txt, line 7"."""
    if len(words) > 1:
        return f"text {number + 1}"
    text = words[0]
    if text == "-":
        return f"standard input, line {number + 1}"
    from headway.data.open.files import kind

    return f"{text}, {'line' if kind(Path(text)) == 'text' else 'row'} {number + 1}"
