"""The user's files, read and understood."""

from collections.abc import Sequence
from pathlib import Path

from headway.data.aligned import look_aligned, read_aligned
from headway.data.corpus import Corpus
from headway.data.detect import TO_TEXT, detect
from headway.data.detected import Detected
from headway.data.dialogues import Dialogues
from headway.data.files import kind
from headway.data.read import read, text_corpus
from headway.data.table import Table
from headway.errors import InputError
from headway.training.config import TrainOptions, flag

HELD_OUT = 0.1
"""The share of the data that is held out when no validation file is given."""


RUNNING_TEXT = ("language_modeling", "masked_lm")
"""Tasks that read a table's text column as running text."""


def read_input(inputs: Sequence[str | Path], options: TrainOptions) -> tuple[Corpus | Table, Detected]:
    """The files, and what they are for.  Raises InputError for anything that cannot be used."""
    if _aligned(inputs, options.task):
        first, second = inputs
        for name in ("text_column", "label_column", "second_column"):
            if getattr(options, name) is not None:
                raise InputError(f"{first}: has lines and no columns; leave out --{flag(name)}.")
        table = read_aligned(first, second, encoding=options.encoding)
        return table, detect(table, task=options.task)
    source = read(inputs, encoding=options.encoding, delimiter=options.delimiter, on_bad_row=options.on_bad_row)
    found = detect(
        source,
        text_column=options.text_column,
        label_column=options.label_column,
        second_column=options.second_column,
        task=options.task,
    )
    if isinstance(source, Table) and not isinstance(source, Dialogues) and found.task in RUNNING_TEXT:
        source = text_corpus(
            source,
            found.text_column or "",
            encoding=options.encoding,
            delimiter=options.delimiter,
            on_bad_row=options.on_bad_row,
        )
    return source, found


def _aligned(inputs: Sequence[str | Path], task: str | None) -> bool:
    """Whether these are two files of which each line belongs to the same line of the other."""
    if task is None:
        return look_aligned(inputs)
    return task in TO_TEXT and len(inputs) == 2 and all(_is_file_of_text(Path(path)) for path in inputs)


def _is_file_of_text(path: Path) -> bool:
    return kind(path) == "text" and not path.is_dir()
