"""Errors of the Rust library as InputError, and a check for texts that it cannot process."""

from collections.abc import Callable
from typing import TypeVar

from headway.errors import InputError

Result = TypeVar("Result")


def guarded(work: Callable[[], Result], what: str) -> Result:
    """The result of a call into the Rust library, with its errors turned into InputError.

    A Rust panic arrives as a ``PanicException``, which is not an ``Exception``; KeyboardInterrupt and the like pass
    through.
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


def check_unicode(text: object, number: int | None = None) -> None:
    """Raise InputError for a text that is not valid Unicode, such as arguments with bytes that are not UTF-8.

    ``number`` is the index of the text among several.
    """
    try:
        if isinstance(text, str) and not text.isascii():
            text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(error.object[error.start])
        byte = 0xDC80 <= code <= 0xDCFF  # how Python represents a byte that it cannot decode
        what = f"the byte 0x{code - 0xDC00:02X}" if byte else f"the lone surrogate U+{code:04X}"
        name = "the text" if number is None else f"text {number}"
        raise InputError(f"{name} is not valid Unicode: found {what}; write the text in UTF-8") from None
