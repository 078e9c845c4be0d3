"""Answers to many inputs, some at a time: in a file, on standard output, or as JSON."""

import contextlib
import json
import math
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from headway.cli.common import interruptible, is_file, show_lines
from headway.cli.inputs import CHARACTERS, Texts, pieces
from headway.cli.output_file import OutputFile, write_output
from headway.data.records.rows import Native
from headway.errors import InputError
from headway.io.atomic_write import write_whole
from headway.io.csv_text import as_csv
from headway.io.quantities import duration
from headway.tasks.command import Command, free_names

DELIMITERS, FINISHED = {".csv": ",", ".tsv": "\t"}, (".parquet", ".xlsx")
"""The endings of tables that are written as answers come, with what is between cells, and of those that are not."""
BATCHES = 16
"""Batches per thread in a chunk.  With fewer, more batches are partly filled; with more, a kill loses more."""
EVERY = 10.0
"""Seconds between two progress lines."""
GATHERED = 1 << 14
"""Characters of the texts for which a result of all texts, such as their cosines, is computed at a time."""


def check_output(to: str | None, read: str, endings: tuple[str, ...]) -> None:
    """Raise InputError if results cannot go to ``to``: it is the input, of an unknown kind, or in no usable folder.

    So it is where what writes .parquet or .xlsx is not installed.  Warns if results will replace a file.
    """
    from headway.data.formats import excel, parquet

    if to is None:
        return
    endings = with_tables(endings)
    path = Path(to)
    folder = next(folder for folder in path.resolve().parents if folder.exists())
    kinds = " or ".join([", ".join(endings[:-1]), endings[-1]])
    problem = ""
    if is_file(read) and path.resolve() == Path(read).resolve():
        problem = "this is the input file; name another file so that nothing is lost"
    elif not to.endswith(endings):
        problem = f"results are written as {kinds}; use one of these endings"
    elif path.is_dir():
        problem = "this is a folder; name a file"
    elif not folder.is_dir():
        problem = f"{folder} is a file, not a folder; name a place in another folder"
    elif not os.access(folder, os.W_OK | os.X_OK):
        problem = f"{folder} cannot be written to; name a place in another folder"
    if problem:
        raise InputError(f"--to {to}: {problem}.")
    if path.suffix == ".parquet":
        parquet.pyarrow()
    elif path.suffix == ".xlsx":
        excel.writer(path)
    if path.exists():
        warnings.warn(
            f"{to}: this file exists and will be replaced when all results are there; interrupt the command and name "
            "another file with --to if you need it",
            stacklevel=2,
        )


def as_bytes(text: str) -> bytes:
    """Text encoded for a results file; a lone surrogate is escaped as in JSON."""
    return text.encode("utf-8", errors="backslashreplace")


def with_tables(endings: tuple[str, ...]) -> tuple[str, ...]:
    """The endings, and those of all tables where .csv is among them."""
    tables = (*DELIMITERS, *FINISHED)
    return (*endings, *(one for one in tables if one not in endings)) if ".csv" in endings else endings


class ResultsFile:
    """The content of a file of answers, by its ending: a table, .jsonl, .txt, or an ending of the command's own.

    .parquet and .xlsx cannot grow: until all answers are there their rows are lines of JSON, which ``finish`` converts.
    """

    def __init__(self, use: Command, to: str):
        self.use, self.ending = use, Path(to).suffix
        texts = use.inputs.values
        self.texts = texts if use.keeps_columns and isinstance(texts, Texts) else None
        columns = () if self.texts is None else self.texts.others
        self.others = {name: column for column, name in free_names(columns, use.taken, "given").items()}
        """the other columns of the input table by their names here: "given: label" where "label" is taken"""

    def header(self) -> bytes:
        """The content before the first answer."""
        if self.ending in DELIMITERS:
            return as_bytes(as_csv([self.columns], DELIMITERS[self.ending]))
        return b"" if self.ending in (".jsonl", ".txt", *FINISHED) else self.use.header()

    @property
    def columns(self) -> list[str]:
        """The columns of a table of results."""
        return [*map(str, self.use.columns), *self.others]

    def finish(self, part: Path) -> None:
        """Make the file of results of all rows, where that is more than these."""
        from headway.data.formats.excel import write_excel
        from headway.data.formats.parquet import write_parquet

        def rows() -> Iterator[list[Any]]:
            with part.open(encoding="utf-8") as lines:
                yield from map(json.loads, lines)

        if self.ending == ".xlsx":
            write_whole(part, lambda new: write_excel(new, self.columns, rows()))
        elif self.ending == ".parquet":
            write_whole(part, lambda new: write_parquet(new, self.columns, rows))

    def content(self, start: int, found: Sequence[Any]) -> bytes:
        """Some answers, from input number ``start`` on."""
        use, numbered = self.use, enumerate(found, start)
        if self.ending in (*DELIMITERS, *FINISHED):
            rows = ([*row, *self._others_of(at).values()] for at, one in numbered for row in use.rows(at, one))
            if self.ending in FINISHED:
                return as_bytes("".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows))
            written = ([f"{value:.6f}" if isinstance(value, float) else value for value in row] for row in rows)
            return as_bytes(as_csv(written, DELIMITERS[self.ending]))
        if self.ending == ".jsonl":
            objects = ({**each, **self._others_of(at)} for at, one in numbered for each in use.objects(at, one))
            return as_bytes("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in objects))
        if self.ending == ".txt":
            return as_bytes("".join(f"{use.line(one)}\n" for one in found))
        return use.content(found)

    def _others_of(self, number: int) -> dict[str, Any]:
        """The other columns of a text of the present piece, by its number from 0."""
        row = {} if self.texts is None or not self.others else self.texts.row(number)
        return {name: self._typed(row[column]) for name, column in self.others.items()}

    def _typed(self, cell: str) -> Any:
        """A cell as the value that it is in its own file, where the file of results has types as well."""
        if self.ending in DELIMITERS or not isinstance(cell, Native):
            return cell
        value = cell.value
        nested = isinstance(value, list | dict) and self.ending != ".jsonl"
        fits = not nested and not (isinstance(value, float) and math.isinf(value))
        return value if fits else str(cell)


def all_results(use: Command, verb: str, to: str | None, *, as_json: bool, quiet: bool) -> tuple[Command, list[Any]]:
    """Answer the inputs, to a file, to standard output or for JSON; returns the answers and what counts the results."""
    from headway.tasks.inputs import told_once
    from headway.training.progress import shown_to

    most = piece_size(use.tokens)
    how: dict[str, Any] = {"most": most, "as_json": as_json and not use.gathers, "progress": shown_to(quiet)}
    if use.gathers and to is not None and Path(to).suffix in FINISHED:
        raise InputError(f"--to {to}: what is computed of all texts together is written as .csv, .tsv or .jsonl.")
    with told_once():
        if to is None and use.gathers:
            parts = (use.content(use.answer(part)) for _, part in pieces(use.inputs.values, most))
            return _gathered(use, use.restored(b"".join(parts)), to, as_json)
        if to is None:
            return use, give_answers(use, None, None, **how)
        place = f"{to}.vectors" if use.gathers else to  # answers that are needed all together are kept there
        file, name = ResultsFile(use, place), asked_for(verb, use, place, most=most, as_json=how["as_json"])
        with OutputFile(place, name, b"" if use.gathers else file.header()) as output:
            results = give_answers(use, output, file, **how)
            if use.gathers:
                use, results = _gathered(use, use.restored(output.read()), to, as_json)
                output.discard()
            else:
                output.finish(file.finish)
    return use, results


def _gathered(use: Command, answers: Any, to: str | None, as_json: bool) -> tuple[Command, list[Any]]:
    """Write, show or return the result computed from all answers, some rows at a time."""
    use, found = use.gathered(answers)
    results: list[Any] = []

    def written(file: ResultsFile | None) -> Iterator[bytes]:
        if file is not None:
            yield file.header()
        for start, texts in pieces(use.inputs.values, GATHERED):
            part = found[start : start + len(texts)]
            if as_json:
                results.extend(use.results(part))
            elif file is None:
                show_lines(use.lines(start, part))
            if file is not None:
                yield file.content(start, part)

    if to is None:
        list(written(None))
    else:
        write_output(to, written(ResultsFile(use, to)))
    return use, results


def piece_size(tokens_at_once: int) -> int:
    """How many characters are read before their answers are written, given the tokens of a batch."""
    import torch

    return CHARACTERS * BATCHES * torch.get_num_threads() * tokens_at_once


def give_answers(
    use: Command, output: OutputFile | None, file: ResultsFile | None, *, most: int, as_json: bool, progress: Any
) -> list[Any]:
    """Answer the inputs of a command in order, and write or show each chunk when it is answered.

    ``most`` is the size of a chunk in characters.  With ``as_json`` all answers are returned, including those that
    ``output`` holds from an earlier command; otherwise none.
    """
    from headway.tasks.inputs import lost_characters

    inputs = use.inputs.values
    started, said = time.monotonic(), time.monotonic()
    results: list[Any] = []
    before = 0
    if output is not None:
        results, before = output.results, output.inputs
        if before:
            progress.say(f"{output.to}: resuming after {before:,} of {len(inputs):,} inputs")
    with interruptible() if output is not None else contextlib.nullcontext():
        try:
            for start, part in pieces(inputs, most):
                stop = start + len(part)
                if stop <= before:
                    continue
                if start == before and use.inputs.several and use.spec.reads == "text":
                    tokenizer = getattr(use.pipe, "tokenizer", None)
                    if tokenizer is not None and (line := lost_characters(part, tokenizer)):
                        warnings.warn(line, stacklevel=2)
                found = use.answer(part)
                if output is not None and file is not None:
                    output.add(file.content(start, found), stop, use.results(found) if as_json else None)
                elif as_json:
                    results += use.results(found)
                else:
                    show_lines(use.lines(start, found))
                if stop < len(inputs) and time.monotonic() - said >= EVERY:
                    said = time.monotonic()
                    left = (said - started) / (stop - before) * (len(inputs) - stop)
                    progress.say(f"{stop:,} of {len(inputs):,} inputs, about {duration(left)} left")
        except KeyboardInterrupt:
            if output is None or not output.inputs:
                raise
            kept = f"the answers for {output.inputs:,} of {len(inputs):,} inputs are saved"
            raise KeyboardInterrupt(f"stopped; {kept}; run the same command again to resume") from None
    return results


def asked_for(verb: str, use: Command, to: str, **more: Any) -> str:
    """A fingerprint of everything that the answers of a command depend on."""
    import torch

    from headway import __version__
    from headway.data.batches.cache import key_of
    from headway.hub.adapters.locate import locate_model
    from headway.hub.fingerprint import full_fingerprint

    model = full_fingerprint(locate_model(use.inputs.run).path)
    options = sorted({**use.depends_on, **more}.items())
    runtime = use.pipe.runtime
    by = (runtime.precision, *("" if engine is None else engine.name for engine in (runtime.few, runtime.many)))
    kind = (verb, Path(to).suffix, model, __version__, torch.get_num_threads(), *by, options)
    return key_of(chain(kind, use.inputs.known_by or use.inputs.values))
