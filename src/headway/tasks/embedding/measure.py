"""An encoder of texts is measured as its training measured it."""

from typing import Any

import numpy as np

from headway.data.batches.batch_source import pair_batches, pair_lengths
from headway.data.batches.batching import length_batches
from headway.data.records.sample import few
from headway.data.records.text_pairs import TextPairs
from headway.tasks.common.rows import encoded_pairs
from headway.tasks.embedding.data import most_held_out, read_pairs, scores_of, split_pairs
from headway.tasks.embedding.objective import Embedding, texts_of
from headway.tasks.embedding.pipeline import Embedder
from headway.tasks.task import EvaluationInputs


def measure(pipe: Embedder, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the pairs that were counted; they are cut as in training."""
    pairs = given.sampled(_held_out(given))
    rows = encoded_pairs(pairs, pipe.tokenizer).cut(pipe.max_length, pipe.tokenizer.special_ids)
    size, texts = pipe.runtime.tokens, None
    batches = pair_batches(rows.sides, scores_of(pairs), size)
    if pairs.scores is None:
        texts = texts_of(pairs, np.concatenate(length_batches(pair_lengths(rows.sides), size, 0, 0)))
    task = Embedding("pairs" if pairs.scores is None else "scores", texts=texts)
    metrics = task.evaluate(pipe.pooled, pipe.runtime.batches(batches), given.each)
    return {**metrics, "examples": len(pairs)}


def held_out_inputs(pipe: Embedder, given: EvaluationInputs, count: int) -> list[str]:
    """The first texts of some pairs that are held out."""
    return few(_held_out(given).sources, count)


def _held_out(given: EvaluationInputs) -> TextPairs:
    """The pairs to measure.  Raises InputError for what is no table of pairs."""
    table = given.table("an encoder of texts is measured on a table of pairs of texts")
    pairs = read_pairs(table, given.found, on_bad_row=given.options.data.on_bad_row)
    most = most_held_out(given.facts)
    return given.held_out(pairs, lambda rows, seed, known: split_pairs(rows, seed, most, known))  # type: ignore[no-any-return]
