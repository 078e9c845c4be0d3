"""``headway fill``: the words that fit an open place."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import click

from headway.cli.answers import asked_for, give_answers, piece_size
from headway.cli.common import emit, output_options, place_of, several_texts, text_options, texts_of, threads_option
from headway.cli.output_file import OutputFile
from headway.cli.results import as_bytes, as_csv, as_jsonl, check_output
from headway.errors import InputError, field, shown


@click.command(short_help="Fill in what a text leaves open.")
@click.argument("run")
@click.argument("words", metavar="TEXT...", nargs=-1, required=True)
@click.option("--k", type=int, default=5, show_default=True, help="How many tokens to name for each open place.")
@text_options
@click.option("--to", help="Write results here: .csv, or .jsonl.")
@threads_option
@output_options
def command(
    run: str,
    words: tuple[str, ...],
    k: int,
    text_column: str | None,
    encoding: str | None,
    to: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Name the likeliest tokens for each [MASK] (or <mask>) in TEXT, by the model in RUN.

    TEXT is a text or several, a file (a .csv, .tsv or .jsonl by its text column, any other line by line), or "-" for
    lines on standard input.  Blank lines stay blank.
    """
    started = time.monotonic()
    check_output(to, words[0], (".csv", ".jsonl"))
    from headway.runtime.batching import tokens_at_once
    from headway.tasks.masked_lm.pipeline import MaskFiller
    from headway.training.monitor.progress import shown_to
    from headway.workflows.load import load

    pipe = load(run)
    if not isinstance(pipe, MaskFiller):
        raise InputError(f"{run}: holds a model for {pipe.task}; fill needs a masked language model.")
    texts = texts_of(run, words, text_column, encoding)
    several = several_texts(words)
    if several:
        _check_open(pipe, texts, words)
    most = piece_size(tokens_at_once(pipe.model.config))

    def answer(part: Sequence[str]) -> list[Any]:
        answers = iter(pipe([one for one in part if one.strip() or not several], k=k))
        return [next(answers) if one.strip() or not several else [] for one in part]

    several_places = sum(map(pipe.count_open, texts)) > 1

    def shown(start: int, results: Sequence[Any]) -> Iterator[str]:
        return _lines(texts[start : start + len(results)], [_places(one) for one in results], several_places)

    with contextlib.ExitStack() as stack:
        output = None
        if to is not None:
            asked = asked_for("fill", run, to, texts, None, most=most, as_json=as_json, k=k)
            header = as_bytes(as_csv([["text", "place", "token", "score"]])) if to.endswith(".csv") else b""
            output = stack.enter_context(OutputFile(to, asked, header))
        results = give_answers(
            texts,
            answer,
            most=most,
            output=output,
            as_json=as_json,
            progress=shown_to(quiet),
            written=lambda start, found: _written(texts[start : start + len(found)], found, str(to)),
            shown=shown,
        )
        if output is not None:
            output.finish()
    found = {"task": pipe.task, "seconds": time.monotonic() - started, "results": results}
    emit(found, as_json, [f"{len(texts):,} results in {to}"] if to else [])


def _check_open(pipe: Any, texts: list[str], words: Sequence[str]) -> None:
    """Raise InputError, which says where it stands, for a text without an open place that is not blank."""
    from headway.tasks.masked_lm.pipeline import NOTHING_OPEN

    for number, text in enumerate(texts):
        if text.strip() and not pipe.is_open(text):
            raise InputError(f"{place_of(words, number)}: {shown(text)}: {NOTHING_OPEN}")


def _places(result: list[Any]) -> list[list[dict[str, Any]]]:
    """The answers for each open place of a text; none for a blank one."""
    return [result] if result and isinstance(result[0], dict) else result


def _lines(texts: Sequence[str], places: list[list[list[dict[str, Any]]]], several: bool) -> Iterator[str]:
    """For a person: the scores and tokens, below their text where there are ``several`` places; blank for blank."""
    for text, answers in zip(texts, places, strict=True):
        if not answers:
            yield ""
        for number, place in enumerate(answers, start=1):
            if several:
                yield f"{field(text)}  (place {number} of {len(answers)})" if len(answers) > 1 else field(text)
            for answer in place:
                yield f"{answer['score']:.3f}\t{field(answer['token'])}"


def _written(texts: Sequence[str], results: Sequence[Any], to: str) -> bytes:
    """Some answers as the file has them."""
    pairs = zip(texts, results, strict=True)
    if to.endswith(".jsonl"):
        return as_bytes(as_jsonl({"text": text, "result": result} for text, result in pairs))
    rows = (
        [text, number, answer["token"], f"{answer['score']:.6f}"]
        for text, result in pairs
        for number, place in enumerate(_places(result), start=1)
        for answer in place
    )
    return as_bytes(as_csv(rows))
