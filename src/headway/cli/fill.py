"""``headway fill``: the words that fit an open place."""

import time
from typing import Any

import click

from headway.cli.common import emit, is_file, output_options, place_of, text_options, texts_of, threads_option
from headway.cli.results import as_csv, as_jsonl, check_output, write_output
from headway.errors import InputError, shown


@click.command(short_help="Fill in what a text leaves open.")
@click.argument("run")
@click.argument("text")
@click.option("--k", type=int, default=5, show_default=True, help="How many tokens to name for each open place.")
@text_options
@click.option("--to", help="Write results here: .csv, or .jsonl.")
@threads_option
@output_options
def command(
    run: str,
    text: str,
    k: int,
    text_column: str | None,
    encoding: str | None,
    to: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Name the likeliest tokens for each [MASK] (or <mask>) in TEXT, by the model in RUN.

    TEXT is a text, a file (a .csv, .tsv or .jsonl by its text column, any other line by line), or "-" for lines on
    standard input.  Blank lines stay blank.
    """
    started = time.monotonic()
    check_output(to, text, (".csv", ".jsonl"))
    from headway.inference.load import load
    from headway.inference.mask_filler import MaskFiller

    pipe = load(run)
    if not isinstance(pipe, MaskFiller):
        raise InputError(f"{run}: holds a model for {pipe.task}; fill needs a masked language model.")
    texts = texts_of(run, text, text_column, encoding)
    several = text == "-" or is_file(text)
    if several:
        _check_open(pipe, texts, text)
    answers = iter(pipe([one for one in texts if one.strip() or not several], k=k))
    results = [next(answers) if one.strip() or not several else [] for one in texts]
    places = [_places(result) for result in results]
    if to is not None:
        write_output(to, _as_csv(texts, places) if to.endswith(".csv") else _as_jsonl(texts, results))
    found = {"task": pipe.task, "seconds": time.monotonic() - started, "results": results}
    emit(found, as_json, [f"{len(results):,} results in {to}"] if to else _lines(texts, places))


def _check_open(pipe: Any, texts: list[str], argument: str) -> None:
    """Raise InputError, which says where it stands, for a text without an open place that is not blank."""
    from headway.inference.mask_filler import NOTHING_OPEN

    for number, text in enumerate(texts):
        if text.strip() and not pipe.is_open(text):
            raise InputError(f"{place_of(argument, number)}: {shown(text)}: {NOTHING_OPEN}")


def _places(result: list[Any]) -> list[list[dict[str, Any]]]:
    """The answers for each open place of a text; none for a blank one."""
    return [result] if result and isinstance(result[0], dict) else result


def _lines(texts: list[str], places: list[list[list[dict[str, Any]]]]) -> list[str]:
    """For a person: the scores and tokens, below their text where there is more than one place; blank for blank."""
    lines: list[str] = []
    several = sum(map(len, places)) > 1
    for text, answers in zip(texts, places, strict=True):
        if not answers:
            lines.append("")
        for number, place in enumerate(answers, start=1):
            if several:
                lines.append(f"{text}  (place {number} of {len(answers)})" if len(answers) > 1 else text)
            lines += [f"{answer['score']:.3f}\t{_printable(answer['token'])}" for answer in place]
    return lines


def _printable(token: str) -> str:
    """A token on one line; line breaks and tabs as Python writes them."""
    return token if token.isprintable() else repr(token)


def _as_csv(texts: list[str], places: list[list[list[dict[str, Any]]]]) -> str:
    return as_csv(
        ["text", "place", "token", "score"],
        (
            [text, number, answer["token"], f"{answer['score']:.6f}"]
            for text, answers in zip(texts, places, strict=True)
            for number, place in enumerate(answers, start=1)
            for answer in place
        ),
    )


def _as_jsonl(texts: list[str], results: list[Any]) -> str:
    return as_jsonl({"text": text, "result": result} for text, result in zip(texts, results, strict=True))
