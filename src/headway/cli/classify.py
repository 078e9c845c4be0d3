"""``headway classify``: name the label of texts."""

import time
from typing import Any

import click

from headway.cli.common import (
    as_csv,
    as_jsonl,
    check_output,
    emit,
    output_options,
    rows_of,
    text_options,
    write_output,
)
from headway.errors import InputError


@click.command(short_help="Name the label of a text, or of every text in a file.")
@click.argument("run")
@click.argument("text")
@text_options
@click.option("--to", help="Write results here: .csv, or .jsonl.")
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
    beside = [{} for _ in texts] if rows is None else _beside(rows, texts)
    if to.endswith(".jsonl"):
        return as_jsonl({**answer, **more} for answer, more in zip(answers, beside, strict=True))
    header = ["text", "label", "score", *(f"score: {label}" for label in labels), *(beside[0] if beside else [])]
    table = []
    for answer, more in zip(answers, beside, strict=True):
        scores = [f"{score:.6f}" for score in (answer["score"], *(answer["scores"][label] for label in labels))]
        table.append([answer["text"], answer["label"], *scores, *more.values()])
    return as_csv(header, table)


def _beside(rows: list[dict[str, str]], texts: list[str]) -> list[dict[str, str]]:
    """What each row has beside its text; a column that is called like one of the answer becomes "given: label"."""
    is_text = all(row.get("text") == text for row, text in zip(rows, texts, strict=True))
    names = {}
    for column in rows[0] if rows else ():
        taken = column in ("text", "label", "score", "scores") or column.startswith("score: ")
        if not (column == "text" and is_text):
            names[column] = f"given: {column}" if taken else column
    return [{name: row[column] for column, name in names.items()} for row in rows]
