"""An encoder of texts is measured as its training measured it."""

from typing import Any

from headway.data.batches.batch_source import pair_batches
from headway.tasks.embedding.data import read_pairs, split_pairs, token_pairs
from headway.tasks.embedding.objective import Embedding
from headway.tasks.embedding.pipeline import Embedder
from headway.tasks.task import EvaluationInputs


def measure(pipe: Embedder, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the pairs that were counted; they are cut as in training."""
    table = given.table("an encoder of texts is measured on a table of pairs of texts")
    pairs = read_pairs(table, given.found, on_bad_row=given.options.data.on_bad_row)
    pairs = split_pairs(pairs, int(given.before.get("seed", 0)))[1] if given.same else pairs
    longest = int(given.plan.get("length", pipe.max_length))
    rows = token_pairs(pairs, pipe.tokenizer, min(longest, pipe.max_length))
    batches = pair_batches(rows, pairs.scores or [1.0] * len(pairs), pipe.runtime.tokens)
    task = Embedding("pairs" if pairs.scores is None else "scores")
    metrics = task.evaluate(pipe.pooled, pipe.runtime.batches(batches), given.each)
    return {**metrics, "examples": len(pairs)}
