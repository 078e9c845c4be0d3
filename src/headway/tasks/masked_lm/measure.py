"""A masked language model is measured as its training measured it."""

from typing import Any

from headway.tasks.common.running_text import held_out_part, whole
from headway.tasks.masked_lm.data import MASK_SHARE, encode_documents, held_out_batches, task_of
from headway.tasks.masked_lm.pipeline import MaskFiller
from headway.tasks.task import EvaluationInputs


def measure(pipe: MaskFiller, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the hidden tokens that were counted: the same ones of a text in the same windows."""
    corpus = given.corpus("a masked language model is measured on running text")
    tokens = encode_documents(held_out_part(corpus) if given.same else whole(corpus), pipe.tokenizer)
    length = int(given.plan.get("length", min(256, pipe.model.config.max_length)))
    share = given.plan.get("mask_share") or MASK_SHARE
    task = task_of(pipe.tokenizer, share, whole_words=bool(given.plan.get("whole_words", False)))
    every = given.stride(len(tokens) // length)
    examples = int(task.held_out_counts(held_out_batches(tokens, pipe.tokenizer, length, every)).sum())
    batches = pipe.runtime.batches(held_out_batches(tokens, pipe.tokenizer, length, every))
    metrics = task.evaluate(pipe.model, batches, given.each)
    return {**metrics, "examples": examples}
