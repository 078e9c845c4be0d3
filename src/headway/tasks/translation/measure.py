"""A translator is measured as its training measured it: the loss of targets, and BLEU and chrF of what it writes."""

import warnings
from typing import Any

from headway.data.batches.batch_source import row_batches, target_batches
from headway.data.records.repeats import shared
from headway.data.records.table import Table
from headway.data.records.text_pairs import TextPairs, exchanged_sides, read_text_pairs
from headway.errors import InputError
from headway.models.transformer import EncoderDecoder
from headway.tasks.common.rows import encoded_pairs
from headway.tasks.task import EvaluationInputs
from headway.tasks.translation.bleu import MISSING, WITHOUT_SPACES, bleu_scores, chrf_intervals, without_spaces
from headway.tasks.translation.data import UNCHANGED, columns_of, copied_scores, split_pairs
from headway.tasks.translation.decoder_only import joined, prefix_task
from headway.tasks.translation.objective import Translation
from headway.tasks.translation.pipeline import Translator
from headway.training.options import split_seed


def measure(pipe: Translator, given: EvaluationInputs) -> dict[str, Any]:
    """The loss as in training, BLEU and chrF of what is written; of pairs that fit into the model."""
    table = given.table("a translator is measured on pairs of texts")
    pairs = columns_of(table, given.found)
    if given.same:
        pairs = split_pairs(pairs, split_seed(given.before))[1]
    else:
        _warn_of_pairs(pairs, table.name, given)
    pairs = given.sampled(pairs)
    longest = min(pipe.longest_source, pipe.longest_target)
    if isinstance(pipe.model, EncoderDecoder):
        longest = min(longest, int(given.plan.get("length", longest)))
    rows = encoded_pairs(pairs, pipe.tokenizer).fitting(longest)
    if len(rows) < len(pairs):
        left_out = f"{len(pairs) - len(rows):,} of {len(pairs):,} pairs"
        warnings.warn(f"{left_out} are longer than {longest:,} tokens and were left out", stacklevel=3)
    if not len(rows):
        raise InputError(f"{table.name}: no pair fits the maximum length of {longest:,} tokens on each side.")
    if isinstance(pipe.model, EncoderDecoder):
        batches = pipe.runtime.batches(target_batches(rows.sides, pipe.runtime.tokens))
        metrics = Translation(pipe.rules.start[0]).evaluate(pipe.model, batches, given.each)
    else:
        batches = pipe.runtime.batches(row_batches(*joined(rows.sides), pipe.runtime.tokens))
        metrics = prefix_task(rows.second, pipe.tokenizer).evaluate(pipe.model, batches, given.each)
    sources, targets = list(rows.texts.sources), list(rows.texts.targets)
    written = pipe(sources)
    scores = bleu_scores(written, targets)
    if not scores:
        warnings.warn(MISSING, stacklevel=3)
    else:
        scores |= {"written": len(rows), "intervals": chrf_intervals(written, sources, targets)}
        given.baselines.append({"name": UNCHANGED, **copied_scores(sources, targets)})
    if scores and without_spaces(targets):
        warnings.warn(WITHOUT_SPACES, stacklevel=3)
    return {**metrics, **scores, "examples": len(rows)}


def _warn_of_pairs(pairs: TextPairs, name: str, given: EvaluationInputs) -> None:
    """Warn of pairs that look wrong, and of pairs that were trained on."""
    for warning in pairs.warnings:
        warnings.warn(f"{name}: {warning}", stacklevel=4)
    trained = given.trained_on()
    if not isinstance(trained, Table):
        return
    data = given.facts["data"]
    known = read_text_pairs(trained, data["text_column"], data["second_column"])
    if not given.facts.get("validation"):
        known = split_pairs(known, split_seed(given.before))[0]
    if exchanged_sides(known, pairs):
        warnings.warn(f"{name}: source and target seem to be swapped, by the words of the training data", stacklevel=4)
    if both := len(shared(known.hashes, pairs.hashes)):
        said = f"{both:,} of {len(pairs):,} sources also occur in the training data: their scores are too high"
        warnings.warn(said, stacklevel=4)
