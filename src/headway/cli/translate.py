"""``headway translate``: texts into other texts."""

import time
from typing import Any

import click

from headway.cli.common import (
    as_csv,
    as_jsonl,
    check_output,
    emit,
    output_options,
    text_options,
    texts_of,
    write_output,
)
from headway.errors import InputError


@click.command(short_help="Turn a text, or every text in a file, into another.")
@click.argument("run")
@click.argument("text")
@click.option("--beam", type=int, default=5, show_default=True, help="How many hypotheses to follow; 1 is greedy.")
@click.option("--n-best", type=int, default=1, show_default=True, help="How many translations of each text to give.")
@click.option("--length-penalty", type=float, default=1.0, show_default=True, help="Above 0 favours longer ones.")
@click.option("--scores", is_flag=True, help="Show scores: ln p by the length to the power of the penalty.")
@click.option("--source-language", help="Language of the texts, for a model of many (M2M-100).")
@click.option("--target-language", help="Language to write, for a model of many (M2M-100, some of Marian).")
@click.option("--alignment", is_flag=True, help="Show from which word of the text each word was written.")
@text_options
@click.option("--to", help="Write results here: .txt (the translations alone), .csv, or .jsonl.")
@output_options
def command(
    run: str,
    text: str,
    beam: int,
    n_best: int,
    length_penalty: float,
    scores: bool,
    source_language: str | None,
    target_language: str | None,
    alignment: bool,
    text_column: str | None,
    encoding: str | None,
    to: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Translate TEXT with the model in RUN, or do whatever else it was trained to make of a text.

    TEXT is a text, a file (a .csv, .tsv or .jsonl by its text column, any other line by line), or "-" for lines on
    standard input.  Lines keep their order, and empty ones stay empty.
    """
    started = time.monotonic()
    check_output(to, text, (".txt", ".csv", ".jsonl"))
    if to is not None and alignment and not to.endswith(".jsonl"):
        raise InputError(f"--to {to}: has no place for alignments; name a .jsonl file.")
    if to is not None and to.endswith(".txt") and n_best > 1:
        raise InputError(f"--to {to}: has one line for each text; for --n-best name a .csv or .jsonl file.")
    from headway.inference.load import load
    from headway.inference.translator import Translator

    pipe = load(run)
    if not isinstance(pipe, Translator):
        raise InputError(f"{run}: holds a model for {pipe.task}; translate needs an encoder-decoder.")
    if source_language is not None or target_language is not None:
        pipe = pipe.between(source_language, target_language)
    texts = texts_of(run, text, text_column, encoding)
    pipe([], beam=beam, n_best=n_best, length_penalty=length_penalty)  # says what is wrong with the numbers
    found = pipe.hypotheses(texts, beam, n_best, length_penalty, alignment)
    for one in (one for each in found for one in each if alignment):
        one["alignment"] = one["alignment"] and one["alignment"].plain()
    if to is not None:
        write_output(to, _table(texts, found, to))
    whole = scores or alignment
    results: list[Any] = [each if n_best > 1 else each[0] if whole else each[0]["text"] for each in found]
    lines = [line for each in found for one in each for line in _lines(one, scores)]
    shown = [f"{len(results):,} results in {to}"] if to else lines
    emit({"task": pipe.task, "seconds": time.monotonic() - started, "results": results}, as_json, shown)


def _lines(one: dict[str, Any], scores: bool) -> list[str]:
    """A translation, with its score where that is asked for, and under it from which word each of its words came."""
    lines = [f"{one['score']:.3f}\t{one['text']}" if scores else one["text"]]
    if one.get("alignment"):
        words, rows = one["alignment"]["source"], one["alignment"]["weights"]
        for target, row in zip(one["alignment"]["target"], rows, strict=True):
            weight = max(row)
            lines.append(f"  {target} < {words[row.index(weight)]} ({weight:.2f})")
    return lines


def _table(texts: list[str], found: list[list[dict[str, Any]]], to: str) -> str:
    """What is written: a line for each text, or one for each of its translations."""
    if to.endswith(".txt"):
        return "".join(" ".join(each[0]["text"].split("\n")) + "\n" for each in found)
    rows = [(text, one) for text, each in zip(texts, found, strict=True) for one in each]
    if to.endswith(".jsonl"):
        return as_jsonl({"text": text, "translation": one["text"], **_but(one, "text")} for text, one in rows)
    return as_csv(["text", "translation", "score"], ([text, one["text"], f"{one['score']:.6f}"] for text, one in rows))


def _but(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}
