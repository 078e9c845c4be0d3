"""``headway embed``: texts as vectors, their similarity, and the nearest of them."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.common import emit, output_options, text_options, texts_of, threads_option
from headway.cli.results import as_csv, as_jsonl, check_output, write_output
from headway.errors import InputError

if TYPE_CHECKING:
    import numpy as np


@click.command(short_help="Turn texts into vectors, compare them, or find the nearest.")
@click.argument("run")
@click.argument("file")
@click.option("--similarity", is_flag=True, help="Give the cosine of every text with every other instead.")
@click.option("--nearest", metavar="TEXT", help="Rank the texts of FILE by their nearness to this one instead.")
@click.option("--k", type=int, default=5, show_default=True, help="With --nearest: how many to name.")
@text_options
@click.option("--to", help="Write results here: .npy, .jsonl or .csv.")
@threads_option
@output_options
def command(
    run: str,
    file: str,
    similarity: bool,
    nearest: str | None,
    k: int,
    text_column: str | None,
    encoding: str | None,
    to: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Turn the texts of FILE into vectors with the model in RUN; a row of numbers for each, in order.

    FILE is a .csv, .tsv or .jsonl (by its text column), any other file line by line, or "-" for lines on standard
    input.
    """
    started = time.monotonic()
    if similarity and nearest is not None:
        raise InputError("--similarity and --nearest were both given; ask for one of them.")
    check_output(to, file, (".jsonl", ".csv") if nearest is not None else (".npy", ".jsonl", ".csv"))
    from headway.inference.embedder import as_embedder
    from headway.inference.load import load

    loaded = load(run)
    pipe = as_embedder(loaded)
    if pipe is None:
        raise InputError(f"{run}: holds a model for {loaded.task}; embed needs an encoder without classes.")
    texts = texts_of(run, file, text_column, encoding)
    if nearest is not None:
        results: Any = pipe.nearest(nearest, texts, k)
        lines = [f"{answer['score']:.3f}\t{answer['text']}" for answer in results]
        if to is not None:
            write_output(to, _ranking(results, to))
    else:
        numbers = pipe.similarity(texts) if similarity else pipe(texts)
        results = numbers.tolist() if as_json else numbers
        places = 3 if similarity else 6
        lines = ["\t".join(f"{value:.{places}f}" for value in row) for row in numbers] if to is None else []
        if to is not None:
            _write(to, texts, numbers)
    found = {"task": pipe.task, "seconds": time.monotonic() - started, "results": results}
    emit(found, as_json, [f"{len(results):,} results in {to}"] if to else lines)


def _ranking(results: list[dict[str, Any]], to: str) -> str:
    if to.endswith(".jsonl"):
        return as_jsonl(results)
    rows = ([answer["text"], f"{answer['score']:.6f}", answer["index"]] for answer in results)
    return as_csv(["text", "score", "index"], rows)


def _write(to: str, texts: list[str], numbers: "np.ndarray") -> None:
    """A row of numbers for each text: .npy the matrix alone, the others the texts too."""
    if to.endswith(".npy"):
        _write_matrix(to, numbers)
        return
    if to.endswith(".jsonl"):
        pairs = zip(texts, numbers.tolist(), strict=True)
        write_output(to, as_jsonl({"text": text, "vector": vector} for text, vector in pairs))
        return
    rows = ([text, *(f"{value:.8g}" for value in row)] for text, row in zip(texts, numbers, strict=True))
    write_output(to, as_csv(["text", *range(numbers.shape[1])], rows))


def _write_matrix(to: str, numbers: "np.ndarray") -> None:
    import numpy as np

    from headway.storage import write_whole

    def write(beside: Path) -> None:
        with beside.open("wb") as file:
            np.save(file, numbers)

    try:
        write_whole(Path(to), write)
    except OSError as error:
        raise InputError(f"{to}: cannot be written ({error.strerror or error}).") from None
