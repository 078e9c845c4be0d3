"""The verbs that use a model, built from each task's description of its command; ``predict`` takes any run."""

import contextlib
import functools
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import click
from click.core import ParameterSource

from headway.cli.common import (
    CLOSED,
    check_names_of_files,
    device_option,
    emit,
    engine_option,
    in_our_words,
    interruptible,
    output_options,
    precision_option,
    show,
    text_options,
    threads_option,
)
from headway.cli.inputs import ALSO, SENTENCES, check_inputs, read_inputs
from headway.cli.results import all_results, check_output, with_tables
from headway.errors import InputError, printable
from headway.io.regular_file import check_name
from headway.tasks import registry
from headway.tasks.command import Command, Option

Commands = Sequence[type[Command]]
PREDICT = registry.ANY
STARTED = "headway.started"
"""When loading of the model began, if that was before the command ran."""
ANY = (
    "Use the model in RUN, whatever its task. This does what the task's own verb does and has the same options; "
    "`headway predict RUN --help` shows them."
)


@dataclass(frozen=True)
class SharedOptions:
    """The arguments and options that all such verbs share."""

    verb: str
    run: str
    words: Sequence[str]
    _: KW_ONLY
    as_json: bool
    quiet: bool
    to: str | None = None
    text_column: str | None = None
    encoding: str | None = None
    device: str = "auto"
    precision: str | None = None
    engine: str = "torch"


def command(verb: str) -> click.Command:
    """The command of a verb; if several tasks share it, the model's task decides."""
    return _built(verb, [registry.command(name) for name in registry.with_verb(verb)])


def predict() -> click.Command:
    """The command for any run; its options depend on the run."""
    return _built(PREDICT, [], kind=_Predict)


class _Predict(click.Command):
    """A command with the options of the run's task."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Load the run that the arguments name, if any, and parse them by its task."""
        every = _built(PREDICT, [registry.command(name) for name in (*registry.NAMES, *registry.usable())])
        how: dict[str, Any] = {"help_option_names": ctx.help_option_names, "ignore_unknown_options": True}
        first = click.Context(every, resilient_parsing=True, **how)
        given, _, _ = every.make_parser(first).parse_args(in_our_words(every, args))
        run = given.get("run")
        if isinstance(run, str) and (run == "-" or not run.startswith("-")):
            from headway.workflows.load import load

            ctx.meta[STARTED] = time.monotonic()
            how = {name: given[name] for name in ("device", "precision", "engine") if name in given}
            ctx.obj = load(check_name(run, "RUN"), **how)
            known = _built(PREDICT, [registry.command(ctx.obj.task)])
            self.params, self.callback, self.help = known.params, known.callback, known.help
            args = in_our_words(self, args)
        return super().parse_args(ctx, args)


def _built(verb: str, commands: Commands, *, kind: type[click.Command] = click.Command) -> click.Command:
    """A command with the options of some tasks and the options of all commands."""
    commands = sorted(commands, key=lambda command: command.spec.reads != "text")
    own = {option.name: option for command in commands for option in command.options}
    interactive = any(command.interactive for command in commands)

    @click.pass_context
    def callback(context: click.Context, /, run: str, words: Sequence[str], **given: Any) -> None:
        options = {name: given.pop(name) for name in own}
        if not words and not any(options.get(command.interactive) for command in commands):
            raise click.MissingParameter(ctx=context, param_hint=f"'{what}'", param_type="argument")
        for name, option in own.items():
            if option.goes_with is not None and options[name] is not None and not options[option.goes_with]:
                raise click.UsageError(f"--{name.replace('_', '-')} goes with --{option.goes_with.replace('_', '-')}.")
        _answer(context, SharedOptions(verb, run, words, **given), commands, options)

    what = f"{_input(commands)}..."
    ways: list[Callable[..., Any]] = [click.argument("run")]
    metavar = f"[{what}]" if interactive else what
    ways += [click.argument("words", metavar=metavar, nargs=-1, required=not interactive)]
    ways += [_option(option) for option in own.values()]
    names = with_tables(_all_endings(commands, None) or (".csv", ".jsonl"))
    *first, last = (f"{name} (answers only)" if name == ".txt" else name for name in names)
    ways += [text_options, click.option("--to", help=f"File to write results to: {', '.join(first)} or {last}.")]
    function: Callable[..., Any] = callback
    for way in reversed([*ways, device_option, precision_option, engine_option, threads_option]):
        function = way(function)
    found = click.command(verb, cls=kind, help=_help(commands))(function)
    found.params += output_options()
    check_names_of_files(found)
    return found


def _option(option: Option) -> Callable[..., Any]:
    """An option as a click option."""
    more: dict[str, Any] = (
        {"is_flag": True} if option.type is bool else {"type": option.type, "metavar": option.metavar}
    )
    if option.several:
        more["multiple"] = True
    elif option.type is not bool:
        more |= {"default": option.default, "show_default": option.show_default and option.default is not None}
    return click.option(f"--{option.name.replace('_', '-')}", help=option.help, **more)


def _all_endings(commands: Commands, options: dict[str, Any] | None) -> tuple[str, ...]:
    """The file endings that the tasks write with some options, or with their defaults."""
    found: dict[str, None] = {}
    for command in commands:
        found |= dict.fromkeys(command.endings(options or {one.name: one.default for one in command.options}))
    return tuple(found)


def _input(commands: Commands) -> str:
    """The name of an input."""
    return (commands[0].one_input if commands else "") or "TEXT"


def _help(commands: Commands) -> str:
    """The help of a command: what it does and what its input can be."""
    kinds = list(dict.fromkeys(command.spec.reads for command in commands)) or ["text", "picture"]
    dash = "lines on standard input" + ("" if commands else " (with a language model, all of it as one text)")
    dash = "all of standard input as one text" if commands and commands[0].one_input else dash
    said = "; ".join([SENTENCES[kinds[0]].format(dash), *(ALSO[kind] for kind in kinds[1:])])
    text = f"{_input(commands)} is {said}."
    if not commands:
        return f"{ANY}\n\n{text}"
    notes = next((command.notes for command in commands if command.notes), "")
    return f"{commands[0].does}\n\n{text}  {notes}"


def _answer(context: click.Context, shared: SharedOptions, commands: Commands, options: dict[str, Any]) -> None:
    """Load the model, read the inputs and answer them."""
    started = context.meta.get(STARTED, time.monotonic())
    for command in commands:
        command.check(options, shared.to)
    check_output(shared.to, (*shared.words, "")[0], _all_endings(commands, options))
    command, pipe, own = _command_for(context, shared, commands, options)
    found: dict[str, Any] = {"task": pipe.task, **getattr(pipe.runtime, "described", {})}
    if command.interactive and own[command.interactive]:
        from headway.cli.answer import converse

        if shared.text_column is not None or shared.encoding is not None:
            raise InputError("--text-column and --encoding are for files; a conversation reads none.")
        first = [word for word in shared.words if word != "-"]
        begin = functools.partial(command.conversation, pipe, own)
        results, interrupted = converse(begin, first, as_json=shared.as_json, quiet=shared.quiet)
        emit({**found, "seconds": time.monotonic() - started, "results": results}, shared.as_json, [])
        if interrupted:
            raise KeyboardInterrupt
        return
    inputs = read_inputs(command, shared.run, shared.words, shared.text_column, shared.encoding)
    use = command(pipe, inputs, own)
    check_inputs(use, shared.words)
    if (notice := use.notice()) and not shared.quiet:
        warnings.warn(notice, stacklevel=2)
    if shared.to is None and not shared.as_json and _streamed(use):
        return
    use, results = all_results(use, shared.verb, shared.to, as_json=shared.as_json, quiet=shared.quiet)
    lines = [f"{use.count()} in {shared.to}"] if shared.to else []
    emit({**found, "seconds": time.monotonic() - started, "results": results}, shared.as_json, lines)


def _command_for(
    context: click.Context, shared: SharedOptions, commands: Commands, options: dict[str, Any]
) -> tuple[type[Command], Any, dict[str, Any]]:
    """The model's task, its pipeline and its options.  Raises InputError for an option of another task."""
    from headway.workflows.load import load

    loaded = context.obj
    if loaded is None:
        loaded = load(shared.run, device=shared.device, precision=shared.precision, engine=shared.engine)
    if shared.precision not in (None, "auto", "float32") and not (shared.quiet or shared.as_json):
        from headway.workflows.precisions import cost_of

        click.echo(f"headway: {cost_of(shared.run, str(shared.precision))}", err=True)
    if shared.engine == "auto" and loaded.runtime.engine is not None and not (shared.quiet or shared.as_json):
        from headway.workflows.engines import speed_of

        click.echo(f"headway: {speed_of(shared.run, loaded.runtime.few, loaded.runtime.many)}", err=True)
    for command in commands:
        own = {option.name: options[option.name] for option in command.options}
        if (pipe := command.takes(loaded, own)) is not None:
            for name in options.keys() - own.keys():
                if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                    raise InputError(f"--{name.replace('_', '-')} does not apply to {pipe.task} models; leave it out.")
            return command, pipe, own
    spec = registry.known(loaded.task)
    fits = "" if spec.verb == shared.verb else f" Use `headway {spec.verb} {shared.run} {spec.argument}`."
    raise InputError(f"{shared.run}: holds a model for {loaded.task}; {shared.verb} needs {commands[0].needs}.{fits}")


def _streamed(use: Command) -> bool:
    """Stream the answer to a single text after the text, if it is a continuation; returns whether it is."""
    if len(use.inputs.values) > 1 or use.inputs.several:
        return False
    pieces = use.stream(use.inputs.values[0])  # errors are raised before anything is shown
    if pieces is None:
        return False
    show(use.inputs.values[0])
    for piece in pieces:
        show(piece)
    show("\n")
    return True


EXIT, RESET, HELP = "/exit", "/reset", "/help"
COMMANDS = {
    HELP: "show this list",
    RESET: "clear the conversation and start over",
    EXIT: "leave (so do Ctrl-D and Ctrl-C)",
    "//": "at the start of a line: send the line to the model with one /",
}


def converse(
    begin: Callable[[Callable[[str], None]], Any], first: Sequence[str], *, as_json: bool, quiet: bool
) -> tuple[list[dict[str, Any]], bool]:
    """(the messages of the conversation since it began or was reset, whether Ctrl-C ended it).

    ``begin`` makes the conversation (``tasks.command.Command.conversation``) from a function that is told when old
    messages are dropped.  The messages are ``first``, then every line of the input.  A line that cannot be sent raises
    InputError over a pipe; at a terminal the error is shown and you can try another.  An unknown command is named, and
    the conversation goes on.
    """

    def tell(message: str) -> None:
        if not quiet:
            print(f"headway: {printable(message)}", file=sys.stderr, flush=True)

    if sys.stdin is None and not first:
        raise InputError(CLOSED)
    terminal = sys.stdin is not None and sys.stdin.isatty()
    conversation = begin(tell)
    if terminal:
        tell(f"{HELP} lists the commands, {EXIT} or Ctrl-D leaves")
    with interruptible():
        try:
            for line in _lines(first, terminal):
                if line.strip() == EXIT:
                    break
                if line.strip() == RESET:
                    conversation.reset()
                    tell("started afresh")
                elif line.strip() == HELP:
                    for name, what in COMMANDS.items():
                        print(f"  {name:8}{what}", file=sys.stderr)
                elif unknown := _unknown_command(line):
                    print(f"headway: {unknown}", file=sys.stderr, flush=True)
                elif line.strip():
                    try:
                        pieces = conversation.say(line[1:] if line.startswith("//") else line)
                        _reply(pieces, sys.stderr if as_json else sys.stdout, as_json and quiet)
                    except InputError as error:
                        if not terminal:
                            raise
                        print(f"headway: {error}", file=sys.stderr)
        except KeyboardInterrupt:
            return conversation.messages, True
    return conversation.messages, False


def _unknown_command(line: str) -> str | None:
    """The message about a line that looks like a command and is none; else None."""
    if not (found := re.match(r"\s*(/[A-Za-z]+)(?!\S)", line)):
        return None
    word, known = found[1], ", ".join(name for name in COMMANDS if name != "//")
    return f"there is no command {word}; there are {known}. To send this to the model, write /{word}."


def _reply(pieces: Iterator[str], stream: Any, silent: bool) -> None:
    with contextlib.closing(pieces):  # type: ignore[type-var]
        for piece in pieces:
            if not silent:
                stream.write(printable(piece, keep="\t\n") if stream.isatty() else piece)
                stream.flush()
    if not silent:
        stream.write("\n")
        stream.flush()


def _lines(first: Sequence[str], terminal: bool) -> Iterator[str]:
    yield from first
    if terminal:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  # arrow keys and a history for input()
        with contextlib.suppress(EOFError):
            while True:
                yield input("> ")
        print(file=sys.stderr)
        return
    encoding = "utf-8-sig"
    try:
        for line in sys.stdin.buffer if sys.stdin is not None else ():
            yield line.decode(encoding).removesuffix("\n").removesuffix("\r")
            encoding = "utf-8"
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not UTF-8 text (byte {error.start} of a line).") from None
    except OSError as error:
        raise InputError(f"standard input cannot be read ({error.strerror or error}).") from None
