"""An encoder of texts is measured as its training measured it."""

from typing import Any

import numpy as np

from headway.data.records.sample import few
from headway.data.records.table import Table
from headway.data.records.text_pairs import TextPairs
from headway.tasks.common.rows import encoded_pairs
from headway.tasks.embedding.data import most_held_out, read_pairs, scores_of
from headway.tasks.embedding.objective import Embedding, embedding_baselines, texts_of
from headway.tasks.embedding.pipeline import Embedder
from headway.tasks.task import EvaluationInputs
from headway.training.evaluation.comparison import in_order


def measure(pipe: Embedder, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the pairs that were counted; they are cut as in training."""
    pairs = given.sampled(_held_out(given))
    rows = encoded_pairs(pairs, pipe.tokenizer).cut(pipe.max_length, pipe.tokenizer.special_ids)
    examples = rows.scored(scores_of(pairs))
    order = np.concatenate(examples.order(pipe.runtime.tokens))
    texts = texts_of(pairs, order) if pairs.scores is None else None
    task, each = Embedding("scores" if texts is None else "pairs", texts=texts), list[np.ndarray]()
    metrics = task.evaluate(pipe.pooled, pipe.runtime.batches(examples.batches(pipe.runtime.tokens)), each)
    given.each.append(in_order(each, order))
    trained = None if given.same else given.trained_on()
    if isinstance(trained, Table):
        policy = given.before.get("on_bad_row") or "error"
        pairs_then = read_pairs(trained, given.found_in_training, on_bad_row=policy)
        known = given.learnt(pairs_then, most_held_out(given.facts))
        given.baselines.extend(embedding_baselines(known, pairs, given.of_baselines)[0])
    return {**metrics, "examples": len(pairs)}


def held_out_inputs(pipe: Embedder, given: EvaluationInputs, count: int) -> list[str]:
    """The first texts of some pairs that are held out."""
    return few(_held_out(given).sources, count)


def _held_out(given: EvaluationInputs) -> TextPairs:
    """The pairs to measure.  Raises InputError for what is no table of pairs."""
    table = given.table("an encoder of texts is measured on a table of pairs of texts")
    pairs = read_pairs(table, given.found, on_bad_row=given.options.data.on_bad_row)
    return given.held_out(pairs, most_held_out(given.facts))  # type: ignore[no-any-return]
