"""``headway classify``: name the label of texts or of pictures."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from headway.cli.common import emit, output_options, rows_of, text_options, threads_option
from headway.cli.results import as_csv, as_jsonl, beside, check_output, write_output
from headway.errors import InputError


@click.command(short_help="Name the label of a text or a picture, or of all in a file or folder.")
@click.argument("run")
@click.argument("text")
@text_options
@click.option("--to", help="Write results here: .csv, or .jsonl.")
@threads_option
@output_options
def command(
    run: str, text: str, text_column: str | None, encoding: str | None, to: str | None, as_json: bool, quiet: bool
) -> None:
    """Classify TEXT with the model in RUN.

    TEXT is a text, a file (a .csv, .tsv or .jsonl by its text column, any other line by line), or "-" for lines on
    standard input; with a model of pictures, a picture or a folder of pictures.
    """
    started = time.monotonic()
    check_output(to, text, (".csv", ".jsonl"))
    from headway.inference.classifier import Classifier
    from headway.inference.image_classifier import ImageClassifier
    from headway.inference.load import load

    pipe = load(run)
    if isinstance(pipe, ImageClassifier):
        if text_column is not None or encoding is not None:
            raise InputError("--text-column and --encoding are for texts, and this model reads pictures.")
        files = _pictures(text)
        found = [{"file": file, **result} for file, result in zip(files, pipe(files), strict=True)]
        _emit(found, "file", None, pipe, started, to, as_json)
        return
    if not isinstance(pipe, Classifier):
        raise InputError(f"{run}: holds a model for {pipe.task}; classify needs a classifier.")
    texts, rows = rows_of(run, text, text_column, encoding)
    found = [{"text": one, **result} for one, result in zip(texts, pipe(texts), strict=True)]
    _emit(found, "text", rows, pipe, started, to, as_json)


def _emit(
    answers: list[dict[str, Any]],
    what: str,
    rows: list[dict[str, str]] | None,
    pipe: Any,
    started: float,
    to: str | None,
    as_json: bool,
) -> None:
    """Write or show answers, each with what was asked under ``what``."""
    if to is not None:
        write_output(to, _table(answers, what, rows, pipe.labels, to))
    kept = [{key: value for key, value in answer.items() if key != "text"} for answer in answers]
    found = {"task": pipe.task, "seconds": time.monotonic() - started, "results": kept}
    shown = [f"{answer['label']}\t{answer['score']:.3f}\t{answer[what]}" for answer in answers]
    emit(found, as_json, [f"{len(answers):,} results in {to}"] if to else shown)


def _pictures(place: str) -> list[str]:
    """The pictures that an argument stands for: itself, or those in a folder.  Raises InputError for none."""
    from headway.data.files import check_path
    from headway.data.image_folder import pictures_in

    path = Path(place)
    check_path(path)
    return [str(one) for one in pictures_in(path)] if path.is_dir() else [place]


def _table(
    answers: list[dict[str, Any]],
    what: str,
    rows: list[dict[str, str]] | None,
    labels: Sequence[str],
    to: str,
) -> str:
    """A line for each text or picture: what it is, the answer, and what else its table says of it."""
    scored = [f"score: {label}" for label in labels]
    more_of = beside(rows, [answer[what] for answer in answers], (what, "label", "score", "scores", *scored))
    if to.endswith(".jsonl"):
        return as_jsonl({**answer, **more} for answer, more in zip(answers, more_of, strict=True))
    header = [what, "label", "score", *scored, *(more_of[0] if more_of else [])]
    table = []
    for answer, more in zip(answers, more_of, strict=True):
        scores = [f"{score:.6f}" for score in (answer["score"], *(answer["scores"][label] for label in labels))]
        table.append([answer[what], answer["label"], *scores, *more.values()])
    return as_csv(header, table)
