"""``headway classify``: name the label of texts or of pictures."""

import contextlib
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from headway.cli.answers import asked_for, give_answers, piece_size
from headway.cli.common import emit, output_options, rows_of, text_options, threads_option, warn_of_blank
from headway.cli.output_file import OutputFile
from headway.cli.results import Beside, as_bytes, as_csv, as_jsonl, check_output
from headway.errors import InputError, field


@click.command(short_help="Name the label of a text or a picture, or of all in a file or folder.")
@click.argument("run")
@click.argument("words", metavar="TEXT...", nargs=-1, required=True)
@text_options
@click.option("--to", help="Write results here: .csv, or .jsonl.")
@threads_option
@output_options
def command(
    run: str,
    words: tuple[str, ...],
    text_column: str | None,
    encoding: str | None,
    to: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Classify TEXT with the model in RUN.

    TEXT is a text or several, a file (a .csv, .tsv or .jsonl by its text column, any other line by line), or "-" for
    lines on standard input; with a model of pictures, pictures or folders of pictures.
    """
    started = time.monotonic()
    check_output(to, words[0], (".csv", ".jsonl"))
    from headway.runtime.batching import tokens_at_once
    from headway.tasks.classification.pipeline import Classifier
    from headway.tasks.image_classification.pipeline import ImageClassifier
    from headway.training.monitor.progress import shown_to
    from headway.workflows.load import load

    pipe: Any = load(run)
    inputs: Any = []
    rows, names = None, list[str]()
    if isinstance(pipe, ImageClassifier):
        if text_column is not None or encoding is not None:
            raise InputError("--text-column and --encoding are for texts, and this model reads pictures.")
        what, inputs = "file", [file for word in words for file in _pictures(word)]
        names, tokens = _sizes(inputs), pipe.model.config.max_length
    elif isinstance(pipe, Classifier):
        (inputs, rows), what, tokens = rows_of(run, words, text_column, encoding), "text", 1
    else:
        raise InputError(f"{run}: holds a model for {pipe.task}; classify needs a classifier.")
    if what == "text":
        warn_of_blank(inputs)
    table = _Table(what, inputs, rows, pipe.labels, to)
    most = piece_size(max(1, tokens_at_once(pipe.model.config) // tokens))
    given: dict[str, Any] = {"most": most, "as_json": as_json, "progress": shown_to(quiet)}
    with contextlib.ExitStack() as stack:
        output = None
        if to is not None:
            asked = asked_for("classify", run, to, names or inputs, rows, most=most, as_json=as_json)
            output = stack.enter_context(OutputFile(to, asked, table.header()))
        results = give_answers(
            inputs,
            lambda part: table.answers(pipe, part),
            output=output,
            written=table.written,
            shown=lambda start, found: [
                f"{field(one['label'])}\t{one['score']:.3f}\t{field(each)}"
                for each, one in zip(table.part, found, strict=True)
            ],
            **given,
        )
        if output is not None:
            output.finish()
    found = {"task": pipe.task, "seconds": time.monotonic() - started, "results": results}
    emit(found, as_json, [f"{len(inputs):,} results in {to}"] if to else [])


def _sizes(files: list[str]) -> list[str]:
    """Files with what changes when they do, without reading them."""
    found = []
    for file in files:
        with contextlib.suppress(OSError):
            status = Path(file).stat()
            file = f"{file}: {status.st_size} bytes of {status.st_mtime_ns}"
        found.append(file)
    return found


def _pictures(place: str) -> list[str]:
    """The pictures that an argument stands for: itself, or those in a folder.  Raises InputError for none."""
    from headway.data.files import check_path
    from headway.data.image_folder import pictures_in

    path = Path(place)
    check_path(path)
    return [str(one) for one in pictures_in(path)] if path.is_dir() else [place]


class _Table:
    """A line for each text or picture: what it is, the answer, and the other columns of its table."""

    def __init__(
        self,
        what: str,
        inputs: Iterable[str],
        rows: Sequence[dict[str, str]] | None,
        labels: Sequence[str],
        to: str | None,
    ):
        self.what, self.labels = what, labels
        self.part: Sequence[str] = ()
        """the inputs that were answered last"""
        self.lines = to is not None and to.endswith(".jsonl")
        self.columns = [what, "label", "score", *(f"score: {label}" for label in labels)]
        self.more = Beside(rows, inputs, (*self.columns, "scores"))

    def header(self) -> bytes:
        """The names of the columns, where the file has them."""
        return b"" if self.lines else as_bytes(as_csv([[*self.columns, *self.more.header]]))

    def answers(self, pipe: Any, part: Sequence[str]) -> list[dict[str, Any]]:
        """The answers for the next inputs as JSON shows them: those about pictures with their files."""
        self.part, found = part, pipe(part)
        return found if self.what == "text" else [{"file": file, **one} for file, one in zip(part, found, strict=True)]

    def written(self, start: int, found: Sequence[dict[str, Any]]) -> bytes:
        """The last answers as the file has them, from input number ``start`` on."""
        answered = list(zip(range(start, start + len(found)), self.part, found, strict=True))
        if self.lines:
            return as_bytes(as_jsonl({self.what: given, **one, **self.more.of(i)} for i, given, one in answered))
        table = []
        for i, given, one in answered:
            scores = [f"{score:.6f}" for score in (one["score"], *(one["scores"][label] for label in self.labels))]
            table.append([given, one["label"], *scores, *self.more.of(i).values()])
        return as_bytes(as_csv(table))
