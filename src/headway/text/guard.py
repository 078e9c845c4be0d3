"""Calls into the Rust library, with one kind of error."""

from collections.abc import Callable
from typing import TypeVar

from headway.errors import InputError

Result = TypeVar("Result")


def guarded(work: Callable[[], Result], what: str) -> Result:
    """The result of a call into the Rust library, its errors turned into InputError.

    A panic there arrives as a ``PanicException``, which is no ``Exception``; interrupts and the like pass through.
    """
    try:
        return work()
    except (MemoryError, InputError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise InputError(f"{what} ({reason})") from None
