"""The inputs that the words of a command stand for: texts or images, by its task."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from headway.cli.common import place_of, rows_of, several_texts, standard_input, warn_of_blank
from headway.errors import InputError
from headway.tasks.command import Command, Inputs

SENTENCES = {
    "text": 'one or more texts, a file (the text column of a .csv, .tsv or .jsonl, the lines of any other), or "-" for '
    "lines on standard input",
    "picture": "one or more images, or folders of images",
}
"""What TEXT can be, by what the task reads."""
ALSO = {"picture": "with an image model, images or folders of images"}
"""The same if another task that shares the verb reads texts."""


def read_inputs(
    room: type[Command], run: str, words: Sequence[str], text_column: str | None, encoding: str | None, *, one: bool
) -> Inputs:
    """The inputs that words stand for; with ``one`` the only word is a text, "-" all of standard input.

    Raises InputError for what cannot be read.
    """
    if one:
        return Inputs(run, [standard_input() if words[0] == "-" else words[0]])
    if room.spec.reads == "picture":
        if text_column is not None or encoding is not None:
            raise InputError("--text-column and --encoding are for texts, and this model reads images.")
        files = [file for word in words for file in _pictures(word)]
        return Inputs(run, files, len(files) > 1, "file", known_by=_states(files))
    texts, rows = rows_of(run, words, text_column, encoding)
    if room.blank_means_nothing:
        warn_of_blank(texts)
    return Inputs(run, texts, several_texts(words), rows=rows)


def check_inputs(use: Command, words: Sequence[str]) -> None:
    """Raise InputError, with its place, for an input that cannot be answered."""
    for number, value in enumerate(use.inputs.values if use.inputs.several else ()):
        try:
            use.check_input(value)
        except InputError as error:
            place = place_of(words, number) if use.spec.reads == "text" else value
            raise InputError(f"{place}: {error}") from None


def _pictures(place: str) -> list[str]:
    """The images that an argument names: a file, or those in a folder.  Raises InputError if there are none."""
    from headway.data.images.folder import pictures_in
    from headway.data.open.files import check_path

    path = Path(place)
    check_path(path)
    return [str(one) for one in pictures_in(path)] if path.is_dir() else [place]


def _states(files: list[str]) -> list[str]:
    """Files with their sizes and times of change, without reading them."""
    found = []
    for file in files:
        with contextlib.suppress(OSError):
            status = Path(file).stat()
            file = f"{file}: {status.st_size} bytes of {status.st_mtime_ns}"
        found.append(file)
    return found
