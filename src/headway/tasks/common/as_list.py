"""The inputs that a pipeline is called with, as a list in their order."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headway.errors import InputError, shown

WITHOUT_ORDER = (Mapping, set, frozenset, bytes, bytearray, memoryview)
"""What Python iterates over although it is not several inputs in order."""


def as_list(inputs: Any, is_one: Callable[[Any], bool], expected: str) -> tuple[list[Any], bool]:
    """The inputs as a list, and whether there was one input rather than several.

    Several inputs are a list, a tuple, a pandas or polars Series, an array, a column of a data set, a generator, or any
    other iterable with an order.  A frame, a table or a data set is refused, whatever its columns: choose one of them,
    ``frame["text"]``.  Raises InputError for those and for anything else, such as a dict, a set, bytes or None.
    """
    if is_one(inputs):
        return [inputs], True
    what = type(inputs).__name__
    columns = getattr(inputs, "column_names", None) or getattr(inputs, "columns", None)
    if columns is not None:
        names = list(map(str, columns)) or ["text"]
        raise InputError(
            f"the input is {what} with the columns {', '.join(names)}; expected {expected}, or several of them. "
            f"Pass one column: frame[{'text' if 'text' in names else names[0]!r}]."
        )
    if isinstance(inputs, WITHOUT_ORDER) or not isinstance(inputs, Iterable) or getattr(inputs, "ndim", 1) == 0:
        raise InputError(
            f"the input is {what} ({shown(inputs)}); expected {expected}, or several in a list, Series or generator."
        )
    return list(inputs), False


def text_list(texts: Any, name: str = "text") -> tuple[list[str], bool]:
    """``as_list`` of texts.  Raises InputError, with its position from 0, for an element that is no text."""
    values, alone = as_list(texts, lambda value: isinstance(value, str), f"a {name}")
    for number, text in enumerate(values):
        if not isinstance(text, str):
            raise InputError(f"{name} {number} is {type(text).__name__}; expected a text, not {shown(text)}.")
    return values, alone
