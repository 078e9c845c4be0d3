"""``headway classify``: name the label of texts."""

import csv
import io
import json
import time
from typing import Any

import click

from headway.cli.common import check_output, emit, output_options, text_options, texts_of, write_output
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
    texts = texts_of(run, text, text_column, encoding)
    results = pipe(texts)
    if to is not None:
        write_output(to, _as_csv(texts, results, pipe.labels) if to.endswith(".csv") else _as_jsonl(texts, results))
    found = {"task": pipe.task, "seconds": time.monotonic() - started, "results": results}
    shown = [f"{r['label']}\t{r['score']:.3f}\t{t}" for r, t in zip(results, texts, strict=True)]
    emit(found, as_json, [f"{len(results):,} results in {to}"] if to else shown)


def _as_csv(texts: list[str], results: list[dict[str, Any]], labels: list[str]) -> str:
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(["text", "label", "score", *(f"score: {label}" for label in labels)])
    for text, result in zip(texts, results, strict=True):
        scores = [f"{result['scores'][label]:.6f}" for label in labels]
        rows.writerow([text, result["label"], f"{result['score']:.6f}", *scores])
    return file.getvalue()


def _as_jsonl(texts: list[str], results: list[dict[str, Any]]) -> str:
    return "".join(
        json.dumps({"text": text, **result}, ensure_ascii=False) + "\n"
        for text, result in zip(texts, results, strict=True)
    )
