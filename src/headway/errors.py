"""The one exception that means "your input", not "our bug", and how a message shows what was found."""

import reprlib


class InputError(ValueError):
    """What the user gave cannot be used.

    The message is plain words for a person: the file, the row where there is one, what was found, what was expected
    and what to do.  The command line prints it alone, without a traceback, and exits with status 2.
    """


def shown(value: object) -> str:
    """A value as a message shows it: at most 80 characters, however large it is."""
    text = reprlib.repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
