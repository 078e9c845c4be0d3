"""Answers to data frames: pandas, polars, pyarrow and datasets, each given back as it came, with columns of answers."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from headway.data.open.in_memory import in_memory
from headway.data.records.rows import some
from headway.errors import InputError

AT_ONCE = 4_096
"""Rows that are answered together."""


class FrameAnswers:
    """A pipeline that answers data frames."""

    task: str
    text_column: str | None = None
    """the column of the texts that its run was trained on"""

    def predict(self, frame: Any, text_column: str | None = None) -> Any:
        """The frame with columns for the answers; its own and its index stay, and rows without a text get null.

        ``frame`` is a pandas or polars frame, a pyarrow Table or a datasets.Dataset.  The answers' fields are columns;
        one that is there already is called ``predicted: FIELD``.  Where a text has several answers (spans), all are a
        list in the column ``answer``.  ``text_column`` is by default that of the run, or the only column of texts.

        Raises InputError for anything else, and where the column of texts is not clear.
        """
        held = in_memory(frame)
        if held is None or isinstance(frame, list | tuple):
            raise InputError(
                "predict takes a pandas or polars frame, a pyarrow Table or a datasets.Dataset, "
                f"not {type(frame).__name__}."
            )
        named: dict[str, list[Any]] = {}
        for name, values in _answered(self, held, _text_column(self, held, text_column)).items():
            while name in held.columns or name in named:
                name = f"predicted: {name}"
            named[name] = values
        return _with_columns(frame, named)


def _text_column(pipe: FrameAnswers, held: Any, asked: str | None) -> str:
    """The column of texts.  Raises InputError where it is not clear."""
    known = pipe.text_column
    named = asked or (known if known is not None and set(_names(known, held)) <= set(held.columns) else None)
    if named is None:
        first = held.part(0, min(held.count, 100))
        words = [name for name in held.columns if any(isinstance(value, str) for value in first[name])]
        named = words[0] if len(words) == 1 else None
    if named is None or not set(_names(named, held)) <= set(held.columns):
        what = f"there is no column {asked!r}" if asked else "which column holds the texts is not clear"
        raise InputError(f"{held.what}: {what}; pass text_column. Its columns are {some(held.columns)}.")
    if known is not None and asked is None and named != known:
        warnings.warn(
            f"{held.what} has no column {known!r}: {named!r} is taken as the text (text_column)", stacklevel=3
        )
    return named


def _names(column: str, held: Any) -> list[str]:
    """The columns that a name means: itself, or several with commas between them, which are read as one text."""
    return [column] if column in held.columns else [part.strip() for part in column.split(",")]


def _answered(pipe: Any, held: Any, column: str) -> dict[str, list[Any]]:
    """The columns of the answers, a value for each row."""
    from headway.tasks.command import Inputs
    from headway.tasks.registry import command

    command_of_task = command(pipe.task)
    options = {option.name: option.default for option in command_of_task.options}
    inputs, taken = Inputs("the model", (), several=True), command_of_task.takes(pipe, options)
    use = command_of_task(taken, inputs, options)
    answers: list[tuple[list[Any], Any] | None] = []
    """of each row the lines of a table that its answer is, and the answer; None without a text"""
    for texts in _parts(held, column):
        filled = [text for text in texts if text.strip()]
        use = command_of_task(taken, replace(inputs, values=filled), options)
        answered = use.answer(filled) if filled else []
        lines = ([list(line) for line in use.rows(at, one)] for at, one in enumerate(answered))
        both = zip(lines, use.results(answered) if filled else [], strict=True)
        answers += [next(both) if text.strip() else None for text in texts]
    if use.gathers or any(answer is not None and len(answer[0]) != 1 for answer in answers):
        return {"answer": [None if answer is None else answer[1] for answer in answers]}
    own = {at: str(name) for at, name in enumerate(use.columns) if name != inputs.what}
    return {name: [None if answer is None else answer[0][0][at] for answer in answers] for at, name in own.items()}


def _parts(held: Any, column: str) -> Iterator[list[str]]:
    """The texts of some rows at a time, "" for none."""
    for start in range(0, max(1, held.count), AT_ONCE):
        part = held.part(start, min(start + AT_ONCE, held.count))
        cells = zip(*(part[name] for name in _names(column, held)), strict=True)
        yield ["\n".join(str(cell) for cell in row if cell is not None and cell == cell and str(cell)) for row in cells]


def _with_columns(frame: Any, columns: dict[str, list[Any]]) -> Any:
    """The frame with more columns, of its own kind."""
    if hasattr(frame, "iloc"):
        answered = frame.copy()
        for name, values in columns.items():
            answered[name] = values
        return answered
    if hasattr(frame, "iter_rows"):
        return frame.hstack(type(frame)(columns, strict=False))
    for name, values in columns.items():
        arrow = hasattr(frame, "append_column")
        frame = frame.append_column(name, [values]) if arrow else frame.add_column(name, values)
    return frame
