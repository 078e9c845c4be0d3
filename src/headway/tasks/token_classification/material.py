"""Small data for a few steps of training a token classifier: sentences with their tags, as lists in JSON Lines."""

import random
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any

from headway.data.open.detected import Detected
from headway.data.records.corpus import Corpus
from headway.data.records.table import Table
from headway.data.records.tagged import Sentence, sentences
from headway.tasks.checks import (
    LABEL,
    LONGEST_TEXT,
    ROWS,
    TEXT,
    Material,
    MaterialInputs,
    Words,
    json_lines,
    token_vectors,
)
from headway.training.options import TrainOptions


def beginning(source: Corpus | Table, found: Detected, options: TrainOptions, given: MaterialInputs) -> Material:
    """The first sentences.  Raises InputError for one that is wrong where ``options`` do not skip it."""
    read = partial(sentences(source, found, options.data.on_bad_row), [])
    short = list(islice((one for one in read() if len(one.text) <= LONGEST_TEXT), ROWS)) or islice(read(), ROWS)
    return _written([_row(one) for one in short], given)


def made_up(pipe: Any, given: MaterialInputs) -> Material:
    """Random words with the model's tags in turn."""
    words = Words(pipe.tokenizer, token_vectors(pipe.model), random.Random(0))
    rows = [words.text().split() for _ in range(ROWS)]
    tags = [
        [pipe.labels[(number + at) % len(pipe.labels)] for at in range(len(row))] for number, row in enumerate(rows)
    ]
    return _written(list(zip(rows, tags, strict=True)), given, "made-up texts")


def _row(sentence: Sentence) -> tuple[list[str], list[str]]:
    return [sentence.text[start:end] for start, end in sentence.words], sentence.tags


def _written(rows: Sequence[tuple[list[str], list[str]]], given: MaterialInputs, origin: str = "") -> Material:
    file = json_lines(({TEXT: words, LABEL: tags} for words, tags in rows), given.folder / "rows.jsonl")
    return Material(file, {TEXT: TEXT, LABEL: LABEL}, origin)
