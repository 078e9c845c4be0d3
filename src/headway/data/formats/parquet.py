"""Parquet: columns as rows of strings (``json_lines.text_of``), read by row groups and never held whole."""

import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

from headway.data.formats.json_lines import PAIRS, text_of
from headway.data.open.diagnose import check_head
from headway.data.open.files import Tally
from headway.data.records.rows import BadRows, OpenTable, missing_column, occurs_twice, tallied
from headway.errors import InputError

EXTRA = "Reading Parquet needs pyarrow: pip install 'headway[data]'."
BATCH, BATCH_BYTES = 1024, 32 << 20
"""Rows that become strings at a time, and about how many bytes they may have at most; one row always does."""
BUFFER = 1 << 20
"""Bytes of a column that are read at a time."""
MAGIC = b"PAR1"
INDEX = re.compile(r"__index_level_\d+__")
"""What pandas calls an index without a name."""
NO_TEXT = re.compile(rb"[\0-\x08\x0e-\x1a]")
"""Control characters, which bytes that are no text hold."""
NUMBERS = re.compile("u?int|float|double|halffloat|bool|decimal|date|time|duration|null")
"""How the names of Arrow's types begin that hold no texts."""
VECTOR = re.compile(r"(large_|fixed_size_)?list<\w+: (float|double|halffloat)\b")
"""How the names of the types of lists of real numbers begin."""
NAMED: set[tuple[Path, str]] = set()
"""The folders whose columns that are not read were named, so that those of many files are named once."""


class Unreachable(OSError):
    """A file that is not on this machine cannot be fetched now."""


def pyarrow() -> Any:
    """The library, with its parts for computing and for Parquet.  Raises InputError where it is not installed."""
    try:
        import pyarrow
        import pyarrow.compute
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
            parquet = library.parquet.ParquetFile(file, buffer_size=BUFFER)
            parquet.handle = file
            yield parquet
    except MemoryError:
        raise
    except FileNotFoundError:
        raise InputError(f"{name}: this file no longer exists.") from None
    except PermissionError:
        raise InputError(f"{name}: permission denied; check who may read this file.") from None
    except Unreachable as error:
        raise InputError(f"{name}: cannot be fetched now ({str(error).splitlines()[0][:200]}).") from None
    except (library.ArrowException, OSError, UnicodeDecodeError) as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise InputError(f"{name}: this Parquet file is cut short or damaged ({why}); copy it again.") from None


def write_parquet(path: Path, columns: Sequence[str], rows: Callable[[], Iterable[Sequence[Any]]]) -> None:
    """Write rows, which are read twice; a column is of numbers, or true and false, where all that is not None is.

    Raises InputError where pyarrow is not installed.
    """
    library = pyarrow()
    types = {bool: library.bool_(), int: library.int64(), float: library.float64(), str: library.string()}
    held: list[set[Any]] = [set() for _ in columns]
    for row in rows():
        for kinds, value in zip(held, row, strict=True):
            kinds.add(str if type(value) is int and abs(value) >= 2**63 else type(value))
    chosen = [_one_type(kinds - {type(None)}) for kinds in held]
    schema = library.schema([(name, types[kind]) for name, kind in zip(columns, chosen, strict=True)])
    left = iter(rows())
    with library.parquet.ParquetWriter(path, schema) as writer:
        while part := list(islice(left, BATCH)):
            values = [
                [None if value is None else kind(value) for value in column]
                for kind, column in zip(chosen, zip(*part, strict=True), strict=True)
            ]
            writer.write_table(library.table(values, schema=schema))


def _one_type(kinds: set[Any]) -> Any:
    """The type that holds the values of a column."""
    if len(kinds) == 1 and kinds <= {bool, int}:
        return next(iter(kinds))
    return float if kinds <= {int, float} else str


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


def readable_columns(name: str | Path, file: Any) -> list[str]:
    """The columns of an open file that can be read: no vectors, no bytes that are no text (of both it warns), no index.

    Raises InputError where there is none, or none of texts next to others that cannot be read, or two of one name.
    """
    fields = [field for field in file.schema_arrow if not INDEX.fullmatch(field.name)]
    names = [field.name for field in fields]
    if (twice := occurs_twice(names)) is not None:
        raise InputError(f"{name}: has two columns {twice!r}; every column needs its own name.")
    unread = [field for field in fields if VECTOR.match(str(field.type)) or _is_binary(field, file)]
    others = ", ".join(f"{field.name} ({field.type})" for field in unread)[:200]
    read = [field for field in fields if field not in unread]
    if not read or (unread and all(NUMBERS.match(str(field.type)) for field in read)):
        only = ", ".join(f"{field.name} ({field.type})" for field in read) or "none at all"
        raise InputError(
            f"{name}: no column holds texts, only {only}; not read: {others or 'none'}. Write them into a column."
        )
    if unread and (once := (Path(name).parent, others)) not in NAMED:
        NAMED.add(once)
        warnings.warn(f"{name}: columns that are not read: {others}", stacklevel=2)
    pairs = next((field.type for field in read if field.name == PAIRS and str(field.type).startswith("struct")), ())
    return [*(field.name for field in read if field.name != PAIRS or not pairs), *(field.name for field in pairs)]


def _is_binary(field: Any, file: Any) -> bool:
    """Whether a column holds bytes that are no text, by its first values."""
    parts = batches(file, [field.name]) if "binary" in str(field.type) else ()
    held: list[bytes] = []
    for batch in islice(parts, 1):
        json.dumps(batch.column(0).to_pylist(), default=lambda one: held.append(one) if isinstance(one, bytes) else "")
    return NO_TEXT.search(b"".join(held)) is not None


def paths_of(file: Any, columns: Sequence[str]) -> list[str]:
    """Where columns are in an open file."""
    there = set(file.schema_arrow.names)
    return [column if column in there else f"{PAIRS}.{column}" for column in columns]


def batches(file: Any, paths: Sequence[str], groups: Iterable[int] | None = None) -> Iterator[Any]:
    """The rows of an open file, or of some of its row groups, a thousand at a time; fewer where values are long."""
    for group in range(file.metadata.num_row_groups) if groups is None else groups:
        yield from file.iter_batches(_rows_at_once(file, group, paths), row_groups=[group], columns=paths)


def _rows_at_once(file: Any, group: int, paths: Sequence[str]) -> int:
    """How many rows of a group to read at a time.

    The footer says how many bytes a column has.  A value that is written once and referred to may be in every row, so
    the longest of a dictionary counts for each; where a value can refer to the one before, it may be all of them.
    """
    footer, wanted = file.metadata.row_group(group), {path.split(".")[0] for path in paths}
    columns = [footer.column(number) for number in range(footer.num_columns)]
    texts = [one for one in columns if one.physical_type == "BYTE_ARRAY" and one.path_in_schema.split(".")[0] in wanted]
    rows = max(1, footer.num_rows)
    repeated = sum(one.total_uncompressed_size for one in texts if "DELTA_BYTE_ARRAY" in one.encodings)
    if coded := [one.path_in_schema for one in texts if one.has_dictionary_page]:
        again = pyarrow().parquet.ParquetFile(file.handle, metadata=file.metadata, read_dictionary=coded)
        for first in islice(again.iter_batches(1, row_groups=[group], columns=coded), 1):
            repeated += sum(map(_longest, first.columns))
    each = max((-(-one.num_values // rows) for one in texts), default=1)
    bytes_of_row = sum(one.total_uncompressed_size for one in texts) // rows + repeated * each
    return max(1, min(BATCH, BATCH_BYTES // max(1, bytes_of_row)))


def _longest(array: Any) -> int:
    """Bytes of the longest value of a dictionary; of several in an array of lists or objects, together."""
    library = pyarrow()
    if library.types.is_dictionary(array.type):
        return library.compute.max(library.compute.binary_length(array.dictionary)).as_py() or 0
    if library.types.is_struct(array.type):
        return sum(_longest(array.field(at)) for at in range(array.type.num_fields))
    return _longest(array.values) if library.types.is_nested(array.type) else 0


def column_of(part: Any, name: str) -> Any:
    """A column of a part of a file, whose elements have ``.as_py()``."""
    if part.schema.get_field_index(name) >= 0:
        return part.column(name)
    return pyarrow().compute.struct_field(part.column(PAIRS), name)


def class_names(file: Any) -> dict[str, list[str]]:
    """What the numbers of a column stand for, where ``datasets`` of Hugging Face wrote that into the file."""
    try:
        features = json.loads(file.schema_arrow.metadata[b"huggingface"])["info"]["features"]
        columns = {name: one.get("feature", one) for name, one in features.items() if isinstance(one, dict)}
        classes = {name: one for name, one in columns.items() if isinstance(one, dict) and "names" in one}
    except (TypeError, KeyError, ValueError, AttributeError):
        return {}
    return {name: list(map(str, one["names"])) for name, one in classes.items() if one.get("_type") == "ClassLabel"}


def cell_batches(
    file: Any,
    columns: Sequence[str],
    place: str | Path,
    groups: Iterable[int] | None = None,
    start: int = 0,
    stop: int | None = None,
) -> Iterator[tuple[int, list[list[str]]]]:
    """The rows [start, stop) of an open file, or of some of its row groups, a thousand at a time.

    Of each part the number of its first row, from 1, and the cells of these columns, column by column.  Raises
    InputError, with ``place`` and the row, for what is not UTF-8.
    """
    names, at = class_names(file), 0
    for batch in batches(file, paths_of(file, columns), groups):
        low, high = max(start - at, 0), batch.num_rows if stop is None else min(stop - at, batch.num_rows)
        if low < high:
            part, first, cells = batch.slice(low, high - low), at + low + 1, list[list[str]]()
            for column in columns:
                known, array = names.get(column), column_of(part, column)
                try:
                    values = array.to_pylist()
                    cells.append([text_of(value if known is None else class_name(value, known)) for value in values])
                except UnicodeDecodeError:
                    for row in range(len(array)):
                        text_at(array, row, f"{place}, row {first + row}, column {column!r}")
            yield first, cells
        at += batch.num_rows
        if stop is not None and at >= stop:
            return


def text_at(array: Any, row: int, place: str) -> str:
    """One cell of a column.  Raises InputError, with its place, where it is not UTF-8."""
    try:
        return text_of(array[row].as_py())
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: this text is not UTF-8 ({error.reason}); write the file again as UTF-8.") from None


def class_name(value: object, names: Sequence[str]) -> Any:
    """The name of a class, or of each in a list; None for a number that has none, such as -1."""
    if isinstance(value, list):
        return [class_name(one, names) for one in value]
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None


def open_parquet(path: Path, bad: BadRows, tally: Tally | None, columns: Sequence[str] | None = None) -> OpenTable:
    """The columns of a Parquet file (or those named) and its rows, counted from 1.

    What is tallied are names and cells, not the bytes of the file.  Raises InputError as ``opened`` and
    ``readable_columns`` do, and through ``bad`` for a cell with a NUL.
    """
    with opened(path, lambda: path.open("rb")) as file:
        readable = readable_columns(path, file)
    for name in columns or ():
        if name not in readable:
            raise missing_column(str(path), name, readable)
    chosen = readable if columns is None else list(columns)
    return OpenTable(chosen, tallied(chosen, _parts(path, chosen), bad, tally))


def _parts(path: Path, columns: list[str]) -> Iterator[tuple[range, list[list[str]]]]:
    """The rows of a file, a thousand at a time: their numbers, and the cells of each column."""
    with opened(path, lambda: path.open("rb")) as file:
        for first, cells in cell_batches(file, columns, path):
            yield range(first, first + len(cells[0])), cells
