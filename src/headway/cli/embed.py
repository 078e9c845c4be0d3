"""``headway embed``: texts as vectors, their similarity, and the nearest of them."""

import contextlib
import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.answers import asked_for, give_answers, piece_size
from headway.cli.common import emit, output_options, text_options, texts_of, threads_option, warn_of_blank
from headway.cli.output_file import OutputFile
from headway.cli.results import as_bytes, as_csv, as_jsonl, check_output, write_output
from headway.errors import InputError, field

if TYPE_CHECKING:
    import numpy as np


@click.command(short_help="Turn texts into vectors, compare them, or find the nearest.")
@click.argument("run")
@click.argument("words", metavar="TEXT...", nargs=-1, required=True)
@click.option("--similarity", is_flag=True, help="Give the cosine of every text with every other instead.")
@click.option("--nearest", metavar="TEXT", help="Rank the texts by their nearness to this one instead.")
@click.option("--k", type=int, default=5, show_default=True, help="With --nearest: how many to name.")
@text_options
@click.option("--to", help="Write results here: .npy, .jsonl or .csv.")
@threads_option
@output_options
def command(
    run: str,
    words: tuple[str, ...],
    similarity: bool,
    nearest: str | None,
    k: int,
    text_column: str | None,
    encoding: str | None,
    to: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Turn TEXT into vectors with the model in RUN; a row of numbers for each, in order.

    TEXT is a text or several, a file (a .csv, .tsv or .jsonl by its text column, any other line by line), or "-" for
    lines on standard input.
    """
    started = time.monotonic()
    if similarity and nearest is not None:
        raise InputError("--similarity and --nearest were both given; ask for one of them.")
    check_output(to, words[0], (".jsonl", ".csv") if nearest is not None else (".npy", ".jsonl", ".csv"))
    from headway.generation.sampling import check_number
    from headway.runtime.batching import tokens_at_once
    from headway.tasks.embedding.pipeline import as_embedder
    from headway.training.monitor.progress import shown_to
    from headway.workflows.load import load

    loaded = load(run)
    pipe = as_embedder(loaded)
    if pipe is None:
        raise InputError(f"{run}: holds a model for {loaded.task}; embed needs an encoder without classes.")
    if nearest is not None:
        check_number("k", k, 1, 1 << 31, "a whole number, 1 or more", whole=True)
    texts = texts_of(run, words, text_column, encoding)
    warn_of_blank(texts)
    most = piece_size(tokens_at_once(pipe.model.config))
    compared = similarity or nearest is not None
    in_json = as_json and not compared
    with contextlib.ExitStack() as stack:
        output = None
        if to is not None:  # what compares all texts waits for the last vector: until then the vectors are kept
            place = f"{to}.vectors" if compared else to
            table = _Vectors(texts, pipe.width, ".raw" if compared else Path(to).suffix)
            asked = asked_for("embed", run, place, texts, None, most=most, as_json=in_json)
            output = stack.enter_context(OutputFile(place, asked, table.header()))
        results: Any = []
        if output is None and compared:
            vectors = pipe(texts)
        else:
            results = give_answers(
                texts,
                lambda part: pipe(part).tolist() if in_json else pipe(part),
                most=most,
                output=output,
                as_json=in_json,
                progress=shown_to(quiet),
                written=lambda start, found: table.written(start, found),
                shown=lambda start, found: _lines(found, 6),
            )
        if compared:
            vectors = vectors if output is None else table.read(output.read())
            results = _compared(pipe, texts, vectors, nearest, k, to, as_json)
            if output is not None:
                output.discard()
        elif output is not None:
            output.finish()
    found = {"task": pipe.task, "seconds": time.monotonic() - started, "results": results}
    count = len(results) if nearest is not None else len(texts)
    emit(found, as_json, [f"{count:,} results in {to}"] if to else [])


def _compared(
    pipe: Any, texts: list[str], vectors: "np.ndarray", nearest: str | None, k: int, to: str | None, as_json: bool
) -> list[Any]:
    """The texts that are nearest to one, or the cosines of all with all: written, shown, or given back for JSON."""
    if nearest is not None:
        ranked = pipe.nearest(nearest, texts, k, vectors=vectors)
        if to is not None:
            write_output(to, _ranking(ranked, to))
        lines = [f"{one['score']:.3f}\t{field(one['text'])}" for one in ranked]
        emit({}, False, lines if to is None and not as_json else [])
        return ranked
    cosines = pipe.similarity(vectors)
    if to is not None:
        table = _Vectors(texts, len(texts), Path(to).suffix)
        write_output(to, table.header() + table.written(0, cosines))
    emit({}, False, list(_lines(cosines, 3)) if to is None and not as_json else [])
    return cosines.tolist() if as_json else []


def _lines(numbers: Any, places: int) -> Iterator[str]:
    return ("\t".join(f"{value:.{places}f}" for value in row) for row in numbers)


def _ranking(results: list[dict[str, Any]], to: str) -> bytes:
    if to.endswith(".jsonl"):
        return as_bytes(as_jsonl(results))
    rows = ([answer["text"], f"{answer['score']:.6f}", answer["index"]] for answer in results)
    return as_bytes(as_csv([["text", "score", "index"], *rows]))


class _Vectors:
    """A row of so many numbers for each text: .npy and .raw the numbers alone, the others the texts too."""

    def __init__(self, texts: list[str], width: int, ending: str):
        self.texts, self.width, self.ending = texts, width, ending

    def header(self) -> bytes:
        """What comes before the first row."""
        if self.ending == ".csv":
            return as_bytes(as_csv([["text", *range(self.width)]]))
        if self.ending != ".npy":
            return b""
        from numpy.lib import format as npy

        file, shape = io.BytesIO(), (len(self.texts), self.width)
        npy.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        return file.getvalue()

    def written(self, start: int, numbers: Any) -> bytes:
        """Some rows as the file has them, from text number ``start`` on."""
        import numpy as np

        rows = np.asarray(numbers, dtype="<f4")
        texts = self.texts[start : start + len(rows)]
        if self.ending in (".npy", ".raw"):
            return rows.tobytes()
        if self.ending == ".jsonl":
            pairs = zip(texts, rows.tolist(), strict=True)
            return as_bytes(as_jsonl({"text": text, "vector": vector} for text, vector in pairs))
        return as_bytes(
            as_csv([text, *(f"{value:.8g}" for value in row)] for text, row in zip(texts, rows, strict=True))
        )

    def read(self, raw: bytes) -> "np.ndarray":
        """The numbers of a .raw file, (N, D)."""
        import numpy as np

        return np.frombuffer(raw, dtype="<f4").reshape(len(self.texts), self.width)
