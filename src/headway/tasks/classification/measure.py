"""A classifier is measured as its training measured it, and next to the baselines that can be fitted again."""

import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np

from headway.data.batches.batching import TargetKind
from headway.data.batches.examples import Examples
from headway.data.records.label_typing import apart, as_measured, recorded
from headway.data.records.labels import Labelled, label_counts, labelled
from headway.data.records.sample import few
from headway.data.records.table import Table
from headway.errors import InputError
from headway.tasks.classification.pipeline import Classifier
from headway.tasks.common.classes import Classification
from headway.tasks.common.linear import classification_baselines
from headway.tasks.common.rows import encoded_texts, measured_rows
from headway.tasks.task import EvaluationInputs

MOST_FITTED = 20_000
"""Training rows on which a linear model is fitted again to be compared with on other data."""


def measure(pipe: Classifier, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the rows that were counted; texts are cut as in training.  Raises InputError."""
    rows = _held_out(pipe, given)
    known = None if given.same else _trained_rows(given)
    rows = given.sampled(rows)
    used = {rows.classes[at] for at in np.unique(rows.targets)}
    strange = sorted(used - set(pipe.labels))
    if strange:
        raise InputError(
            f"{given.source.name}: has labels that the model does not know: "
            f"{', '.join(_with_nearest(label, pipe.labels) for label in strange[:5])}; "
            f"known: {', '.join(pipe.labels[:20])}{', ...' * (len(pipe.labels) > 20)}. "
            "Correct them, or join spellings with --merge-labels."
        )
    ids = encoded_texts(rows, pipe.tokenizer)
    ids = ids.cut(pipe.max_length, pipe.tokenizer.special_ids)
    targets = rows.numbered(pipe.labels)
    examples = Examples(ids, targets, TargetKind.ROW)
    metrics = measured_rows(pipe, Classification(pipe.labels, silent=pipe.tokenizer.silent_ids), examples, given.each)
    if known is not None and len(known) <= MOST_FITTED and set(known.classes) <= set(pipe.labels):
        learnt = known, known.numbered(pipe.labels)
        lines, _ = classification_baselines(*learnt, rows, targets, pipe.labels, given.of_baselines)
        given.baselines.extend(lines)
    return {**metrics, "examples": len(rows)}


def held_out_inputs(pipe: Classifier, given: EvaluationInputs, count: int) -> list[str]:
    """Some texts that are held out."""
    return few(_held_out(pipe, given), count)


def _held_out(pipe: Classifier, given: EvaluationInputs) -> Labelled:
    """The rows to measure.  Raises InputError for what is no table of texts and labels."""
    table, found = given.table("a classifier is measured on a table of texts and labels"), given.found
    columns = found.text_column or "", found.label_column or ""
    asked, policy = given.options.for_tasks, given.options.data.on_bad_row
    as_text = asked.labels_as_text or given.before.get("labels_as_text") is True
    counts = label_counts(table, columns[1], as_text)
    merged = as_measured(given.facts, asked.merge_labels, as_text, counts, pipe.labels)
    rows = labelled(table, *columns, on_bad_row=policy, to_learn=False, merging=merged, classes=pipe.labels)
    return given.held_out(rows)  # type: ignore[no-any-return]


def _with_nearest(label: str, labels: Sequence[str]) -> str:
    """An unknown label, with the known label of the most similar spelling."""
    written = {known.casefold(): known for known in labels}
    near = difflib.get_close_matches(label.casefold(), list(written), n=1, cutoff=0.75)
    nearest = f" (did you mean {written[near[0]]!r}?)" if near else ""
    return f"{label!r}{apart(label, labels) or nearest}"


def _trained_rows(given: EvaluationInputs) -> Labelled | None:
    """The training rows of a classifier, if the files still exist."""
    trained = given.trained_on()
    if not isinstance(trained, Table):
        return None
    data = given.facts["data"]
    policy = given.before.get("on_bad_row") or "error"
    rows = labelled(
        trained, data["text_column"], data["label_column"], on_bad_row=policy, merging=recorded(given.facts)
    )
    return given.learnt(rows)  # type: ignore[no-any-return]
