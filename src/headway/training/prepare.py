"""The user's files, read and understood."""

from collections.abc import Sequence
from pathlib import Path

from headway.data.corpus import Corpus
from headway.data.detect import Detected, detect
from headway.data.dialogues import Dialogues
from headway.data.read import read, text_corpus
from headway.data.table import Table
from headway.training.config import TrainOptions

HELD_OUT = 0.1
"""The share of the data that is held out when no validation file is given."""


RUNNING_TEXT = ("language_modeling", "masked_lm")
"""Tasks that read a table's text column as running text."""


def read_input(inputs: Sequence[str | Path], options: TrainOptions) -> tuple[Corpus | Table, Detected]:
    """The files, and what they are for.  Raises InputError for anything that cannot be used."""
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
