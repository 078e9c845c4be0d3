"""Parquet: columns of scalars as rows of strings, read by row groups and never held whole.

A number is taken as Python writes it, true and false as those words, null and NaN as "", as the readers of .csv and
.jsonl give them; the number of a class for which the file has a name as that name.  Nested columns and columns of bytes
are left out, and so is the index that pandas writes; but lists of tokens and of their tags are read as JSON, as those
of .jsonl are, so that they are recognised.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any

from headway.data.formats.tags import tagged_lists
from headway.data.open.diagnose import check_head
from headway.data.open.files import Tally
from headway.data.records.chunks import Chunk
from headway.data.records.rows import BadRows, OpenTable, missing_column
from headway.errors import InputError

EXTRA = "Reading Parquet needs pyarrow: pip install 'headway[data]'."
BATCH = 1024
"""Rows that become strings at a time."""
BUFFER = 1 << 20
"""Bytes of a column that are read at a time."""
MAGIC = b"PAR1"
INDEX = re.compile(r"__index_level_\d+__")
"""What pandas calls an index without a name."""


class Unreachable(OSError):
    """A file that is not on this machine cannot be fetched now."""


def pyarrow() -> Any:
    """The library, with its part for Parquet.  Raises InputError where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(EXTRA) from None
    return pyarrow


@contextmanager
def opened(
    name: str | Path, open_file: Callable[[], IO[bytes]], look: Callable[[IO[bytes]], None] | None = None
) -> Iterator[Any]:
    """A file as pyarrow's ``ParquetFile``, while it is read; ``look`` may look at its bytes first.

    Raises InputError, naming the file, where it cannot be opened, is not Parquet or is cut short, and where reading
    it fails.
    """
    library = pyarrow()
    try:
        with open_file() as file:
            _check_ends(name, file)
            if look is not None:
                look(file)
                file.seek(0)
            yield library.parquet.ParquetFile(file, buffer_size=BUFFER)
    except MemoryError:
        raise
    except FileNotFoundError:
        raise InputError(f"{name}: this file no longer exists.") from None
    except PermissionError:
        raise InputError(f"{name}: permission denied; check who may read this file.") from None
    except Unreachable as error:
        raise InputError(f"{name}: cannot be fetched now ({str(error).splitlines()[0][:200]}).") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: a text in it is not UTF-8 ({error.reason}); write the file again.") from None
    except (library.ArrowException, OSError) as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise InputError(f"{name}: this Parquet file is cut short or damaged ({why}); copy it again.") from None


def _check_ends(name: str | Path, file: IO[bytes]) -> None:
    """Raise InputError for a file that does not begin and end as Parquet does."""
    head = file.read(512)
    if head[:2] == b"\x1f\x8b":
        raise InputError(f"{name}: this file is gzip-compressed; unpack it first: Parquet has its own compression.")
    if head[:4] != MAGIC:
        check_head(Path(name), head, None)
        raise InputError(f"{name}: this is not a Parquet file; give it the ending that fits (.csv, .jsonl, .txt).")
    file.seek(0, 2)
    file.seek(max(0, file.tell() - 4))
    if (tail := file.read()) != MAGIC:
        how = "is encrypted; decrypt it first" if tail == b"PARE" else "is cut short; copy it again"
        raise InputError(f"{name}: this Parquet file {how}.")
    file.seek(0)


def scalar_columns(name: str | Path, file: Any) -> list[str]:
    """The columns of an open file that can be read.  Raises InputError where there is none, or two of one name."""
    schema = file.schema_arrow
    lists = tagged_lists([field.name for field in schema if is_list(field.type)])
    read = [field.name for field in schema if is_scalar(field.type) or field.name in lists or is_spans(field.type)]
    found = [column for column in read if not INDEX.fullmatch(column)]
    if not found:
        others = ", ".join(f"{field.name} ({field.type})" for field in schema)
        raise InputError(
            f"{name}: no column holds texts or numbers, only {others[:200] or 'none at all'}; nested columns are not "
            "read. Write the texts into a column of their own."
        )
    if twice := sorted({column for column in found if schema.names.count(column) > 1}):
        raise InputError(f"{name}: has two columns {twice[0]!r}; every column needs its own name.")
    return found


def is_scalar(kind: Any) -> bool:
    """Whether a type of Arrow's is that of texts, numbers, dates or truth values."""
    types = pyarrow().types
    if types.is_dictionary(kind):
        return is_scalar(kind.value_type)
    tests = ("string", "large_string", "string_view", "integer", "floating", "decimal", "boolean", "temporal", "null")
    return any(getattr(types, f"is_{test}")(kind) for test in tests)


def is_list(kind: Any) -> bool:
    """Whether a type of Arrow's is that of lists of texts, numbers and so on."""
    types = pyarrow().types
    tests = ("list", "large_list", "fixed_size_list")
    return any(getattr(types, f"is_{test}")(kind) for test in tests) and is_scalar(kind.value_type)


def is_spans(kind: Any) -> bool:
    """Whether a type of Arrow's is that of lists of spans: objects of a start, an end and a label."""
    types = pyarrow().types
    structs = (types.is_list(kind) or types.is_large_list(kind)) and types.is_struct(kind.value_type)
    return structs and {"start", "end", "label"} <= {field.name for field in kind.value_type}


def cell(value: object) -> str:
    """A value of a column as a string."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False, default=str)
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def class_names(file: Any) -> dict[str, list[str]]:
    """What the numbers of a column stand for, where ``datasets`` of Hugging Face wrote that into the file."""
    try:
        features = json.loads(file.schema_arrow.metadata[b"huggingface"])["info"]["features"]
        columns = {name: one.get("feature", one) for name, one in features.items() if isinstance(one, dict)}
        classes = {name: one for name, one in columns.items() if isinstance(one, dict) and "names" in one}
    except (TypeError, KeyError, ValueError, AttributeError):
        return {}
    return {name: list(map(str, one["names"])) for name, one in classes.items() if one.get("_type") == "ClassLabel"}


def cells(batch: Any, columns: Sequence[str], names: dict[str, list[str]]) -> list[list[str]]:
    """The cells of these columns of a batch, column by column; ``names`` are those of classes."""
    found = []
    for column in columns:
        values, known = batch.column(column).to_pylist(), names.get(column)
        if known is not None:
            values = [
                [_named(v, known) for v in row] if isinstance(row, list) else _named(row, known) for row in values
            ]
        found.append([cell(value) for value in values])
    return found


def _named(value: object, names: Sequence[str]) -> str | None:
    """The name of a class; a number that has none, such as -1, says that there is no class."""
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None


def open_parquet(path: Path, bad: BadRows, tally: Tally | None, columns: Sequence[str] | None = None) -> OpenTable:
    """The columns of a Parquet file (or those named) and its rows, counted from 1.

    What is tallied are names and cells, not the bytes of the file.  Raises InputError as ``opened`` and
    ``scalar_columns`` do, and through ``bad`` for a cell with a NUL.
    """
    with opened(path, lambda: path.open("rb")) as file:
        found = scalar_columns(path, file)
    for name in columns or ():
        if name not in found:
            raise missing_column(str(path), name, found)
    chosen = found if columns is None else list(columns)
    return OpenTable(chosen, _chunks(path, chosen, bad, tally))


def _chunks(path: Path, columns: list[str], bad: BadRows, tally: Tally | None) -> Iterator[Chunk]:
    number = 0
    if tally is not None:
        tally.add("\0".join([*columns, ""]).encode())
    with opened(path, lambda: path.open("rb")) as file:
        names = class_names(file)
        for batch in file.iter_batches(BATCH, columns=columns):
            found = Chunk(
                dict(zip(columns, cells(batch, columns, names), strict=True)),
                range(number + 1, number + 1 + batch.num_rows),
            )
            number += batch.num_rows
            if any("\0" in text for values in found.columns.values() for text in values):
                found = _without_nul(found, bad)
            if tally is not None and len(found):
                row_by_row = chain.from_iterable(zip(*found.columns.values(), strict=True))
                tally.add("\0".join([*row_by_row, ""]).encode())
            if len(found):
                yield found


def _without_nul(chunk: Chunk, bad: BadRows) -> Chunk:
    """The rows of which no cell has a NUL; the others are malformed."""
    kept = []
    for at, (number, row) in enumerate(zip(chunk.numbers, chunk.rows(), strict=True)):
        if name := next((name for name, text in row.items() if "\0" in text), None):
            bad.add(number, f"a NUL in column {name!r}; expected text. Remove it and run again.")
        else:
            kept.append(at)
    columns = {name: [values[at] for at in kept] for name, values in chunk.columns.items()}
    return Chunk(columns, [chunk.numbers[at] for at in kept])
