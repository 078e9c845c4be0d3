"""A token classifier is measured as in its training, and next to the baseline where that can be fitted again."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from headway.data.batches.batch_source import row_batches
from headway.data.batches.batching import length_batches
from headway.data.open.detected import Detected
from headway.data.records.repeats import leaks
from headway.errors import InputError
from headway.tasks.task import EvaluationInputs
from headway.tasks.token_classification.data import split
from headway.tasks.token_classification.encoding import Rows, WordTags, encoded
from headway.tasks.token_classification.objective import TokenClassification
from headway.tasks.token_classification.pipeline import Tagger
from headway.tasks.token_classification.schemes import OUTSIDE, in_labels
from headway.tasks.token_classification.sentences import Sentence, Tagged, read_tagged
from headway.training.evaluation.comparison import in_order
from headway.training.options import split_seed


def measure(pipe: Tagger, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the words that were counted.  Raises InputError."""
    tagged = _in_the_models_tags(pipe, read_tagged(given.source, given.found, given.options.data.on_bad_row))
    tagged.check_labels(pipe.labels, "the model's tags")
    sentences = split(tagged, split_seed(given.before))[1] if given.same else tagged.sentences
    longest = given.length(pipe.model.config.max_length)
    rows = _rows(pipe, sentences, longest)
    if not rows.words:
        raise InputError(f"{given.source.name}: the tokenizer drops all characters of these texts.")
    most = pipe.runtime.tokens
    each: list[np.ndarray] = []
    batches = pipe.runtime.batches(row_batches(rows.ids, rows.targets, most))
    metrics = TokenClassification(pipe.labels).evaluate(pipe.model, batches, each)
    order = np.concatenate(length_batches([len(ids) for ids in rows.ids], most, 0, 0))
    given.each.append(in_order(each, order))
    if not given.same:
        _measure_baseline(pipe, given, sentences, rows, longest)
    return {**metrics, "examples": sum(map(len, rows.words))}


def _measure_baseline(
    pipe: Tagger, given: EvaluationInputs, sentences: list[Sentence], rows: Rows, longest: int
) -> None:
    """Measure the baseline on the same rows, as far as the training data are still there; warn of those among them."""
    trained = given.trained_on()
    if trained is None:
        return
    policy = given.before.get("on_bad_row") or "error"
    known = _in_the_models_tags(pipe, read_tagged(trained, _found(given), policy))
    learnt = known.sentences if given.facts.get("validation") else split(known, split_seed(given.before))[0]
    if both := leaks([one.text for one in learnt], [one.text for one in sentences]):
        said = f"{len(both):,} of {len(sentences):,} sentences also occur in the training data"
        warnings.warn(f"{said}: their scores are too high", stacklevel=4)
    line, units = WordTags(_rows(pipe, learnt, longest)).measured(rows, pipe.labels)
    given.baselines.append(line)
    given.of_baselines[str(line["name"])] = np.array(units, dtype=np.float64)


def _found(given: EvaluationInputs) -> Detected:
    """The columns of the training data."""
    data = given.facts.get("data", {})
    return replace(given.found, text_column=data.get("text_column"), label_column=data.get("label_column"))


def _in_the_models_tags(pipe: Tagger, tagged: Tagged) -> Tagged:
    """The same with the tags that the model has for them: in IOB2, or as near to it as its own scheme is."""
    whole = OUTSIDE not in pipe.labels
    tagged = tagged.in_iob2(whole=whole)
    kept = [replace(one, tags=in_labels(one.tags, pipe.labels)) for one in tagged.sentences]
    return Tagged(tagged.name, kept, tagged.warnings)


def _rows(pipe: Tagger, sentences: list[Sentence], longest: int) -> Rows:
    found = pipe.tokenizer.encode_places([one.text for one in sentences])
    return encoded(sentences, found, pipe.tokenizer, pipe.labels, longest)
