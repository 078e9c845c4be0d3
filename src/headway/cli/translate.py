"""``headway translate``: texts into other texts."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from headway.cli.answers import asked_for, give_answers, piece_size
from headway.cli.common import emit, output_options, place_of, rows_of, several_texts, text_options, threads_option
from headway.cli.output_file import OutputFile
from headway.cli.results import Beside, as_bytes, as_csv, as_jsonl, check_output
from headway.errors import InputError, field, printable

SMALLER = 4
"""By so much a piece is smaller than one of texts that are only read: to write takes longer."""


@click.command(short_help="Turn a text, or every text in a file, into another.")
@click.argument("run")
@click.argument("words", metavar="TEXT...", nargs=-1, required=True)
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
    words: tuple[str, ...],
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

    TEXT is a text or several, a file (a .csv, .tsv or .jsonl by its text column, any other line by line), or "-" for
    lines on standard input.  Lines keep their order, and empty ones stay empty.  With --n-best the translations of
    several texts begin with the number of the text and their rank.
    """
    started = time.monotonic()
    check_output(to, words[0], (".txt", ".csv", ".jsonl"))
    if to is not None and alignment and not to.endswith(".jsonl"):
        raise InputError(f"--to {to}: has no place for alignments; name a .jsonl file.")
    if to is not None and to.endswith(".txt") and (n_best > 1 or scores):
        raise InputError(
            f"--to {to}: has one line for each text; for --n-best and --scores name a .csv or .jsonl file."
        )
    from headway.generation.targets import BATCH_TOKENS
    from headway.tasks.translation.pipeline import Translator
    from headway.training.monitor.progress import shown_to
    from headway.workflows.load import load

    pipe = load(run)
    if not isinstance(pipe, Translator):
        raise InputError(f"{run}: holds a model for {pipe.task}; translate needs an encoder-decoder.")
    if source_language is not None or target_language is not None:
        pipe = pipe.between(source_language, target_language)
    found_texts, rows = rows_of(run, words, text_column, encoding)
    texts = list(found_texts)
    several = several_texts(words)
    pipe([], beam=beam, n_best=n_best, length_penalty=length_penalty)  # says what is wrong with the numbers
    if several:
        _check_lengths(pipe, texts, words, n_best)
    ways: dict[str, Any] = {"beam": beam, "n_best": n_best, "length_penalty": length_penalty, "alignment": alignment}
    table = _Table(texts, rows, to, ranked=n_best > 1)
    most = piece_size(BATCH_TOKENS // beam) // SMALLER

    def answer(part: Sequence[str]) -> list[list[dict[str, Any]]]:
        answers = pipe.hypotheses(part, **ways)
        for one in (one for each in answers for one in each if alignment):
            one["alignment"] = one["alignment"] and one["alignment"].plain()
        return answers

    def shown(start: int, answers: Sequence[list[dict[str, Any]]]) -> Iterator[str]:
        for number, each in enumerate(answers, start=start + 1):
            for rank, one in enumerate(each, start=1):
                place = f"{number}\t{rank}\t" if several and n_best > 1 else ""
                yield from _lines(one, place, scores, several)

    with contextlib.ExitStack() as stack:
        output = None
        if to is not None:
            languages = {"source": source_language, "target": target_language}
            asked = asked_for("translate", run, to, texts, rows, most=most, as_json=as_json, **ways, **languages)
            output = stack.enter_context(OutputFile(to, asked, table.header()))
        found = give_answers(
            texts,
            answer,
            most=most,
            output=output,
            as_json=as_json,
            progress=shown_to(quiet),
            written=table.written,
            shown=shown,
        )
        if output is not None:
            output.finish()
    whole = scores or alignment
    results: list[Any] = [each if n_best > 1 else each[0] if whole else each[0]["text"] for each in found]
    answers = {"task": pipe.task, "seconds": time.monotonic() - started, "results": results}
    count = sum(n_best if text.strip() else 1 for text in texts)
    of = f"translations of {len(texts):,} texts" if n_best > 1 else "results"
    emit(answers, as_json, [f"{count:,} {of} in {to}"] if to else [])


def _check_lengths(pipe: Any, texts: list[str], words: Sequence[str], n_best: int) -> None:
    """Raise InputError, which says where it stands, for a text that cannot be translated whole."""
    for number, text in enumerate(texts):
        try:
            pipe.sources_of(text, n_best)
        except InputError as error:
            raise InputError(f"{place_of(words, number)}: {error}") from None


def _lines(one: dict[str, Any], place: str, scores: bool, several: bool) -> list[str]:
    """A translation, with its score where that is asked for, and under it from which word each of its words came.

    Of several texts each has one line, whatever it holds.
    """
    text = printable(one["text"].replace("\n", " ")) if several else one["text"]
    lines = [f"{place}{one['score']:.3f}\t{text}" if scores else f"{place}{text}"]
    if one.get("alignment"):
        words, rows = one["alignment"]["source"], one["alignment"]["weights"]
        for target, row in zip(one["alignment"]["target"], rows if words else [], strict=bool(words)):
            weight = max(row)
            lines.append(f"  {field(target)} < {field(words[row.index(weight)])} ({weight:.2f})")
    return lines


class _Table:
    """A line for each text, or one for each of its translations, with the other columns of its table.

    Several translations of a text are numbered: the text by its number, and the translation by its rank.
    """

    def __init__(self, texts: Sequence[str], rows: Sequence[dict[str, str]] | None, to: str | None, *, ranked: bool):
        self.texts, self.ending, self.ranked = texts, Path(to or "").suffix, ranked
        self.columns = [*(["number", "rank"] if ranked else []), "text", "translation", "score"]
        self.more = Beside(rows, texts, ("number", "rank", "text", "translation", "score", "alignment"))

    def header(self) -> bytes:
        """The names of the columns, where the file has them."""
        return as_bytes(as_csv([[*self.columns, *self.more.header]])) if self.ending == ".csv" else b""

    def written(self, start: int, found: Sequence[list[dict[str, Any]]]) -> bytes:
        """Some translations as the file has them, from text number ``start`` on."""
        if self.ending == ".txt":
            return as_bytes("".join(each[0]["text"].replace("\n", " ") + "\n" for each in found))
        answers: list[dict[str, Any]] = []
        for at, each in enumerate(found, start=start):
            for rank, one in enumerate(each, start=1):
                place = {"number": at + 1, "rank": rank} if self.ranked else {}
                text = {"text": self.texts[at], "translation": one["text"]}
                answers.append({**place, **text, **_but(one, "text"), **self.more.of(at)})
        if self.ending == ".jsonl":
            return as_bytes(as_jsonl(answers))
        return as_bytes(as_csv([*({**one, "score": f"{one['score']:.6f}"}).values()] for one in answers))


def _but(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}
