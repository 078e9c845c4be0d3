"""Data in memory, recognised by attributes: frames, Arrow tables, data sets, lists of texts, of labels and of rows."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.data.formats.json_lines import text_of
from headway.data.formats.parquet import class_name
from headway.data.open.files import Tally
from headway.data.records.corpus import Corpus, Source, row_documents
from headway.data.records.rows import ROWS, BadRows, OpenTable, occurs_twice, place_of, tallied
from headway.data.records.table import Table, read_table
from headway.errors import InputError
from headway.hub.download import dataset_id
from headway.io.quantities import counted

ENDING = re.compile(r"\.(txt|csv|tsv|tab|jsonl|ndjson|json|parquet|xlsx|xlsm|xls|ods|npz|gz)$", re.IGNORECASE)
"""How files of data end."""
EXPECTED = (
    "expected names of files, a pandas or polars frame, a pyarrow Table, a datasets.Dataset, a list or Series of "
    "texts, a pair of a list of texts and a list of labels, a list of dicts, or a dict of columns"
)


@dataclass(frozen=True)
class Held:
    """Rows in memory: what they are, their columns, the values of each column from a row on, up to another, and their
    labels, of a frame of pandas those of its index."""

    what: str
    columns: list[str]
    count: int
    part: Callable[[int, int], dict[str, list[Any]]]
    label: Callable[[int], object] = int

    def place(self, row: int) -> str:
        """Where a row stands."""
        return place_of(Path(self.what), row, self.label)


def given_inputs(inputs: Sequence[Any]) -> list[Any]:
    """The inputs of a call from Python: names of files one by one, or one table of data in memory.

    Raises InputError for anything else.
    """
    inputs = [_listed(one) for one in inputs]
    if len(inputs) == 2 and all(isinstance(one, list | tuple) for one in inputs) and _are_texts(list(inputs[0])):
        inputs = [(list(inputs[0]), list(inputs[1]))]
    held = [in_memory(one) for one in inputs]
    if len(inputs) == 1 and held[0] is not None:
        return [_table(held[0])]
    names: list[Any] = []
    for one, rows in zip(inputs, held, strict=True):
        files = [one] if isinstance(one, str | Path) else list(one) if isinstance(one, list | tuple) else [None]
        if rows is not None or not all(isinstance(file, str | Path) for file in files):
            what = rows.what if rows is not None else f"{type(one).__name__} ({str(one)[:40]!r})"
            alone = "must be the only one;" if rows is not None else "cannot be used:"
            raise InputError(f"the input {what} {alone} {EXPECTED}.")
        names += files
    return names


def _listed(data: Any) -> Any:
    """A Series, an array or a column of a data set as a list, alone or in a pair; anything else as it is."""
    if isinstance(data, tuple):
        return tuple(map(_listed, data))
    to_list = getattr(data, "tolist", None) or getattr(data, "to_list", None)
    if to_list is not None and not (hasattr(data, "columns") or hasattr(data, "column_names")):
        return to_list()
    return list(data) if hasattr(data, "column_name") else data


def in_memory(data: Any) -> Held | None:
    """What is in memory; None for what may name files.  Raises InputError for what holds no rows yet."""
    if type(data).__name__ == "LazyFrame":
        raise InputError("a polars LazyFrame has no rows yet; pass the result of its .collect().")
    if isinstance(data, dict) and data and all(hasattr(one, "column_names") for one in data.values()):
        raise InputError(f"a dict of data sets: pass one of them, such as data[{next(iter(data))!r}].")
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        return _pandas(data)
    if hasattr(data, "iter_rows") and hasattr(data, "columns"):
        return Held(
            "a polars frame",
            list(data.columns),
            len(data),
            lambda start, stop: data.slice(start, stop - start).to_dict(as_series=False),
        )
    if hasattr(data, "features") and isinstance(getattr(data, "column_names", None), list):
        return _data_set(data)
    if hasattr(data, "schema") and hasattr(data, "to_pydict"):
        columns = list(data.column_names)
        return Held("an Arrow table", columns, len(data), lambda start, stop: data[start:stop].to_pydict())
    if isinstance(data, dict) and data:
        return _columns(data)
    if isinstance(data, tuple) and len(data) == 2 and all(isinstance(side, list) for side in data):
        return _texts(*data)
    if isinstance(data, list) and data and all(isinstance(row, dict) for row in data):
        return _dicts(data)
    return _texts(data) if _are_texts(data) else None


def _are_texts(data: Any) -> bool:
    """Whether this is a list of texts: some have blanks and none is there as a file, or not all may name inputs."""
    if not isinstance(data, list) or not data or not all(isinstance(one, str) for one in data):
        return False
    if any(len(one.split()) > 1 for one in data):
        return not any(_is_there(one) for one in data[:100])
    return len(data) > 1 and not all(ENDING.search(one) or dataset_id(one) or _is_there(one) for one in data)


def _is_there(name: str) -> bool:
    try:
        return name.strip() != "" and Path(name).exists()
    except (OSError, ValueError):
        return False


def _pandas(frame: Any) -> Held:
    """A frame; an index with a name is a column, as in the Parquet file that pandas writes of it."""
    labels = frame.index
    if any(name is not None and name not in frame.columns for name in frame.index.names):
        frame = frame.reset_index()

    columns = [str(name) for name in frame.columns]

    def part(start: int, stop: int) -> dict[str, list[Any]]:
        rows = frame.iloc[start:stop]
        values = (rows.iloc[:, at].astype(object).where(rows.iloc[:, at].notna(), None) for at in range(len(columns)))
        return {name: one.tolist() for name, one in zip(columns, values, strict=True)}

    return Held("a pandas frame", columns, len(frame), part, labels.__getitem__)


def _data_set(rows: Any) -> Held:
    names = {name: list(feature.names) for name, feature in rows.features.items() if hasattr(feature, "names")}

    def part(start: int, stop: int) -> dict[str, list[Any]]:
        values = rows[start:stop]
        return values | {name: [class_name(value, known) for value in values[name]] for name, known in names.items()}

    return Held("a data set", list(rows.column_names), len(rows), part)


def _held_columns(what: str, columns: Mapping[str, Sequence[Any]]) -> Held:
    """Columns of one length."""

    def part(start: int, stop: int) -> dict[str, list[Any]]:
        return {name: list(values[start:stop]) for name, values in columns.items()}

    return Held(what, list(columns), len(next(iter(columns.values()))), part)


def _columns(data: dict[Any, Any]) -> Held:
    """A dict of columns: lists, arrays or Series of one length."""
    columns = {str(name): _listed(values) for name, values in data.items()}
    sizes = {name: len(values) for name, values in columns.items() if isinstance(values, list | tuple)}
    if len(sizes) < len(columns) or len({*sizes.values()}) > 1:
        lengths = ", ".join(f"{name!r} has {sizes.get(name, 'none')}" for name in columns)
        raise InputError(f"a dict of columns: expected lists of as many values in each; {lengths}.")
    return _held_columns("a dict of columns", columns)


def _texts(texts: list[Any], labels: list[Any] | None = None) -> Held:
    if not all(isinstance(text, str) for text in texts):
        at, other = next((at, text) for at, text in enumerate(texts) if not isinstance(text, str))
        raise InputError(
            f"a list of texts has {type(other).__name__} ({str(other)[:40]!r}) at index {at}; expected only texts."
        )
    if labels is None:
        return _held_columns("a list of texts", {"text": texts})
    if len(texts) != len(labels):
        raise InputError(f"{len(texts):,} texts were given with {len(labels):,} labels; expected as many of both.")
    return _held_columns("texts with labels", {"text": texts, "label": labels})


def _dicts(rows: list[dict[Any, Any]]) -> Held:
    columns = list(rows[0])
    if other := next((number for number, row in enumerate(rows) if row.keys() != rows[0].keys()), None):
        raise InputError(
            f"a list of dicts: index {other} has the keys {', '.join(map(str, rows[other]))}, the first row has "
            f"{', '.join(map(str, columns))}; expected the same in each."
        )

    def part(start: int, stop: int) -> dict[str, list[Any]]:
        return {str(name): [row[name] for row in rows[start:stop]] for name in columns}

    return Held("a list of dicts", [str(name) for name in columns], len(rows), part)


def _table(held: Held) -> Table:
    """The table of data in memory, after one pass over them.  Raises InputError for data without texts or numbers."""
    name = f"{held.what} of {counted(held.count, 'row')}"
    if not held.count or not held.columns:
        raise InputError(f"{held.what} is empty; expected rows of texts.")
    if (twice := occurs_twice(held.columns)) is not None:
        raise InputError(f"{name}: has two columns {twice!r}; every column needs its own name.")

    def opened(bad: Sequence[BadRows], tallies: Sequence[Tally | None]) -> Iterator[OpenTable]:
        yield OpenTable(held.columns, tallied(held.columns, _parts(name, held), bad[0], tallies[0]))

    return read_table([Path(name)], opened, "error", "", judged=held.columns, held=held.label)


def _parts(name: str, held: Held) -> Iterator[tuple[range, list[list[str]]]]:
    """Some rows at a time: their numbers, and the cells of each column."""
    for start in range(0, held.count, ROWS):
        rows = range(start, min(start + ROWS, held.count))
        columns = held.part(rows.start, rows.stop).items()
        yield (
            rows,
            [
                [_cell(*cell, column, name, held) for cell in zip(values, rows, strict=True)]
                for column, values in columns
            ],
        )


def _cell(value: Any, row: int, column: str, name: str, held: Held) -> str:
    """A value as a string, as in Parquet.  Raises InputError for one that is no text and no number."""
    value = value.tolist() if hasattr(value, "tolist") else list(value) if isinstance(value, tuple) else value
    problem = ""
    if isinstance(value, bytes | dict | set | frozenset):
        problem = f"column {column!r} holds {type(value).__name__}; expected texts or numbers."
    elif "\0" in (text := text_of(value)):
        problem = f"a NUL in column {column!r}; expected text. Remove it and run again."
    if problem:
        raise InputError(f"{name}, {held.place(row)}: {problem}")
    return text


def table_corpus(table: Table, column: str) -> Corpus:
    """One column of a table in memory as running text, of which each row is a document."""
    table.check_column(column)
    return Corpus([Source(table.path, lambda tally: row_documents(table.values(column), tally), column)])
