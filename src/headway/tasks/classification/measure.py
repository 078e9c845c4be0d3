"""A classifier is measured as its training measured it, and next to the baselines that can be fitted again."""

import difflib
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from headway.data.batches import length_batches
from headway.data.feed import row_batches
from headway.data.label_typing import recorded
from headway.data.labels import labelled, leaks
from headway.data.table import Table
from headway.errors import InputError
from headway.runtime.batching import tokens_at_once
from headway.tasks.classification.data import held_out_rows
from headway.tasks.classification.pipeline import Classifier
from headway.tasks.common.classes import Classification
from headway.tasks.common.lengths import shortened
from headway.tasks.common.linear import classification_baselines
from headway.tasks.task import EvaluationInputs
from headway.training.evaluation.comparison import in_order
from headway.training.options import split_seed

MOST_FITTED = 20_000
"""Training rows on which a linear model is fitted again to be compared with on other data."""


def measure(pipe: Classifier, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the rows that were counted; texts are cut as in training.  Raises InputError."""
    table, found = given.table("a classifier is measured on a table of texts and labels"), given.found
    columns = found.text_column or "", found.label_column or ""
    merged = recorded(given.facts)
    rows = labelled(
        table, *columns, on_bad_row=given.options.on_bad_row, to_learn=False, merging=merged, classes=pipe.labels
    )
    texts, names = rows.texts, rows.labels
    if given.same:
        texts, names = held_out_rows(rows, split_seed(given.before))
    known = None if given.same else _trained_rows(given)
    if known is not None:
        _warn_of_leaks(known[0], texts)
    strange = sorted(set(names) - set(pipe.labels))
    if strange:
        raise InputError(
            f"{table.name}: has labels the model does not know: "
            f"{', '.join(_with_nearest(label, pipe.labels) for label in strange[:5])}; "
            f"known: {', '.join(pipe.labels[:20])}{', ...' * (len(pipe.labels) > 20)}."
        )
    number = {label: i for i, label in enumerate(pipe.labels)}
    encoded = pipe.tokenizer.encode_batch(texts, special=True)
    ids = shortened(encoded, given.length(pipe.model.config.max_length), pipe.tokenizer)
    targets, most = [number[name] for name in names], tokens_at_once(pipe.model.config)
    each: list[np.ndarray] = []
    metrics = Classification(pipe.labels).evaluate(pipe.model, row_batches(ids, targets, most), each)
    order = np.concatenate(length_batches([len(row) for row in ids], most, 0, 0))
    given.each.append(in_order(each, order))
    if known is not None and len(known[0]) <= MOST_FITTED and set(known[1]) <= set(number):
        learnt = known[0], [number[label] for label in known[1]]
        lines, _ = classification_baselines(*learnt, texts, targets, pipe.labels, given.of_baselines)
        given.baselines.extend(lines)
    return {**metrics, "examples": len(texts)}


def _with_nearest(label: str, labels: Sequence[str]) -> str:
    """A label that is not known, with the known one that is written nearly so."""
    written = {known.casefold(): known for known in labels}
    near = difflib.get_close_matches(label.casefold(), list(written), n=1, cutoff=0.75)
    return f"{label!r} (did you mean {written[near[0]]!r}?)" if near else repr(label)


def _trained_rows(given: EvaluationInputs) -> tuple[list[str], list[str]] | None:
    """Texts and labels that a classifier was trained on, as far as they are still there."""
    trained = given.trained_on()
    if not isinstance(trained, Table):
        return None
    data = given.facts["data"]
    policy = given.before.get("on_bad_row") or "error"
    rows = labelled(
        trained, data["text_column"], data["label_column"], on_bad_row=policy, merging=recorded(given.facts)
    )
    held_out = [] if given.facts.get("validation") else held_out_rows(rows, split_seed(given.before))[0]
    apart = set(leaks(held_out, rows.texts))
    kept = [i for i in range(len(rows.texts)) if i not in apart]
    return [rows.texts[i] for i in kept], [rows.labels[i] for i in kept]


def _warn_of_leaks(known: list[str], texts: list[str]) -> None:
    """Warn when rows to be measured were trained on."""
    if both := leaks(known, texts):
        warnings.warn(
            f"{len(both):,} of {len(texts):,} rows also occur in the training data: scores on them are too high",
            stacklevel=4,
        )
