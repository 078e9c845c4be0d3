"""The inputs that the words of a command stand for: texts or images, by its task."""

import contextlib
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.cli.common import check_not_path, is_file, standard_input
from headway.data.records.rows import LazySequence
from headway.errors import InputError
from headway.tasks.command import Command, Inputs

if TYPE_CHECKING:
    from headway.data.records.rows import Chunk
    from headway.data.records.table import Table

SENTENCES = {
    "text": "one or more texts, a file (the text column of a table, the lines of any other), a folder "
    'of tables, or "-" for {}',
    "picture": "one or more images, or folders of images",
}
"""What TEXT can be, by what the task reads; {} is how standard input is read."""
ALSO = {"picture": "with an image model, images or folders of images"}
"""The same if another task that shares the verb reads texts."""


CHARACTERS = 4
"""Characters of a token, about."""


class Texts(LazySequence[str]):
    """A column of a table, read from its file in order; the rows of the piece that is being answered are held.

    Any other text is found by reading the file from its beginning.
    """

    def __init__(self, table: "Table", column: str, own: Sequence[str]):
        """``own`` are the columns of the file itself."""
        self.table, self.column = table, column
        self.others = [name for name in own if len(own) > 1 and not name == column == "text"]
        """the columns that a file of results repeats: an answer has its text in a column of that name"""
        self._held: deque[tuple[int, Chunk]] = deque()

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[str]:
        return self.table.values(self.column)

    def item(self, at: int) -> str:
        """One text."""
        if self._held and self._held[0][0] <= at < self._held[-1][0] + len(self._held[-1][1]):
            return self.row(at)[self.column]
        return next(islice(self, at, None))

    def row(self, number: int) -> dict[str, str]:
        """A row of the present piece."""
        start, chunk = next((start, chunk) for start, chunk in reversed(self._held) if start <= number)
        return {name: values[number - start] for name, values in chunk.columns.items()}

    def pieces(self, most: int) -> Iterator[tuple[int, list[str]]]:
        """``pieces`` of the texts; the rows of the latest piece are held."""
        self._held.clear()
        for start, part in _pieces(self._held_as_read(), most):
            while self._held[0][0] + len(self._held[0][1]) <= start:
                self._held.popleft()
            yield start, part

    def _held_as_read(self) -> Iterator[str]:
        start = 0
        for chunk in self.table.chunks():
            self._held.append((start, chunk))
            yield from chunk.columns[self.column]
            start += len(chunk)


def pieces(inputs: Iterable[Any], most: int) -> Iterator[tuple[int, list[Any]]]:
    """Parts of the inputs in order, each with the number of its first input; a part ends at ``most`` characters."""
    return inputs.pieces(most) if isinstance(inputs, Texts) else _pieces(inputs, most)


def _pieces(inputs: Iterable[Any], most: int) -> Iterator[tuple[int, list[Any]]]:
    start, size = 0, 0
    part: list[Any] = []
    for one in inputs:
        part.append(one)
        size += CHARACTERS + (len(one) if isinstance(one, str) else 0)
        if size >= most:
            yield start, part
            start, size, part = start + len(part), 0, []
    if part:
        yield start, part


def read_inputs(
    command: type[Command], run: str, words: Sequence[str], text_column: str | None, encoding: str | None
) -> Inputs:
    """The inputs that words stand for; for a task of ``one_input``, "-" is all of standard input as one.

    Raises InputError for what cannot be read.
    """
    if command.one_input and list(words) == ["-"]:
        return Inputs(run, [standard_input(encoding)])
    if command.spec.reads == "picture":
        if text_column is not None or encoding is not None:
            raise InputError("--text-column and --encoding are for texts, and this model reads images.")
        files = [file for word in words for file in _images(word)]
        return Inputs(run, files, len(files) > 1, "file", known_by=_states(files))
    texts = _texts(run, words, text_column, encoding)
    several = len(words) > 1 or words[0] == "-" or is_file(words[0], or_folder=True)
    known_by: tuple[str, ...] = ()
    if isinstance(texts, Texts):
        (column,) = texts.table.judged(texts.column)
        n_blank, first = column.n_blank, column.first_blank
        known_by = (texts.table.fingerprint, texts.table.reading, texts.column)
    else:
        blank = [number for number, text in enumerate(texts) if not text.strip()]
        n_blank, first = len(blank), next(iter(blank), None)
    if command.blank_means_nothing and first is not None:
        of = f"{n_blank:,} of {len(texts):,} texts are blank (the first is {_place(words, texts, first)})"
        what = of if len(texts) > 1 else "the text is blank"
        warnings.warn(f"{what}: answers to blank texts are meaningless", stacklevel=2)
    return Inputs(run, texts, several, n_blank=n_blank, known_by=known_by)


def _texts(run: str, words: Sequence[str], text_column: str | None, encoding: str | None) -> Sequence[str]:
    """The texts that words stand for: the words themselves, those of a file, read as they are needed, or of "-".

    By default a file is read with the text column of the model's training data, if the file has it, and, if it is not
    UTF-8, with the encoding of the training data.
    """
    if len(words) > 1:
        for word in words:
            if word == "-" or is_file(word):
                what = "standard input" if word == "-" else f"the file {word}"
                raise InputError(f"{what} was given together with other words; give several texts, or one file, or -.")
            check_not_path(word)
        return list(words)
    text = words[0]
    if text == "-":
        from headway.data.records.rows import line_chunks

        return [line for chunk in line_chunks("text", [standard_input(encoding)]) for line in chunk.columns["text"]]
    if not is_file(text, or_folder=True):
        check_not_path(text)
        return [text]
    from headway.data.open.files import kind
    from headway.data.open.read import read_rows
    from headway.tasks.data_facts import DataFacts
    from headway.training.store.facts import read_facts

    facts = read_facts(Path(run)) or {}
    table = read_rows(Path(text), encoding=encoding or facts.get("options", {}).get("encoding"))
    column, own = facts.get("data", {}).get("text_column"), table.columns
    if text_column is not None and kind(Path(text)) != "text":
        column, table = text_column, table.joined(text_column)
        table.check_column(text_column)
    elif column is not None and set(table.named(column)) <= set(table.columns):
        table = table.joined(column)
    if column not in table.columns:
        known, column = column, DataFacts(table).only_text().name
        joined = known is not None and len(table.named(known)) > 1 and kind(table.path) != "text"
        if known is not None and (joined or len(table.columns) > 1):
            warnings.warn(
                f"{text} has no column {known!r}: {column!r} is taken as the text (--text-column)", stacklevel=2
            )
    return Texts(table, column, own)


def check_inputs(use: Command, words: Sequence[str]) -> None:
    """Raise InputError, with its place, for an input that cannot be answered; of most commands every text can."""
    if type(use).check_input is Command.check_input:
        return
    for number, value in enumerate(use.inputs.values if use.inputs.several else ()):
        try:
            use.check_input(value)
        except InputError as error:
            place = _place(words, use.inputs.values, number) if use.spec.reads == "text" else value
            raise InputError(f"{place}: {error}") from None


def _images(place: str) -> list[str]:
    """The images that an argument names: a file, or those in a folder.  Raises InputError if there are none."""
    from headway.data.images.folder import images_in
    from headway.data.open.files import check_path

    path = Path(place)
    check_path(path)
    return [str(one) for one in images_in(path)] if path.is_dir() else [place]


def _states(files: list[str]) -> list[str]:
    """Files with their sizes and times of change, without reading them."""
    found = []
    for file in files:
        with contextlib.suppress(OSError):
            status = Path(file).stat()
            file = f"{file}: {status.st_size} bytes of {status.st_mtime_ns}"
        found.append(file)
    return found


def _place(words: Sequence[str], texts: Sequence[str], number: int) -> str:
    """The place of one of a command's texts, counted from 0, for messages: "notes.txt, line 7"."""
    if len(words) > 1:
        return f"text {number + 1}"
    if isinstance(texts, Texts):
        return f"{words[0]}, {texts.table.place(number)}"
    return f"standard input, line {number + 1}"
