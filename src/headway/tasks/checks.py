"""How a model is checked: what it is trained on for a few steps, and how its answers are compared with other programs'.

A comparison takes the original and what another library loaded, and returns (the largest difference of scores,
other differences); ``formats.hf.loaders`` calls it.  Letters: B batch, T length, V vocabulary, C classes.
"""

import json
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headway.data.open.columns import Detected
from headway.data.records.corpus import Corpus
from headway.data.records.table import Table
from headway.errors import InputError
from headway.formats.hf.loaders import Original
from headway.formats.parity import BOUND, NEW, behind, ordinary, units_of, worst
from headway.hub.directory import model_config
from headway.models.own import OwnConfig, short_answer
from headway.models.transformer import EncoderDecoder
from headway.tasks.task import Task
from headway.text.tokenizer import Tokenizer

NEUTRAL: dict[str, Any] = {
    **{"do_sample": False, "num_beams": 1, "max_new_tokens": NEW, "max_length": None, "min_length": 0},
    **{"repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "forced_eos_token_id": None},
}
"""Greedy writing, whatever ``generation_config.json`` prefers."""

Found = tuple[float, str | None]


ROWS = 40
LONGEST_TEXT = 2000
"""Characters."""
WINDOWS, CHARACTERS, MOST_TOKENS = 20, 5, 12
"""Windows of running text, the characters of a token that they are reckoned with, and the tokens of a made-up text."""
TEXT, SECOND, LABEL = "text_column", "second_column", "label_column"
READS = "Its forward must take ids int64 (B, T) and a mask bool (B, T), and return a tensor (B, ...)."


def labels_differ(original: Original, ours: Tensor, theirs: Any, inputs: Sequence[str]) -> Found:
    """``ours`` (N, C), and of the other program a list of {"label", "score"} for each input."""
    labels = original.pipe.labels
    value, problem = 0.0, None
    for text, row, found in zip(inputs, ours, theirs, strict=True):
        scores = {one["label"]: one["score"] for one in found}
        if set(scores) != set(labels):
            return value, f"its labels are {', '.join(sorted(scores)[:5])}, expected {', '.join(labels[:5])}"
        expected = torch.tensor([scores[label] for label in labels])
        value = worst(value, row - expected)
        best = max(found, key=lambda one: one["score"])["label"]
        if float(row.max() - row[labels.index(best)]) > BOUND:
            problem = problem or f"{text[:60]!r} is {best!r} there, and {labels[int(row.argmax())]!r} here"
    return value, problem


@torch.no_grad()
def same_numbers(original: Original, theirs: Any) -> Found:
    """The number of every text, relative to the largest of them."""
    ours = torch.tensor([one["value"] for one in original.pipe(list(original.texts))])
    scores = torch.tensor([answer["score"] for answer in theirs(list(original.texts))])
    value = worst(0.0, (ours - scores) / units_of(original.model, ours))
    return value, differs("gives other numbers", value)


def label_scores(original: Original, theirs: Any) -> Found:
    """The likeliest label of each text, and the probability of every label."""
    ours = original.pipe.probabilities(original.texts)
    return labels_differ(original, ours, theirs(list(original.texts), top_k=None), original.texts)


@torch.no_grad()
def continuations(original: Original, theirs: Any) -> Found:
    """Every token that is written greedily there is the likeliest here; the value is how far it is from that."""
    value, problem = 0.0, None
    ends: frozenset[int] = getattr(original.pipe, "ends", frozenset())
    for text in original.texts:
        prompt = list(theirs.tokenizer(text)["input_ids"])
        found = theirs(text, return_tensors=True, **NEUTRAL)[0]["generated_token_ids"]
        ids = torch.tensor([list(found)])
        problem = problem or ending(text, ids[0, len(prompt) :].tolist(), ends)
        logits = original.model(ids[:, :-1])[0, len(prompt) - 1 :]  # (NEW, V)
        value = worst(value, behind(logits, ids[0, len(prompt) :]))
    return value, problem or differs("continues a text with other tokens", value)


def ending(text: str, written: Iterable[int], ends: frozenset[int]) -> str | None:
    """The problem if the other library continues a text after a token that ends it here."""
    if passed := [token for token in list(written)[:-1] if token in ends]:
        return f"goes on behind the token {passed[0]}, which ends a text here, after {text[:60]!r}"
    return None


def differs(what: str, value: float) -> str | None:
    return None if value <= BOUND else f"{what}, apart by {value:.3g}, more than {BOUND:g}"


def apart(one: Any, other: Any) -> float:
    """The largest difference between the numbers of two answers, relative to those above 1.

    It is 1 at least where anything else of them differs.
    """
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return max((apart(one[key], other[key]) for key in one), default=0.0)
    if isinstance(one, list | tuple | np.ndarray) and isinstance(other, type(one)) and len(one) == len(other):
        return max(map(apart, one, other), default=0.0)
    if isinstance(one, float | np.floating) and isinstance(other, float | np.floating):
        difference = abs(float(one) - float(other)) / max(1.0, abs(float(one)))
        return difference if math.isfinite(difference) else 1.0
    return 0.0 if isinstance(one, int | str | None) and one == other else 1.0


@dataclass(frozen=True)
class Material:
    """A file to train on, and the options that say what it holds."""

    file: Path
    options: dict[str, Any] = field(default_factory=dict)
    origin: str = ""


@dataclass(frozen=True)
class MaterialInputs:
    """For what, how much, and where."""

    facts: dict[str, Any]
    """headway.json of the run, or nothing"""
    length: int
    """the tokens of a window"""
    folder: Path
    """where the file is written"""


def first_rows(source: Corpus | Table, found: Detected, given: MaterialInputs) -> Material:
    """The first characters of running text, or the first rows of a table whose columns are filled."""
    if isinstance(source, Corpus):
        file, text, most = given.folder / "beginning.txt", "", WINDOWS * max(given.length, 16) * CHARACTERS
        for chunk, _ in source.chunks():
            text += chunk
            if len(text) >= most:
                break
        file.write_text(text[:most], encoding="utf-8")
        return Material(file)
    columns = {TEXT: found.text_column, SECOND: found.second_column, LABEL: found.label_column}
    labels = {f"{LABEL}_{at}": name for at, name in enumerate(found.label_columns)}
    names = {kind: name for kind, name in (columns | labels).items() if name}
    filled = (row for row in source if all(row[name].strip() for name in names.values()))
    rows = [
        {kind: row[name][:LONGEST_TEXT] for kind, name in names.items()}
        for row, _ in zip(filled, range(ROWS), strict=False)
    ]
    made = table(rows, given.folder)
    options = {kind: kind for kind in made.options if kind not in labels}
    return replace(made, options=options | ({LABEL: ",".join(labels)} if labels else {}))


def synthetic_table(pipe: Any, folder: Path, row: Callable[[int, str, str], dict[str, str]]) -> Material:
    """Rows of random tokens: ``row`` makes one of its number, a text that is read and one that may be written."""
    draw = random.Random(0)
    texts, targets = read_texts(pipe, draw), random_texts(pipe.tokenizer.target, pipe.model.config.vocab_size, draw)
    return table([row(number, next(texts), next(targets)) for number in range(ROWS)], folder, "made-up texts")


def synthetic_text(pipe: Any, length: int, folder: Path) -> Material:
    """Running text of random tokens, a line for each few."""
    file = folder / "made-up.txt"
    lines = islice(read_texts(pipe, random.Random(0)), 1 + WINDOWS * max(length, 16) // MOST_TOKENS * 2)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return Material(file, origin="made-up text")


def table(rows: Sequence[dict[str, Any]], folder: Path, origin: str = "") -> Material:
    """Rows as a file; its columns are called as the options are that name them."""
    return Material(json_lines(rows, folder / "rows.jsonl"), {kind: kind for kind in rows[0]}, origin)


def json_lines(values: Iterable[Any], file: Path) -> Path:
    """Write each value as a line of JSON."""
    file.write_text("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values), encoding="utf-8")
    return file


def read_texts(pipe: Any, draw: random.Random) -> Iterator[str]:
    """``random_texts`` that a pipeline's model reads."""
    return random_texts(pipe.tokenizer, token_vectors(pipe.model), draw)


def random_texts(tokenizer: Tokenizer, rows: int, draw: random.Random) -> Iterator[str]:
    """Lines of random ``ordinary`` tokens, without end."""
    known = ordinary(tokenizer, rows)
    while True:
        for _ in range(20):  # most are not blank
            ids = draw.choices(known, k=draw.randint(2, MOST_TOKENS))
            if line := " ".join(tokenizer.decode(ids).replace("\0", " ").split()):
                break
        yield line or "a b"


def token_vectors(model: Any) -> int:
    """How many token vectors a model has for what it reads."""
    config = model.encoder_config if isinstance(model, EncoderDecoder) else model_config(model)
    return int(config.vocab_size)


def own_model(task: Task, config: OwnConfig) -> nn.Module:
    """The model that a task builds, with its configuration.

    Raises InputError for one that could not be saved whole, and for one that does not read ids and a mask.
    """
    made = task.new_model(config)
    if not isinstance(made, nn.Module):
        raise InputError(f"new_model of {config.task} returns a {type(made).__name__}, expected a torch.nn.Module.")
    if kept := [name for name, _ in made.named_buffers() if name in made.state_dict()]:
        raise InputError(
            f"{config.described} keeps {kept[0]!r} as a buffer, but only parameters are saved: make it a parameter "
            "(requires_grad=False), or register it with persistent=False."
        )
    weights = dict(made.named_parameters())
    if not weights:
        raise InputError(f"{config.described} has no parameters, so there is nothing to train.")
    if other := [name for name, p in weights.items() if p.is_floating_point() and p.dtype != torch.float32]:
        raise InputError(f"{config.described} has {other[0]!r} in {weights[other[0]].dtype}; expected torch.float32.")
    model: Any = made
    model.config = config
    try:
        answer = short_answer(model)
    except Exception as error:
        why = str(error).split("\n")[0]
        raise InputError(f"{config.described} reads no texts ({type(error).__name__}: {why}). {READS}") from error
    if not isinstance(answer, Tensor) or answer.shape[:1] != (2,):
        found = f"a tensor {tuple(answer.shape)}" if isinstance(answer, Tensor) else f"a {type(answer).__name__}"
        raise InputError(f"{config.described} gives {found} for two texts. {READS}")
    model.build_own = partial(own_model, task)  # by which a saved one is loaded again and compared
    return made
