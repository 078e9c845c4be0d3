"""``headway classify``: name the label of texts."""

import time
from typing import Any

import click

from headway.cli.common import emit, output_options, rows_of, text_options, threads_option
from headway.cli.results import as_csv, as_jsonl, beside, check_output, write_output
from headway.errors import InputError


@click.command(short_help="Name the label of a text, or of every text in a file.")
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
    standard input.
    """
    started = time.monotonic()
    check_output(to, text, (".csv", ".jsonl"))
    from headway.inference.classifier import Classifier
    from headway.inference.load import load

    pipe = load(run)
    if not isinstance(pipe, Classifier):
        raise InputError(f"{run}: holds a model for {pipe.task}; classify needs a classifier.")
    texts, rows = rows_of(run, text, text_column, encoding)
    results = pipe(texts)
    if to is not None:
        write_output(to, _table(texts, rows, results, pipe.labels, to))
    found = {"task": pipe.task, "seconds": time.monotonic() - started, "results": results}
    shown = [f"{r['label']}\t{r['score']:.3f}\t{t}" for r, t in zip(results, texts, strict=True)]
    emit(found, as_json, [f"{len(results):,} results in {to}"] if to else shown)


def _table(
    texts: list[str],
    rows: list[dict[str, str]] | None,
    results: list[dict[str, Any]],
    labels: list[str],
    to: str,
) -> str:
    """A line for each text: the text, the answer, and what else its table says of it."""
    answers: list[dict[str, Any]] = [{"text": text, **found} for text, found in zip(texts, results, strict=True)]
    scored = [f"score: {label}" for label in labels]
    more_of = beside(rows, texts, ("text", "label", "score", "scores", *scored))
    if to.endswith(".jsonl"):
        return as_jsonl({**answer, **more} for answer, more in zip(answers, more_of, strict=True))
    header = ["text", "label", "score", *scored, *(more_of[0] if more_of else [])]
    table = []
    for answer, more in zip(answers, more_of, strict=True):
        scores = [f"{score:.6f}" for score in (answer["score"], *(answer["scores"][label] for label in labels))]
        table.append([answer["text"], answer["label"], *scores, *more.values()])
    return as_csv(header, table)
