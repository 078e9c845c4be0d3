"""Answers to data frames: pandas, polars, pyarrow and datasets, each given back as it came, with columns of answers."""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType, NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np

from headway.data.open.in_memory import in_memory
from headway.data.records.rows import columns_named, occurs_twice, some
from headway.errors import InputError

AT_ONCE = 4_096
"""Rows that are answered together."""


class FrameAnswers:
    """A pipeline that answers data frames."""

    task: str
    text_column: str | None = None
    """the column of the texts that its run was trained on"""

    @property
    def default_options(self) -> dict[str, Any]:
        """The options of the task's verb with their defaults."""
        from headway.tasks.registry import command

        return {option.name: option.usual for option in command(self.task).options}

    def answer_types(self, **options: Any) -> dict[str, Any]:
        """The columns that ``predict`` adds, and the Python type of each.  Raises InputError for unknown options."""
        return answered(self, [], options)[0]

    def predict(self, frame: Any, text_column: str | None = None, **options: Any) -> Any:
        """The frame with columns for the answers; its own and its index stay, and rows without a text get null.

        ``frame`` is a pandas or polars frame, a pyarrow Table, a datasets.Dataset or a dict of columns.  The answers'
        fields are columns; one that is there already is called ``predicted: FIELD``.  Where a text has several answers
        (spans), all are a list in the column ``answer``; an embedding is one in ``vector``.  ``text_column`` is by
        default that of the run, or the only column of texts; ``options`` are those of the task's verb
        (``max_tokens=20``).

        Raises InputError for anything else, for options that there are not, and where the column of texts is not clear.
        """
        held = in_memory(frame)
        if held is None or isinstance(frame, list | tuple):
            raise InputError(
                "predict takes a pandas or polars frame, a pyarrow Table, a datasets.Dataset or a dict of columns, "
                f"not {type(frame).__name__}; texts are answered by the pipeline itself: pipe(texts)."
            )
        if (twice := occurs_twice(held.columns)) is not None:
            raise InputError(f"{held.what}: has two columns {twice!r}; every column needs its own name.")
        types, answers = answered(self, texts_of(held, _text_column(self, held, text_column)), options)
        from headway.tasks.command import free_names

        names = free_names(types, held.columns)
        return with_columns(frame, {names[field]: (kind, answers[field]) for field, kind in types.items()})


def _text_column(pipe: FrameAnswers, held: Any, asked: str | None) -> str:
    """The column of texts.  Raises InputError where it is not clear."""
    known = pipe.text_column
    is_there = known is not None and set(columns_named(known, held.columns)) <= set(held.columns)
    named = asked or (known if is_there else None)
    if named is None:
        first = held.part(0, min(held.count, 100))
        words = [name for name in held.columns if any(isinstance(value, str) for value in first[name])]
        named = words[0] if len(words) == 1 else None
    if named is None or not set(columns_named(named, held.columns)) <= set(held.columns):
        what = f"there is no column {asked!r}" if asked else "which column holds the texts is not clear"
        raise InputError(f"{held.what}: {what}; pass text_column. Its columns are {some(held.columns)}.")
    if known is not None and asked is None and named != known:
        warnings.warn(
            f"{held.what} has no column {known!r}: {named!r} is taken as the text (text_column)", stacklevel=3
        )
    return named


def answered(
    pipe: Any, parts: Iterable[list[str]], asked: Mapping[str, Any] = MappingProxyType({})
) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """The columns of answers to some texts at a time: the type of each, and its values, None for a text of blanks.

    ``asked`` are options of the task's verb.  Raises InputError for others.
    """
    from headway.tasks.command import Inputs
    from headway.tasks.registry import command

    command_of_task = command(pipe.task)
    options = pipe.default_options
    if unknown := asked.keys() - options.keys():
        known = f"those of {pipe.task} are {', '.join(options)}" if options else f"{pipe.task} has none"
        raise InputError(f"there is no option {', '.join(sorted(unknown))}; {known}.")
    options |= asked
    inputs, taken = Inputs("the model", (), several=True), command_of_task.takes(pipe, options)
    types = {name: _not_null(kind) for name, kind in command_of_task(taken, inputs, options).types.items()}
    columns: dict[str, list[Any]] = {name: [] for name in types}
    for texts in parts:
        filled = [text for text in texts if text.strip()]
        use = command_of_task(taken, replace(inputs, values=filled), options)
        cells = (use.cells(at, one) for at, one in enumerate(use.answer(filled) if filled else []))
        rows = [next(cells) if text.strip() else [None] * len(types) for text in texts]
        for at, column in enumerate(columns.values()):
            column += [row[at] for row in rows]
    return types, columns


def texts_of(held: Any, column: str) -> Iterator[list[str]]:
    """The texts of some rows at a time, "" for none."""
    for start in range(0, max(1, held.count), AT_ONCE):
        part = held.part(start, min(start + AT_ONCE, held.count))
        cells = zip(*(part[name] for name in columns_named(column, held.columns)), strict=True)
        yield ["\n".join(str(cell) for cell in row if cell is not None and cell == cell and str(cell)) for row in cells]


def _not_null(kind: Any) -> Any:
    """The type of what may be missing."""
    return next(part for part in get_args(kind) if part is not NoneType) if isinstance(kind, UnionType) else kind


def arrow_type(kind: Any) -> Any:
    """The Arrow type of a column of answers."""
    import pyarrow

    plain = _not_null(kind)
    if is_typeddict(plain):
        return pyarrow.struct([(name, arrow_type(field)) for name, field in get_type_hints(plain).items()])
    if get_origin(plain) is list:
        return pyarrow.list_(arrow_type(get_args(plain)[0]))
    return {str: pyarrow.string(), int: pyarrow.int64()}.get(plain, pyarrow.float64())


def with_columns(frame: Any, columns: dict[str, tuple[Any, list[Any]]]) -> Any:
    """The frame with more columns, each a type and its values; of its own kind."""
    if isinstance(frame, dict):
        kinds = {name: "float64" if kind is float else "object" for name, (kind, _) in columns.items()}
        return frame | {name: np.fromiter(columns[name][1], kind) for name, kind in kinds.items()}
    if hasattr(frame, "iloc"):
        copied, texts = frame.copy(), type(frame)({"text": ["a text"]})["text"].dtype
        for name, (kind, values) in columns.items():
            copied[name] = values
            usual = copied[name].dtype if values else "object"
            copied[name] = copied[name].astype({float: "float64", str: texts}.get(kind, usual))
        return copied
    if hasattr(frame, "iter_rows"):
        scalars = {name: kind for name, (kind, _) in columns.items() if kind in (str, float)}
        cells = {name: values for name, (_, values) in columns.items()}
        return frame.hstack(type(frame)(cells, schema_overrides=scalars, strict=False))
    import pyarrow

    for name, (kind, values) in columns.items():
        array, arrow = pyarrow.array(values, arrow_type(kind)), hasattr(frame, "append_column")
        frame = frame.append_column(name, array) if arrow else frame.add_column(name, array)
    return frame
