"""The one exception that means "your input", not "our bug"."""


class InputError(ValueError):
    """What the user gave cannot be used.

    The message is plain words for a person: the file, the row where there is one, what was found, what was expected
    and what to do.  The command line prints it alone, without a traceback, and exits with status 2.
    """
