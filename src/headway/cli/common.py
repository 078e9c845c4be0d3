"""Shared by the verbs: options, output, and texts from an argument, a file or a pipe."""

import contextlib
import functools
import inspect
import itertools
import json
import math
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from headway.errors import InputError, RunFailed, printable
from headway.formats.registry import ENGINES, TORCH
from headway.io.csv_text import listed
from headway.training.option_fields import ALIASES, HINTS, RENAMED, flag

NAMES_OF_FILES = {
    *("inputs", "run", "file", "out", "to", "validation", "from_model", "test", "points", "keys", "dockerfile"),
}
"""Arguments and options that name a file, a folder or a model."""


OTHER = "Other"
"""The heading of options without one."""


class Headed(click.Option):
    """An option under a heading; ``common`` options are in the short help too."""

    def __init__(self, *names: Any, heading: str = OTHER, common: bool = True, **more: Any):
        super().__init__(*names, **more)
        self.heading, self.common = heading, common


class HeadedCommand(click.Command):
    """A command whose help groups options by heading, in the order of each heading's first option."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        every = click.Option(["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_show_all)
        every.help = "Show every option and exit."
        return [*super().get_params(ctx), every]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            shown = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if shown is not None and (ctx.meta.get(__name__) or getattr(param, "common", True)):
                found.setdefault(getattr(param, "heading", OTHER), []).append(shown)
        others = found.pop(OTHER, [])
        for heading, lines in [*found.items(), (OTHER, others)]:
            with formatter.section(heading):
                formatter.write_dl(lines)


def _show_all(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        ctx.meta[__name__] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


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


SEVERAL: dict[str, Any] = {
    "multiple": True,
    "callback": lambda _, __, given: (listed(given) if len(given) > 1 else "".join(given)) or None,
}
"""What makes an option of one that can be given several times."""


class Answer(NamedTuple):
    """What a verb prints."""

    result: dict[str, Any]
    """with the task; how many seconds the command took is added, unless it says how many"""
    lines: Sequence[str]
    """the same for a person"""
    problem: str = ""
    """what makes the exit status 1 all the same"""


def verb(cls: type[click.Command] = click.Command) -> Callable[[Callable[..., Answer | None]], click.Command]:
    """The command of a function that returns its answer; it has --json and --quiet too.

    The function is given ``progress`` and ``quiet`` where it takes them.
    """

    def made(function: Callable[..., Answer | None]) -> click.Command:
        taken = inspect.signature(function).parameters

        @functools.wraps(function)
        def callback(*, as_json: bool, quiet: bool, **given: Any) -> None:
            from headway.cli import main
            from headway.training.progress import NoProgress, shown_to

            progress = shown_to(quiet) if "progress" in taken else NoProgress()
            given |= {name: one for name, one in (("progress", progress), ("quiet", quiet)) if name in taken}
            try:
                answer = function(**given)
            finally:
                progress.close()
            if answer is not None:
                first = {"task": answer.result["task"]}
                if "seconds" not in answer.result:
                    first["seconds"] = time.monotonic() - main.STARTED
                emit({**first, **answer.result}, as_json, answer.lines)
                if answer.problem:
                    raise click.ClickException(answer.problem)

        command = click.command(cls=cls)(callback)
        command.params += output_options()
        return command

    return made


def output_options() -> list[click.Option]:
    """--json and --quiet."""
    words = "Print the result as one JSON object on standard output."
    quiet = click.Option(["--quiet"], is_flag=True, help="Show no progress; warnings are still shown.")
    return [click.Option(["--json", "as_json"], is_flag=True, help=words), quiet]


def text_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """--text-column and --encoding: how a file of texts is read."""
    function = click.option("--encoding", help="Encoding of the input, if not UTF-8.")(function)
    told = "Text column, if the file is a table; several are joined."
    return click.option("--text-column", help=told, **SEVERAL)(function)


device_option = click.option(
    "--device",
    default="auto",
    show_default=True,
    help="Device: auto, cpu, cuda, cuda:N or mps. auto is a CUDA GPU if PyTorch finds one.",
)
precision_option = click.option(
    "--precision",
    help="float32, bfloat16, float16, int8, int4 or auto, the fastest that `headway bench RUN` found to lose next to "
    "nothing.  [default: what the run stores, else float32]",
)
engine_option = click.option(
    "--engine",
    default=TORCH,
    show_default=True,
    help=f"{', '.join(ENGINES[1:])}, which read exports of RUN on the CPU, or auto, the fastest that `headway bench "
    "RUN --store` found to give the same answers.",
)


def set_threads(count: int | None) -> None:
    """Compute with this many CPU threads from now on, if a number is given."""
    if count is not None:
        import torch

        torch.set_num_threads(count)


THREADS = click.IntRange(1, 1024)
threads_option = click.option(
    "--threads", type=THREADS, callback=lambda *given: set_threads(given[2]), expose_value=False, help="CPU threads."
)
"""It takes effect by itself."""


def emit(result: dict[str, Any], as_json: bool, lines: Iterable[str]) -> None:
    """Print a result: as one JSON object, or as lines for a person."""
    if as_json:
        unicode = (sys.stdout.encoding or "").casefold().startswith("utf")
        print(json.dumps(_finite(result), ensure_ascii=not unicode, allow_nan=False))
    else:
        show_lines(lines)


def show_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(printable(line, keep="\t\n"))


def aligned(rows: Sequence[Sequence[str]], numbers: slice = slice(0)) -> list[str]:
    """The rows of a table as lines, each column as wide as its longest cell; columns of ``numbers`` end together."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = range(len(widths))[numbers]
    sides = [f"{'>' if at in right else '<'}{width}" for at, width in enumerate(widths)]
    return ["  ".join(map(format, row, sides)).rstrip() for row in rows]


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


@contextlib.contextmanager
def resumable(what: str) -> Iterator[None]:
    """Where the block is stopped or fails, say how to resume ``what``."""
    from headway.training.loop.trainer import Interrupted

    try:
        yield
    except (KeyboardInterrupt, Interrupted):
        raise KeyboardInterrupt(f"stopped; run the same command again to resume {what}") from None
    except RunFailed as error:
        again = f"Run the same command again to resume {what}."
        raise RunFailed(f"{str(error).removesuffix('.')}. {again}") from None


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
    from headway.data.open.files import ENDINGS

    path = Path(argument)
    if "\n" in argument or "\0" in argument or len(argument) > 255:
        return
    if os.sep in argument and path.is_dir():
        raise InputError(f"{argument}: this is a folder; give it alone, or name a file in it.")
    meant = argument.startswith(("./", "../", "/", "~/")) and path.parent.expanduser().is_dir()
    if " " not in argument and (meant or path.suffix in ENDINGS):
        raise InputError(f"{argument}: there is no such file. (If this is the text itself, give `-` and pipe it in.)")


OF_VERBS = {
    "out": "output-dir output out-dir save-dir outdir",
    "to": "output-file output out-file",
    "validation": "validation-file val valid dev eval-file test-file",
    "max-tokens": "max-new-tokens",
    "temperature": "temp",
    "beam": "beams num-beams beam-size",
    "trials": "n-trials num-trials",
}
NAMES = {flag(name): aliases.split() for name, aliases in (*ALIASES.items(), *OF_VERBS.items())}
"""Our option -> its names in other tools."""


def in_our_words(command: click.Command, arguments: Sequence[str]) -> list[str]:
    """The words of a command line, with option names of other tools replaced by ours.

    Raises click.NoSuchOption with a hint for an option without an equivalent here.
    """
    ours = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    found: list[str] = []
    for number, word in enumerate(arguments):
        if word == "--":
            found += arguments[number:]
            break
        name, equals, value = word.partition("=")
        if name.startswith("--") and name not in ours:
            plain = name[2:].replace("_", "-")
            meant = [plain, *(ours for ours, names in NAMES.items() if plain in names)]  # the likeliest first
            spelled = next((f"--{one}" for one in meant if f"--{one}" in ours), None)
            named = re.findall(r"--[a-z-]+", HINTS.get(plain, "")) or ["--steps"]  # else for all commands that train
            if spelled is None and plain in HINTS and ours.intersection(named):
                raise click.UsageError(f"no such option: {name} ({HINTS[plain]}).")
            if plain.replace("-", "_") in RENAMED and spelled is not None:
                warnings.warn(f"{name} is now called {spelled}", stacklevel=2)
            word = f"{spelled}{equals}{value}" if spelled is not None else word
        found.append(word)
    check_once(command, found)
    return found


def check_once(command: click.Command, words: Sequence[str]) -> None:
    """Raise click.UsageError for an option of one value that is given twice: click would take the last in silence."""
    options = {name: param for param in command.params if isinstance(param, click.Option) for name in param.opts}
    values: dict[str, str] = {}
    rest = iter(words)
    for word in itertools.takewhile(lambda word: word != "--", rest):
        name, equals, value = word.partition("=")
        if (option := options.get(name)) is None or option.is_flag:
            continue
        value = value if equals else next(rest, "")
        if name in values and not option.multiple:
            raise click.UsageError(f"{name} is given twice, as {values[name]!r} and {value!r}; it takes one value.")
        values[name] = value
