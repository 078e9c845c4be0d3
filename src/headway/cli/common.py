"""Shared by the verbs: options, output, and texts from an argument, a file or a pipe."""

import contextlib
import json
import math
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from headway.errors import InputError, printable
from headway.runtime.engines.registry import ENGINES, TORCH

ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet", ".txt", ".gz")
"""Endings of text files."""

NAMES_OF_FILES = {
    *("inputs", "run", "file", "out", "to", "validation", "from_model", "test", "points", "keys", "dockerfile"),
}
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


SEVERAL: dict[str, Any] = {"multiple": True, "callback": lambda _, __, given: ",".join(given) or None}
"""What makes an option of one that can be given several times."""


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


def precision_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """--precision: how exactly a model answers."""
    words = (
        "float32, bfloat16, float16, int8, int4 or auto, the fastest that `headway bench RUN` found to lose next to "
        "nothing.  [default: what the run stores, else float32]"
    )
    return click.option("--precision", help=words)(function)


def engine_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """--engine: what computes a model's answers."""
    words = (
        f"{', '.join(ENGINES[1:])}, which read exports of RUN on the CPU, or auto, the fastest that `headway bench RUN "
        "--store` found to give the same answers."
    )
    return click.option("--engine", default=TORCH, show_default=True, help=words)(function)


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


def is_file(argument: str, or_folder: bool = False) -> bool:
    """Whether an argument names a file (or a pipe, which reading refuses), or also a folder other than "." and ".."."""
    try:
        folder = or_folder and argument.strip(". ") != "" and Path(argument).is_dir()
        return folder or (Path(argument).exists() and not Path(argument).is_dir())
    except (OSError, ValueError):
        return False


def check_not_path(argument: str) -> None:
    """Raise InputError if an argument that is not a file was meant as one: a folder, or a name with a file ending."""
    path = Path(argument)
    if "\n" in argument or "\0" in argument or len(argument) > 255:
        return
    if os.sep in argument and path.is_dir():
        raise InputError(f"{argument}: this is a folder; give it alone, or name a file in it.")
    meant = argument.startswith(("./", "../", "/", "~/")) and path.parent.expanduser().is_dir()
    if " " not in argument and (meant or path.suffix in ENDINGS):
        raise InputError(f"{argument}: there is no such file. (If this is the text itself, give `-` and pipe it in.)")
