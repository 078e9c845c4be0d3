"""``headway classify``: name the label of texts."""

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import click

from headway.cli.common import check_not_path, emit, is_file, lines_of, output_options, standard_input, write_output
from headway.errors import InputError


@click.command(short_help="Name the label of a text, or of every text in a file.")
@click.argument("run")
@click.argument("text")
@click.option("--text-column", help="Column that holds the text, if TEXT is a table.")
@click.option("--encoding", help="Encoding of the file, if not UTF-8.")
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
    if to is not None and is_file(text) and Path(to).resolve() == Path(text).resolve():
        raise InputError(f"--to {to}: is the file that is read; name another, so that nothing is lost.")
    if to is not None and not to.endswith((".csv", ".jsonl")):
        raise InputError(f"--to {to}: results are written as .csv or .jsonl; name the file so.")
    from headway.inference.classifier import Classifier
    from headway.inference.load import load

    pipe = load(run)
    if not isinstance(pipe, Classifier):
        raise InputError(f"{run}: holds a model for {pipe.task}; classify needs a classifier.")
    texts = _texts(run, text, text_column, encoding)
    results = pipe(texts)
    if to is not None:
        write_output(to, _as_csv(texts, results, pipe.labels) if to.endswith(".csv") else _as_jsonl(texts, results))
    found = {"task": pipe.task, "seconds": time.monotonic() - started, "results": results}
    shown = [f"{r['label']}\t{r['score']:.3f}\t{t}" for r, t in zip(results, texts, strict=True)]
    emit(found, as_json, [f"{len(results):,} results in {to}"] if to else shown)


def _texts(run: str, text: str, text_column: str | None, encoding: str | None) -> list[str]:
    """The texts that the argument stands for."""
    if text == "-":
        return lines_of(standard_input())
    if not is_file(text):
        check_not_path(text)
        return [text]
    from headway.data.files import kind
    from headway.data.read import read
    from headway.data.table import Table

    path = Path(text)
    if kind(path) == "text":
        return [line for _, line in _plain_lines(path, encoding)]
    source = read([path], encoding=encoding)
    if isinstance(source, Table):
        return source.column(text_column or _trained_column(run, source.columns))
    return ["".join(document.chunks()) for document in source.documents()]


def _plain_lines(path: Any, encoding: str | None) -> list[tuple[int, str]]:
    from headway.data.corpus import file_chunks

    return list(enumerate(lines_of("".join(file_chunks(path, encoding)))))


def _trained_column(run: str, columns: list[str]) -> str:
    """The column the model was trained on, where the file has it; else the only one.  Raises InputError otherwise."""
    try:
        facts = json.loads((Path(run) / "headway.json").read_text(encoding="utf-8"))
        trained = facts["data"]["text_column"]
    except (OSError, ValueError, KeyError):
        trained = None
    if trained in columns:
        return trained
    if len(columns) == 1:
        return columns[0]
    raise InputError(f"which column holds the text? found: {', '.join(columns)}; name one with --text-column.")


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
