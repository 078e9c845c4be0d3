"""``headway translate``: texts into other texts."""

import time
from typing import Any

import click

from headway.cli.common import emit, is_file, output_options, place_of, rows_of, text_options, threads_option
from headway.cli.results import as_csv, as_jsonl, beside, check_output, write_output
from headway.errors import InputError

BLOCK = 1000
"""Texts that are translated, and shown, before the next."""


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
@threads_option
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
    standard input.  Lines keep their order, and empty ones stay empty.  With --n-best the translations of several texts
    begin with the number of the text and their rank.
    """
    started = time.monotonic()
    check_output(to, text, (".txt", ".csv", ".jsonl"))
    if to is not None and alignment and not to.endswith(".jsonl"):
        raise InputError(f"--to {to}: has no place for alignments; name a .jsonl file.")
    if to is not None and to.endswith(".txt") and (n_best > 1 or scores):
        raise InputError(
            f"--to {to}: has one line for each text; for --n-best and --scores name a .csv or .jsonl file."
        )
    from headway.inference.load import load
    from headway.inference.translator import Translator
    from headway.training.progress import shown_to

    pipe = load(run)
    if not isinstance(pipe, Translator):
        raise InputError(f"{run}: holds a model for {pipe.task}; translate needs an encoder-decoder.")
    if source_language is not None or target_language is not None:
        pipe = pipe.between(source_language, target_language)
    texts, rows = rows_of(run, text, text_column, encoding)
    several = text == "-" or is_file(text)
    pipe([], beam=beam, n_best=n_best, length_penalty=length_penalty)  # says what is wrong with the numbers
    if several:
        _check_lengths(pipe, texts, text, n_best)
    progress, found = shown_to(quiet), []
    for start in range(0, len(texts), BLOCK):
        part = pipe.hypotheses(texts[start : start + BLOCK], beam, n_best, length_penalty, alignment)
        for one in (one for each in part for one in each if alignment):
            one["alignment"] = one["alignment"] and one["alignment"].plain()
        found += part
        if to is None and not as_json:
            for number, each in enumerate(part, start=start + 1):
                for rank, one in enumerate(each, start=1):
                    place = f"{number}\t{rank}\t" if several and n_best > 1 else ""
                    emit({}, False, _lines(one, place, scores, several))
        if len(texts) > BLOCK:
            progress.say(f"{len(found):,} of {len(texts):,} texts")
    if to is not None:
        write_output(to, _table(texts, rows, found, to, n_best > 1))
    if to is None and not as_json:
        return
    whole = scores or alignment
    results: list[Any] = [each if n_best > 1 else each[0] if whole else each[0]["text"] for each in found]
    answer = {"task": pipe.task, "seconds": time.monotonic() - started, "results": results}
    of = f"translations of {len(texts):,} texts" if n_best > 1 else "results"
    emit(answer, as_json, [f"{sum(map(len, found)):,} {of} in {to}"])


def _check_lengths(pipe: Any, texts: list[str], argument: str, n_best: int) -> None:
    """Raise InputError, which says where it stands, for a text that cannot be translated whole."""
    for number, text in enumerate(texts):
        try:
            pipe.sources_of(text, n_best)
        except InputError as error:
            raise InputError(f"{place_of(argument, number)}: {error}") from None


def _lines(one: dict[str, Any], place: str, scores: bool, several: bool) -> list[str]:
    """A translation, with its score where that is asked for, and under it from which word each of its words came.

    Of several texts each has one line, whatever it holds.
    """
    text = _in_one_line(one["text"]) if several else one["text"]
    lines = [f"{place}{one['score']:.3f}\t{text}" if scores else f"{place}{text}"]
    if one.get("alignment"):
        words, rows = one["alignment"]["source"], one["alignment"]["weights"]
        for target, row in zip(one["alignment"]["target"], rows if words else [], strict=bool(words)):
            weight = max(row)
            lines.append(f"  {target} < {words[row.index(weight)]} ({weight:.2f})")
    return lines


def _table(
    texts: list[str], rows: list[dict[str, str]] | None, found: list[list[dict[str, Any]]], to: str, ranked: bool
) -> str:
    """What is written: a line for each text, or one for each of its translations, and what else its table says of it.

    Several translations of a text are numbered: that of the text, and the rank.
    """
    if to.endswith(".txt"):
        return "".join(_in_one_line(each[0]["text"]) + "\n" for each in found)
    answers: list[dict[str, Any]] = []
    more_of = beside(rows, texts, ("number", "rank", "text", "translation", "score", "alignment"))
    for number, (text, more, each) in enumerate(zip(texts, more_of, found, strict=True), start=1):
        for rank, one in enumerate(each, start=1):
            place = {"number": number, "rank": rank} if ranked else {}
            answers.append({**place, "text": text, "translation": one["text"], **_but(one, "text"), **more})
    if to.endswith(".jsonl"):
        return as_jsonl(answers)
    header = list(answers[0]) if answers else ["text", "translation", "score"]
    return as_csv(header, ([*({**one, "score": f"{one['score']:.6f}"}).values()] for one in answers))


def _in_one_line(text: str) -> str:
    return text.replace("\n", " ")


def _but(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}
