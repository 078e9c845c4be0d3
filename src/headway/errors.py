"""The exceptions that mean "your input", not "our bug", and how a message shows what was found."""

import reprlib


class InputError(ValueError):
    """What the user gave cannot be used.

    The message is plain words for a person: the file, the row where there is one, what was found, what was expected
    and what to do.  The command line prints it alone, without a traceback, and exits with status 2.
    """


class RunFailed(Exception):
    """Training cannot go on, by no fault of the input; what is saved is as it was.

    The command line prints the message alone and exits with status 1.
    """


class OptionError(InputError):
    """An option's value cannot be used.  The message names it as Python does, ``on_command_line`` as there."""

    def __init__(self, name: str, said: str):
        super().__init__(f"{name} {said}")
        self.on_command_line = f"--{name.replace('_', '-')} {said}"


def shown(value: object) -> str:
    """A value as a message shows it: at most 80 characters, however large it is."""
    text = reprlib.repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
