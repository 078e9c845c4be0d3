"""One reader for every command: files in, a `Corpus` of running text or a `Table` out.

.txt (and any other extension that is text), .csv, .tsv, .jsonl, each also as .gz, .parquet, folders of one of these
kinds, folders of texts or images by class, and .npz.  A table with one column is running text: every row is a document;
lines of fastText are texts with labels.  A .jsonl or .parquet whose rows have a list of "messages" is conversations,
and so is ShareGPT's with a list of "conversations".
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from headway.data.formats.delimited import open_delimited
from headway.data.formats.json_lines import open_json_lines
from headway.data.formats.labelled_lines import COLUMNS, holds_labels, open_labelled_lines
from headway.data.formats.parquet import open_parquet
from headway.data.images.folder import are_images, read_images
from headway.data.open.class_folders import are_class_folders
from headway.data.open.columns import Judging
from headway.data.open.files import Tally, check_encoding, check_path, folder_files, kind, lines, pieces
from headway.data.records.chunks import Chunk, LineNumbers, line_chunks
from headway.data.records.corpus import Corpus, Document, Source, file_chunks, file_source, row_chunks, whole_text
from headway.data.records.dialogues import Dialogues, Noticed, holds_dialogues, open_dialogues
from headway.data.records.rows import BadRows, OpenTable, check_policy, some
from headway.data.records.table import StreamedRows, Table
from headway.errors import InputError
from headway.io.regular_file import check_name

HELD = 8 << 20
"""The most characters of a table that stay in memory after reading, so that a small file is read once."""
LINES = "text"
"""The column of a text file whose lines are rows."""


def read(
    inputs: Sequence[str | Path] | str | Path,
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
    on_bad_row: str = "error",
    as_text: bool = False,
) -> Corpus | Table:
    """Read what the user named, and check all of it before anything is trained.

    Several inputs of the same kind are joined in order; tables must have the same columns.  `encoding` is that of files
    which are not UTF-8, None for none; `delimiter` None tries , ; tab and | ; `on_bad_row` "skip" leaves malformed rows
    out, at most 1 % of them or five; with `as_text`, folders of texts by class and lines of fastText are running text.
    Raises InputError, naming file and line, for anything that cannot be used as it is.
    """
    check_policy(on_bad_row)
    check_encoding(encoding)
    inputs = [inputs] if isinstance(inputs, str | Path) else inputs
    if are_images(inputs):
        return read_images(inputs, on_bad_row)
    paths = input_paths(inputs)
    if not as_text and are_class_folders(inputs):
        return _read_classes([Path(folder) for folder in inputs], paths, encoding, on_bad_row)
    texts = [path for path in paths if kind(path) == "text" and (as_text or not holds_labels(path, encoding))]
    if texts and len(texts) < len(paths):
        table = next(path for path in paths if path not in texts)
        raise InputError(f"{texts[0]} is running text, {table} is a table; give inputs of one kind.")
    if texts:
        return _checked(Corpus([file_source(path, encoding) for path in paths]))
    talks = [path for path in paths if holds_dialogues(path, encoding)]
    if talks and len(talks) < len(paths):
        other = next(path for path in paths if path not in talks)
        raise InputError(f"{talks[0]} holds conversations, {other} does not; give inputs of one kind.")
    if talks:
        return _read_dialogues(paths, encoding, on_bad_row)
    columns = _same_columns(paths, encoding, delimiter, on_bad_row)
    if len(columns) == 1:
        return _checked(Corpus([_row_source(path, encoding, delimiter, on_bad_row) for path in paths]))
    return _read_table(paths, columns, encoding, delimiter, on_bad_row)


def read_rows(path: Path, *, encoding: str | None = None) -> Table:
    """A file, or a folder of tables or of classes, as rows of any columns; lines of text are the column "text"."""
    check_encoding(encoding)
    check_path(path)
    paths = [path] if kind(path) == "text" and not path.is_dir() else input_paths([path])
    if path.is_dir() and are_class_folders([path]):
        return _read_classes([path], paths, encoding, "error")
    if path.is_dir() and kind(paths[0]) == "text":
        raise InputError(f"{path}: this is a folder of texts; name a file in it.")
    if any(holds_dialogues(file, encoding) for file in paths):
        return _read_dialogues(paths, encoding, "error")
    return _read_table(paths, _same_columns(paths, encoding, None, "error"), encoding, None, "error")


def text_corpus(
    table: Table, column: str, *, encoding: str | None = None, delimiter: str | None = None, on_bad_row: str = "error"
) -> Corpus:
    """One column of a table as running text, streamed from its files again; the options are those given to `read`."""
    table.check_column(column)
    sources = [_row_source(path, encoding, delimiter, on_bad_row, column) for path in table.paths]
    return _checked(Corpus(sources))


def input_paths(inputs: Sequence[str | Path]) -> list[Path]:
    """The files behind the inputs: folders replaced by the files in them, all of them there and not empty.

    Raises InputError.
    """
    if not inputs:
        raise InputError("no input given; name a file or a folder.")
    found: list[Path] = []
    for given in inputs:
        path = Path(check_name(str(given), "an input"))
        check_path(path)
        if not path.is_dir():
            if path.stat().st_size == 0:
                raise InputError(f"{path}: this file is empty (0 bytes).")
            found.append(path)
            continue
        found.extend(folder_files(path))
    seen: set[Path] = set()
    for path in found:
        if path.resolve() in seen:
            raise InputError(f"{path}: is given twice; name each file once.")
        seen.add(path.resolve())
    return found


def _checked(corpus: Corpus) -> Corpus:
    """The corpus after one pass over it.  Raises InputError for files that cannot be used."""
    if not corpus.n_characters:
        raise InputError(f"{corpus.name}: there is no text here, only blank space.")
    return corpus


def _open(
    path: Path,
    encoding: str | None,
    delimiter: str | None,
    bad: BadRows,
    tally: Tally | None,
    column: str | None = None,
) -> OpenTable:
    """A table; of one that is stored by columns, that column alone where one is named."""
    if kind(path) == "parquet":
        return open_parquet(path, bad, tally, None if column is None else [column])
    if kind(path) == "jsonl":
        return open_json_lines(path, lines(path, encoding, tally), bad)
    if kind(path) == "text" and holds_labels(path, encoding):
        return open_labelled_lines(path, lines(path, encoding, tally), bad)
    if kind(path) == "text":
        return OpenTable([LINES], line_chunks(LINES, file_chunks(path, encoding, tally), path))
    return open_delimited(path, pieces(path, encoding, tally), delimiter, kind(path) == "tsv", bad)


def _columns(path: Path, encoding: str | None, delimiter: str | None, on_bad_row: str) -> list[str]:
    return _open(path, encoding, delimiter, BadRows(path, on_bad_row), None).columns


def _same_columns(paths: list[Path], encoding: str | None, delimiter: str | None, on_bad_row: str) -> list[str]:
    """The columns of the first table.  Raises InputError, naming the file, where another one has other columns."""
    columns = [_columns(path, encoding, delimiter, on_bad_row) for path in paths]
    for path, found in zip(paths, columns, strict=True):
        if sorted(found) != sorted(columns[0]):
            raise InputError(
                f"{path}: its columns are {some(found)}, but {paths[0]} has {some(columns[0])}; "
                "files read together need the same columns."
            )
    return columns[0]


def _row_source(
    path: Path, encoding: str | None, delimiter: str | None, on_bad_row: str, column: str | None = None
) -> Source:
    """A table as documents, one for each row of a column (the only one for None), read as a stream."""

    skipped: list[tuple[str, str]] = []

    def documents(tally: Tally | None) -> Iterator[Document]:
        bad = BadRows(path, on_bad_row)
        opened = _open(path, encoding, delimiter, bad, tally, column)
        wanted = opened.columns[0] if column is None else column
        kept = 0
        for chunk in opened.chunks:
            kept += len(chunk)
            for line, text in zip(chunk.numbers, chunk.columns[wanted], strict=True):
                yield _row_document(f"{path}:{line}", text)
        bad.check(kept)
        if tally is not None:
            skipped[:] = bad.skipped

    name = column if column is not None else _columns(path, encoding, delimiter, on_bad_row)[0]
    return Source(path, documents, name, skipped)


def _row_document(name: str, text: str) -> Document:
    return Document(name, lambda: row_chunks(text))


def _read_table(
    paths: list[Path], columns: list[str], encoding: str | None, delimiter: str | None, on_bad_row: str
) -> Table:
    def opened(path: Path, bad: BadRows, tally: Tally | None) -> OpenTable:
        return _open(path, encoding, delimiter, bad, tally)

    none = f"this table is empty: there are no rows in this file, only columns ({some(columns)})."
    return _read_rows(paths, opened, on_bad_row, repr((encoding, delimiter, on_bad_row)), none, columns)


def _read_classes(folders: list[Path], paths: list[Path], encoding: str | None, on_bad_row: str) -> Table:
    """Texts in folders by class: a row for each file, with the name of its folder as the label."""

    def opened(path: Path, bad: BadRows, tally: Tally | None) -> OpenTable:
        if tally is not None:
            tally.add(f"{path.parent.name}\0".encode("utf-8", "surrogateescape"))
        text = whole_text(path, encoding, tally)
        return OpenTable(COLUMNS, iter([Chunk({"text": [text], "label": [path.parent.name]}, [1])]))

    table = _read_rows(paths, opened, on_bad_row, repr((encoding, on_bad_row)), "there is no text here.", COLUMNS)
    return replace(table, folders=tuple(folders))


def _read_dialogues(paths: list[Path], encoding: str | None, on_bad_row: str) -> Dialogues:
    noticed = Noticed()

    def opened(path: Path, bad: BadRows, tally: Tally | None) -> OpenTable:
        return open_dialogues(path, encoding, bad, tally, noticed)

    none = "there is no conversation in this file."
    found = _read_rows(paths, opened, on_bad_row, repr((encoding, on_bad_row)), none)
    return Dialogues(**vars(found), renamed=noticed.renamed, unread=noticed.unread)


def _read_rows(
    paths: list[Path],
    opened: Callable[[Path, BadRows, Tally | None], OpenTable],
    on_bad_row: str,
    reading: str,
    none: str,
    judged: Sequence[str] = (),
) -> Table:
    """A table after one pass over it, with facts about columns; a large one is not held but read again when needed."""
    judging = [Judging(name) for name in judged]
    numbers = LineNumbers()
    held: list[Chunk] | None = []
    states, starts, digests, columns = [], [], [], list[str]()
    skipped: list[tuple[str, str]] = []
    n_bytes = size = 0
    for path in paths:
        states.append(_state(path))
        tally, bad, start = Tally(), BadRows(path, on_bad_row), len(numbers)
        starts.append(start)
        table = opened(path, bad, tally)
        columns = columns or table.columns
        for chunk in table.chunks:
            numbers.extend(chunk.numbers)
            for one in judging:
                one.add(chunk.columns[one.name])
            size += chunk.size()
            if size > HELD:
                held = None
            elif held is not None:
                held.append(chunk)
        bad.check(len(numbers) - start)
        if len(numbers) == start and kind(path) != "text":
            raise InputError(f"{path}: {none}")
        skipped.extend(bad.skipped)
        n_bytes += tally.n_bytes
        digests.append(tally.digest)

    def stream() -> Iterator[Chunk]:
        if held is not None:
            yield from held
            return
        count = 0
        for path, state in zip(paths, states, strict=True):
            for chunk in opened(path, BadRows(path, on_bad_row), None).chunks:
                count += len(chunk)
                yield chunk
            if _state(path) != state:
                count = -1
        if count != len(numbers):
            raise InputError(f"{path}: this file has changed while it was in use; run the command again.")

    return Table(
        tuple(paths),
        columns,
        StreamedRows(stream, len(numbers)),
        numbers,
        digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest(),
        n_bytes,
        skipped,
        starts,
        stream=stream,
        reading=reading,
        facts=[one.column() for one in judging] or None,
    )


def _state(path: Path) -> tuple[int, int]:
    """Size and time of a file, to detect changes."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns
