"""A token classifier is measured as in its training, and next to the baseline where that can be fitted again."""

import warnings
from typing import Any

from headway.data.records.sample import few
from headway.runtime.windows import frame
from headway.tasks.common.rows import measured_rows
from headway.tasks.task import EvaluationInputs
from headway.tasks.token_classification.encoding import Rows, WordTags, encoded, nothing_kept
from headway.tasks.token_classification.objective import TokenClassification
from headway.tasks.token_classification.pipeline import Tagger
from headway.tasks.token_classification.schemes import OUTSIDE
from headway.tasks.token_classification.sentences import Tagged, read_tagged


def measure(pipe: Tagger, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the words that were counted, in IOB2 or as near to it as the model's own scheme is.

    Raises InputError.
    """
    scheme = _scheme(pipe)
    held_out = given.sampled(_held_out(pipe, given))
    rows = _rows(pipe, held_out)
    if not len(rows.ids):
        raise nothing_kept(given.source.name)
    unlike, words = pipe.words.unlike(held_out)
    if unlike:
        said = f"{unlike:,} of {words:,} words are split otherwise where their sentence is given as text"
        warnings.warn(f"{said}: `headway tag --pretokenized` takes words as they are", stacklevel=3)
    objective = TokenClassification(pipe.labels, longest=pipe.longest, around=frame(pipe.tokenizer))
    metrics = measured_rows(pipe, objective, rows.examples, given.each)
    if not given.same and (learnt := _trained_on(given, scheme)) is not None:
        line, units = WordTags(_rows(pipe, learnt)).measured(rows, pipe.labels)
        given.baselines.append(line)
        given.of_baselines[str(line["name"])] = units
    return {**metrics, "examples": int(rows.words.sum())}


def held_out_inputs(pipe: Tagger, given: EvaluationInputs, count: int) -> list[str]:
    """Some sentences that are held out."""
    return few((one.text for one in _held_out(pipe, given)), count)


def _scheme(pipe: Tagger) -> dict[str, Any]:
    return {"whole": OUTSIDE not in pipe.labels, "labels": pipe.labels}


def _held_out(pipe: Tagger, given: EvaluationInputs) -> Tagged:
    """The sentences to measure.  Raises InputError for tags that the model does not have."""
    tagged = read_tagged(given.source, given.found, given.options.data.on_bad_row, **_scheme(pipe))
    tagged.check_labels(pipe.labels, "the model's tags")
    return given.held_out(tagged)  # type: ignore[no-any-return]


def _rows(pipe: Tagger, tagged: Tagged) -> Rows:
    return encoded(tagged, pipe.tokenizer, pipe.labels).cut(None, pipe.tokenizer, pipe.labels)


def _trained_on(given: EvaluationInputs, scheme: dict[str, Any]) -> Tagged | None:
    """The training data of the model, if the files still exist."""
    trained = given.trained_on()
    if trained is None:
        return None
    known = read_tagged(trained, given.found_in_training, given.before.get("on_bad_row") or "error", **scheme)
    return given.learnt(known)  # type: ignore[no-any-return]
