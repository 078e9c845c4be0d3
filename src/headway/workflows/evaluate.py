"""Measure a saved model again, on its held-out data or on other data."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from headway.data.open.files import kind
from headway.data.open.in_memory import given_inputs
from headway.data.open.read import input_paths
from headway.data.records.corpus import Corpus
from headway.data.records.table import Table
from headway.errors import InputError
from headway.hub.download import dataset_id
from headway.nn.global_state import isolated
from headway.runtime.precision import FLOAT32
from headway.tasks.held_out import EvaluationInputs
from headway.tasks.inputs import lost_characters
from headway.tasks.registry import recogniser, spec, task_named
from headway.tasks.task import Pipeline
from headway.text.tokenizer import Tokenizer
from headway.training.evaluation.comparison import judged
from headway.training.evaluation.metric import REPORTED
from headway.training.options import TrainOptions
from headway.training.store.contents import BEFORE, TEXTS, read_texts
from headway.training.store.facts import read_facts
from headway.workflows.input import are_aligned, known_columns, read_input, rows_left_out, without_columns
from headway.workflows.load import load
from headway.workflows.train.check import check_for_task

SAME = 1e-4
"""Two measurements of one model on the same data differ by less than this."""
READING = ("text_column", "label_column", "second_column", "encoding", "delimiter", "on_bad_row")
"""Options of the training run that decide how its files are read."""


@isolated()
def evaluate(
    run: str | Path,
    inputs: Any = (),
    *,
    most: int | None = None,
    device: str = "auto",
    precision: str | None = FLOAT32,
    **columns: Any,
) -> dict[str, Any]:
    """The metrics of a saved model, with ``examples`` (texts or tokens counted) and ``on`` (what was measured).

    ``inputs`` are names of files, or data in memory as ``headway.train`` takes them.  Without inputs, or with the file
    that the model was trained on, the held-out part is measured as training did; with ``most`` so many rows or windows
    of it at most, spread evenly.  ``precision`` as in ``load``, whatever the run stores.  Raises InputError if there is
    nothing to measure on, or no such ``device`` or ``precision``.
    """
    pipe = load(run, device=device, precision=precision)
    data = given_for(run, pipe, inputs, most=most, columns=columns)
    if isinstance(pipe.tokenizer, Tokenizer) and (line := lost_characters(_texts(data, pipe.task), pipe.tokenizer)):
        warnings.warn(line, stacklevel=3)
    metrics = task_named(pipe.task).evaluate(pipe, data)
    return {
        **{"task": pipe.task, "on": f"{data.source.name}, the held-out part" if data.same else data.source.name},
        **{metric.key: metrics.get(metric.key) for metric in REPORTED},
        **metrics,
        "verdict": _verdict(pipe.task, metrics, data),
        "called": spec(pipe.task).called_as(data.plan.get("model") or {}),
        "rows": data.counts,
        **pipe.runtime.described,
        "stored": (data.facts.get("precision") or {}).get("chosen"),
    }


def shown(metrics: dict[str, Any]) -> dict[str, Any]:
    """Of what ``evaluate`` gives, what ``--json`` prints."""
    always = [metric.key for metric in REPORTED]
    own = [metric.key for metric in spec(metrics["task"]).metrics if metric.key not in always]
    some = (*own, "bleu_lowercase", "signatures", "columns")
    keys = ("task", "precision", "engine", *always, "examples", *(key for key in some if key in metrics))
    return {key: metrics[key] for key in keys}


def given_for(
    run: str | Path,
    pipe: Pipeline,
    inputs: Any = (),
    *,
    whole: bool = False,
    most: int | None = None,
    columns: Mapping[str, Any] = MappingProxyType({}),
) -> EvaluationInputs:
    """The data that a saved model is measured on, read; as for ``evaluate``.  Raises InputError.

    ``whole`` measures all of the held-out part, even if training measured only some of its windows.
    """
    facts = read_facts(Path(run)) or {}
    data, validation = facts.get("data", {}), facts.get("validation")
    named = not isinstance(inputs, list | tuple) or len(inputs) > 0
    files: list[Any] = given_inputs([inputs]) if named else []
    inputs = files = [str(file) if isinstance(file, Path) else file for file in files]
    files = files or validation or data.get("inputs") or []
    if not files:
        raise InputError(f"{run}: it does not record its training data; name a file to measure on.")
    if not inputs and (gone := [file for file in files if not (Path(file).exists() or dataset_id(file))]):
        what = f"{gone[0]}: the training data of this run no longer exist; name a file"
        if data.get("in_memory"):
            what = f"{run}: it was trained on {gone[0]} in memory; write those rows to a file and name it"
        raise InputError(f"{what}: headway evaluate {run} FILE.")
    if isinstance(files[0], Table):  # data in memory have no encoding and no delimiter
        options = reading_options(facts, [], pipe.task).but(encoding=None, delimiter=None)
    else:
        stream = bool(facts.get("options", {}).get("stream")) and (named or not validation)
        if stream and (here := [file for file in files if dataset_id(file) is None]):
            stream = all(kind(path) == "parquet" for path in input_paths(here))  # what --stream reads
        options = reading_options(facts, files, pipe.task, stream=stream)
    options = options.but(**{key: value for key, value in columns.items() if value is not None})
    check_for_task(options, pipe.task)
    chat = task_named(pipe.task).reads_conversations(pipe)
    source, detected = read_input(files, options, known_columns(facts), chat=chat)
    for line in rows_left_out(source):
        warnings.warn(line, stacklevel=2)
    trained = source.fingerprint == data.get("fingerprint")
    validated = source.fingerprint == facts.get("validation_fingerprint")
    if not inputs and not trained and not validation:
        raise InputError(
            f"{source.name}: it has changed since the run was trained on it, so its held-out part is unknown; "
            f"name a file to measure on: headway evaluate {run} FILE."
        )
    if not inputs and validation and not validated:
        warnings.warn(f"{source.name}: it has changed since the run was measured on it", stacklevel=2)
    same, again = trained and not validation, validated and bool(validation)
    if trained and not same and isinstance(source, Corpus):
        warnings.warn(f"{source.name}: the run was trained on all of this text: its scores are too high", stacklevel=2)
    texts = read_texts(Path(run))
    own, before = texts.get(pipe.task), texts.get(BEFORE + pipe.task)
    if before is None and (same or again) and data.get("rows", {}).get("known"):
        raise InputError(
            f"{run}: {TEXTS} is gone, so it is not known which rows it held out; name a file that it was not trained "
            f"on: headway evaluate {run} FILE."
        )
    known = np.zeros(0, dtype=np.int64) if before is None else before
    return EvaluationInputs(
        *(source, detected, facts, options, same, whole, most, partial(trained_on, facts, options)),
        known=known,
        trained_texts=None if own is None else np.union1d(own, known),
        validation=again,
    )


def _texts(given: EvaluationInputs, task: str) -> Iterator[str]:
    """The texts of the data: those of both columns of pairs, or the pieces of running text."""
    if isinstance(given.source, Corpus):
        return (text for text, _ in given.source.chunks()) if recogniser(task).running_text else iter(())
    names = [name for name in (given.found.text_column, given.found.second_column) if name in given.source.columns]
    return chain.from_iterable(zip(*map(given.source.values, names), strict=True)) if names else iter(())


def _verdict(task: str, metrics: dict[str, Any], given: EvaluationInputs) -> dict[str, Any]:
    """The verdict on a model: the run's own if the same data were measured, otherwise from the new measurements."""
    before = given.facts.get("verdict") or {}
    key = before.get("metric")
    if given.same and given.most is None and key in metrics and abs(metrics[key] - before["value"]) < SAME:
        return before
    baselines = given.facts.get("baselines", []) if given.same and not given.baselines else given.baselines
    units = np.concatenate(given.each) if given.each else None
    unit = before.get("unit")
    verdict = judged(spec(task).headline, metrics, baselines, units=units, of_baselines=given.of_baselines, unit=unit)
    return verdict if given.same or given.validation else {**verdict, "where": "measured"}


def reading_options(facts: dict[str, Any], files: Sequence[str], task: str, *, stream: bool = False) -> TrainOptions:
    """How files are read for a run, by its headway.json."""
    before = facts.get("options", {})
    reading = {key: before[key] for key in READING if before.get(key) is not None}
    options = TrainOptions(**{**reading, "task": task, "stream": stream})
    return without_columns(options) if are_aligned(files, task) else options


def trained_on(facts: dict[str, Any], options: TrainOptions) -> Corpus | Table | None:
    """The training data of a run, read as they were then; None if they are gone or have changed.

    ``options`` decide how the files to measure are read.
    """
    data = facts.get("data", {})
    files = data.get("inputs", [])
    if not files or not all(Path(file).exists() for file in files):
        return None
    options = without_columns(options)
    if "text_column" in data and not are_aligned(files, options.data.task):
        options = options.but(text_column=data["text_column"], second_column=data.get("second_column"))
    try:
        trained, _ = read_input(files, options)
    except InputError:
        return None
    return trained if trained.fingerprint == data.get("fingerprint") else None
