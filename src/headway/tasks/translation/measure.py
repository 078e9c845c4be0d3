"""A translator is measured as its training measured it: the loss of targets, and BLEU and chrF of what it writes."""

import warnings
from typing import Any

from headway.data.records.sample import few
from headway.data.records.table import Table
from headway.data.records.text_pairs import TextPairs, exchanged_sides, read_text_pairs
from headway.errors import InputError
from headway.models.transformer import EncoderDecoder
from headway.tasks.common.lengths import told_once
from headway.tasks.common.rows import EncodedPairs, encoded_pairs
from headway.tasks.task import EvaluationInputs
from headway.tasks.translation.bleu import MISSING, WITHOUT_SPACES, bleu_scores, without_spaces
from headway.tasks.translation.data import MOST_HELD_OUT, against_rivals, columns_of
from headway.tasks.translation.decoder_only import joined, prefix_task
from headway.tasks.translation.objective import Translation
from headway.tasks.translation.pipeline import Translator


def measure(pipe: Translator, given: EvaluationInputs) -> dict[str, Any]:
    """The loss as in training, of pairs that fit into the model; BLEU and chrF of all that it translates."""
    pairs = _held_out(given)
    if not given.same:
        _warn_of_pairs(pairs, given.source.name, given)
    chosen = given.sampled(pairs)
    rows, longest = _fitting(pipe, given, chosen)
    if len(rows) < len(chosen):
        left_out = f"{len(chosen) - len(rows):,} of {len(chosen):,} pairs"
        warnings.warn(f"{left_out} are longer than {longest:,} tokens: the loss leaves them out", stacklevel=3)
    if not len(rows):
        raise InputError(f"{given.source.name}: no pair fits the maximum length of {longest:,} tokens on each side.")
    if isinstance(pipe.model, EncoderDecoder):
        batches = pipe.runtime.batches(rows.examples.batches(pipe.runtime.tokens))
        task = Translation(pipe.rules.start[0], unknown=pipe.tokenizer.target.unknown)
        metrics = task.evaluate(pipe.model, batches, given.each)
    else:
        batches = pipe.runtime.batches(joined(rows).batches(pipe.runtime.tokens))
        metrics = prefix_task(rows.second, pipe.tokenizer).evaluate(pipe.model, batches, given.each)
    answered = pipe.read(chosen)
    if len(answered) < len(chosen):
        left_out = f"{len(chosen) - len(answered):,} of {len(chosen):,} sources"
        warnings.warn(f"{left_out} have a sentence that is too long for the model: they are left out", stacklevel=3)
    given.counts["measured"] = len(answered)
    with told_once():
        written, targets = pipe(list(answered.sources)), list(answered.targets)
    scores = bleu_scores(written, targets)
    if not scores:
        warnings.warn(MISSING, stacklevel=3)
    else:
        lines, apart = against_rivals(written, answered, _trained_pairs(given))
        scores |= {"written": len(answered), **apart}
        given.baselines.extend(lines)
    if scores and without_spaces(targets):
        warnings.warn(WITHOUT_SPACES, stacklevel=3)
    return {**metrics, **scores, "examples": len(answered)}


def held_out_inputs(pipe: Translator, given: EvaluationInputs, count: int) -> list[str]:
    """Some sources that are held out, of pairs that fit into the model."""
    return few(_fitting(pipe, given, _held_out(given))[0].texts.sources, count)


def _held_out(given: EvaluationInputs) -> TextPairs:
    """The pairs to measure.  Raises InputError for what is no table of pairs."""
    pairs = columns_of(given.table("a translator is measured on pairs of texts"), given.found)
    return given.held_out(pairs, MOST_HELD_OUT)  # type: ignore[no-any-return]


def _fitting(pipe: Translator, given: EvaluationInputs, pairs: TextPairs) -> tuple[EncodedPairs, int]:
    """The pairs that fit into the model, and how many tokens a side may have."""
    longest = min(pipe.longest_source, pipe.longest_target)
    if isinstance(pipe.model, EncoderDecoder):
        longest = min(longest, int(given.plan.get("length", longest)))
    return encoded_pairs(pairs, pipe.tokenizer).fitting(longest), longest


def _warn_of_pairs(pairs: TextPairs, name: str, given: EvaluationInputs) -> None:
    """Warn of pairs that look wrong, and of pairs that were trained on."""
    for warning in pairs.warnings:
        warnings.warn(f"{name}: {warning}", stacklevel=4)
    if (known := _trained_pairs(given)) is None:
        return
    if exchanged_sides(known, pairs):
        warnings.warn(f"{name}: source and target seem to be swapped, by the words of the training data", stacklevel=4)


def _trained_pairs(given: EvaluationInputs) -> TextPairs | None:
    """The pairs that the run was trained on; None if they are gone or have changed."""
    trained, data = given.trained_on(), given.facts.get("data", {})
    if not isinstance(trained, Table):
        return None
    known = read_text_pairs(trained, data["text_column"], data["second_column"])
    return given.learnt(known, MOST_HELD_OUT)
