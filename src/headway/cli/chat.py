"""A conversation with a model in the terminal, or over standard input."""

import contextlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headway.cli.common import CLOSED, interruptible
from headway.errors import InputError, printable

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
