"""The exceptions that mean "your input", not "our bug", and how a message shows what was found."""

import re
import reprlib

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What commands a terminal (C0 and C1), ends a line, turns the direction of what follows, or is no character."""


def printable(text: object, keep: str = "") -> str:
    """A text that a terminal shows and does not obey: control characters as Python writes them, save those to keep."""
    return _UNSAFE.sub(lambda match: match[0] if match[0] in keep else _written(match[0]), str(text))


def field(text: object) -> str:
    """A text as one field of a line of results: no tab, no line end, and the backslashes that are its own doubled."""
    return printable(str(text).replace("\\", "\\\\"))


def _written(character: str) -> str:
    return repr(character)[1:-1]


class InputError(ValueError):
    """What the user gave cannot be used.

    The message is plain words for a person: the file, the row where there is one, what was found, what was expected
    and what to do.  The command line prints it alone, without a traceback, and exits with status 2.  What it quotes of
    the input is made printable, and it is one line.
    """

    def __init__(self, message: object = ""):
        super().__init__(printable(message))


class RunFailed(Exception):
    """Training cannot go on, by no fault of the input; what is saved is as it was.

    The command line prints the message alone and exits with status 1.
    """

    def __init__(self, message: object = "", *more: object):
        super().__init__(printable(message), *more)


class OptionError(InputError):
    """An option's value cannot be used.  The message names it as Python does, ``on_command_line`` as there."""

    def __init__(self, name: str, said: str):
        super().__init__(f"{name} {said}")
        self.on_command_line = printable(f"--{name.replace('_', '-')} {said}")


def shown(value: object) -> str:
    """A value as a message shows it: at most 80 characters, however large it is."""
    short = f"{value:g}" if isinstance(value, float) and abs(value) >= 1e6 else ""
    text = short if short and float(short) == value else reprlib.repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
