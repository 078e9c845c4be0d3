"""One reader for every command: files, folders or arrays of images in, a `Corpus` of running text or a `Table` out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from headway.data.formats.delimited import open_delimited
from headway.data.formats.excel import open_excel
from headway.data.formats.json_lines import open_json_lines
from headway.data.formats.parquet import open_parquet
from headway.data.images.folder import are_images, read_images
from headway.data.open.files import PARTS, Tally, check_encoding, check_path, folder_files, kind, lines, pieces
from headway.data.records.corpus import Corpus, Document, Source, file_chunks, file_source, row_documents, whole_text
from headway.data.records.dialogues import holds_dialogues, read_dialogues
from headway.data.records.rows import (
    BadRows,
    Chunk,
    OpenTable,
    check_policy,
    check_same_columns,
    chunked,
    line_chunks,
    shorten,
    some,
)
from headway.data.records.table import Table, read_table
from headway.errors import InputError
from headway.io.regular_file import check_name

PREFIX = "__label__"
COLUMNS = ["text", "label"]
LINES = "text"
"""The column of a text file whose lines are rows."""
AS_TEXT = "--task language_modeling reads all of them as running text"
LOOKED_AT = 100
"""Lines by which a file is recognised."""


def holds_labels(path: Path, encoding: str | None) -> bool:
    """Whether most lines at the beginning of a text file hold a label."""
    lines = next((piece for piece in pieces(path, encoding) if piece.strip()), "").splitlines()[:LOOKED_AT]
    filled = [line.split() for line in lines if line.strip()]
    return sum(any(word.startswith(PREFIX) for word in words) for words in filled) > len(filled) / 2


def open_labelled_lines(path: Path, lines: Iterator[str], bad: BadRows) -> OpenTable:
    """The lines as rows of a text and its label, without the prefix; a line that has not one label is malformed."""

    def rows() -> Iterator[tuple[int, list[str]]]:
        for number, line in enumerate(lines, start=1):
            words = line.split()
            labels = [word for word in words if word.startswith(PREFIX)]
            if words and (len(labels) != 1 or labels[0] != words[0]):
                several = "no task takes several labels per text yet; --task language_modeling reads the file as it is."
                bad.add(number, f"{shorten(line.strip())}: expected one {PREFIX} at the start of the line; {several}")
            elif "\0" in line:
                bad.add(number, "a NUL byte; expected text. Remove it and run again.")
            elif words:
                yield number, [line.strip().removeprefix(labels[0]).strip(), labels[0].removeprefix(PREFIX)]

    return OpenTable(COLUMNS, chunked(COLUMNS, rows()))


def are_class_folders(inputs: Sequence[str | Path]) -> bool:
    """Whether the inputs are folders with a folder of texts for each class.  Raises InputError for both kinds."""
    folders = [path for path in inputs if Path(path).is_dir() and _holds_classes(Path(path))]
    if other := next((path for path in inputs if folders and path not in folders), None):
        raise InputError(f"{folders[0]} has a folder of texts for each class, {other} has not; give one kind.")
    return bool(folders)


def _holds_classes(folder: Path) -> bool:
    """Whether the texts of a folder are in folders in it, at least two, or in those of its only folder.

    Raises InputError for parts of the data, such as train and test, for few texts in no class, and for classes of one.
    """
    files = [path.relative_to(folder) for path in folder_files(folder)]
    if kind(files[0]) != "text":
        return False
    names = list(dict.fromkeys(path.parts[0] for path in files if len(path.parts) > 1))
    if len(names) == 1 and all(len(path.parts) > 2 for path in files):
        return _holds_classes(folder / names[0])
    inner = {path.parts[:2] for path in files if len(path.parts) > 2}
    repeated = len({name for _, name in inner}) < len(inner)  # train/pos and test/pos
    parts = [name for name in names if name.lower() in PARTS]
    if len(names) > 1 and (len(parts) > 1 or repeated or (parts and inner)):
        train = next((name for name in names if name.lower().startswith("train")), names[0])
        rest = " ".join(str(folder / name) for name in names if name != train)
        raise InputError(
            f"{folder}: {' and '.join(names)} look like parts of the data; train on {folder / train} and name the "
            f"rest: --validation {rest}. {AS_TEXT}."
        )
    others = [path for path in files if len(path.parts) != 2]
    if len(names) < 2 or len(others) > len(names):
        return False
    if others:
        raise InputError(
            f"{folder}: has folders of texts ({', '.join(names[:4])}) and texts that are in none of them "
            f"({others[0]}); for classification, keep only a folder for each class. {AS_TEXT}."
        )
    if len(files) == len(names):
        raise InputError(f"{folder}: has {len(names)} folders of one text each; a class needs several. {AS_TEXT}.")
    return True


def read(
    inputs: Sequence[str | Path] | str | Path,
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
    on_bad_row: str = "error",
    as_text: bool = False,
) -> Corpus | Table:
    """Read what the user named, and check all of it before anything is trained.

    A table with one column is running text: every row is a document.  Lines of fastText and folders of texts by class
    are texts with labels; rows with a list of "messages", or ShareGPT's "conversations", are conversations.
    Several inputs of the same kind are joined in order; tables must have the same columns.  `encoding` is that of files
    which are not UTF-8, None for none; `delimiter` None tries , ; tab and | ; `on_bad_row` "skip" leaves malformed rows
    out, at most 1 % of them or five; with `as_text`, folders of texts by class and lines of fastText are running text.
    Raises InputError, naming file and line, for anything that cannot be used as it is.
    """
    check_policy(on_bad_row)
    check_encoding(encoding)
    how = _Reading(encoding, delimiter, on_bad_row)
    inputs = [inputs] if isinstance(inputs, str | Path) else inputs
    if are_images(inputs):
        return read_images(inputs, on_bad_row)
    paths = input_paths(inputs)
    if not as_text and are_class_folders(inputs):
        return how.classes([Path(folder) for folder in inputs], paths)
    texts = [path for path in paths if kind(path) == "text" and (as_text or not holds_labels(path, encoding))]
    if texts and len(texts) < len(paths):
        table = next(path for path in paths if path not in texts)
        raise InputError(f"{texts[0]} is running text, {table} is a table; give inputs of one kind.")
    if texts:
        return _checked([file_source(path, encoding) for path in paths])
    talks = [path for path in paths if holds_dialogues(path, encoding)]
    if talks and len(talks) < len(paths):
        other = next(path for path in paths if path not in talks)
        raise InputError(f"{talks[0]} holds conversations, {other} does not; give inputs of one kind.")
    if talks:
        return read_dialogues(paths, encoding, on_bad_row)
    columns = how.columns_of(paths)
    return how.table(paths, columns) if len(columns) > 1 else how.corpus(paths, columns[0])


def read_rows(path: Path, *, encoding: str | None = None) -> Table:
    """A file, or a folder of tables or of classes, as rows of any columns; lines of text are the column "text"."""
    check_encoding(encoding)
    check_path(path)
    how = _Reading(encoding)
    paths = [path] if kind(path) == "text" and not path.is_dir() else input_paths([path])
    if path.is_dir() and are_class_folders([path]):
        return how.classes([path], paths)
    if path.is_dir() and kind(paths[0]) == "text":
        raise InputError(f"{path}: this is a folder of texts; name a file in it.")
    if any(holds_dialogues(file, encoding) for file in paths):
        return read_dialogues(paths, encoding, how.on_bad_row)
    return how.table(paths, how.columns_of(paths))


def text_corpus(
    table: Table, column: str, *, encoding: str | None = None, delimiter: str | None = None, on_bad_row: str = "error"
) -> Corpus:
    """One column of a table as running text, streamed from its files again; the options are those given to `read`."""
    table.check_column(column)
    return _Reading(encoding, delimiter, on_bad_row).corpus(table.paths, column)


def input_paths(inputs: Sequence[str | Path]) -> list[Path]:
    """The files behind the inputs: folders replaced by the files in them, all of them there and not empty.

    Raises InputError.
    """
    if not inputs:
        raise InputError("no input given; name a file or a folder.")
    paths, seen = list[Path](), set[Path]()
    for name in inputs:
        path = Path(check_name(str(name), "an input"))
        status = check_path(path)
        if not path.is_dir() and not status.st_size:
            raise InputError(f"{path}: this file is empty (0 bytes).")
        paths.extend(folder_files(path) if path.is_dir() else [path])
    for path in paths:
        if path.resolve() in seen:
            raise InputError(f"{path}: is given twice; name each file once.")
        seen.add(path.resolve())
    return paths


def _checked(sources: Sequence[Source]) -> Corpus:
    """The corpus after one pass over it.  Raises InputError for files that cannot be used."""
    corpus = Corpus(sources)
    if not corpus.n_characters:
        raise InputError(f"{corpus.name}: there is no text here, only blank space.")
    return corpus


@dataclass(frozen=True)
class _Reading:
    """How files of tables are read, as ``read`` has it."""

    encoding: str | None = None
    delimiter: str | None = None
    on_bad_row: str = "error"

    def open(self, path: Path, bad: BadRows, tally: Tally | None, column: str | None = None) -> OpenTable:
        """A table; of one that is stored by columns, that column alone where one is named."""
        if kind(path) == "parquet":
            return open_parquet(path, bad, tally, None if column is None else [column])
        if kind(path) == "excel":
            return open_excel(path, bad, tally)
        if kind(path) == "jsonl":
            return open_json_lines(path, lines(path, self.encoding, tally), bad)
        if kind(path) == "text" and holds_labels(path, self.encoding):
            return open_labelled_lines(path, lines(path, self.encoding, tally), bad)
        if kind(path) == "text":
            return OpenTable([LINES], line_chunks(LINES, file_chunks(path, self.encoding, tally), path))
        return open_delimited(path, pieces(path, self.encoding, tally), self.delimiter, kind(path) == "tsv", bad)

    def columns_of(self, paths: Sequence[Path]) -> list[str]:
        """The columns of the first table.  Raises InputError, naming the file, where another one has other columns."""
        columns = {path: self.open(path, BadRows(path, self.on_bad_row), None).columns for path in paths}
        check_same_columns(columns)
        return columns[paths[0]]

    def corpus(self, paths: Sequence[Path], column: str) -> Corpus:
        """A column of tables as running text: each row is a document, read as a stream."""
        return _checked([self._source(path, column) for path in paths])

    def _source(self, path: Path, column: str) -> Source:
        skipped: list[tuple[str, str]] = []

        def documents(tally: Tally | None) -> Iterator[Document]:
            bad, kept = BadRows(path, self.on_bad_row), 0
            for chunk in self.open(path, bad, tally, column).chunks:
                kept += len(chunk)
                yield from row_documents(chunk.columns[column])
            bad.check(kept)
            if tally is not None:
                skipped[:] = bad.skipped

        return Source(path, documents, column, skipped)

    def table(self, paths: Sequence[Path], columns: list[str]) -> Table:
        """Rows of these columns."""
        none = f"this table is empty: there are no rows in this file, only columns ({some(columns)})."
        reading = repr((self.encoding, self.delimiter, self.on_bad_row))
        return read_table(paths, partial(map, self.open, paths), self.on_bad_row, reading, none=none, judged=columns)

    def classes(self, folders: Sequence[Path], paths: Sequence[Path]) -> Table:
        """Texts in folders by class: a row for each file, with the name of its folder as the label."""

        def opened(path: Path, bad: BadRows, tally: Tally | None) -> OpenTable:
            if tally is not None:
                tally.add(f"{path.parent.name}\0".encode("utf-8", "surrogateescape"))
            text = whole_text(path, self.encoding, tally)
            return OpenTable(COLUMNS, iter([Chunk({"text": [text], "label": [path.parent.name]}, [1])]))

        reading = repr((self.encoding, self.on_bad_row))
        table = read_table(paths, partial(map, opened, paths), self.on_bad_row, reading, judged=COLUMNS)
        return replace(table, folders=tuple(folders))
