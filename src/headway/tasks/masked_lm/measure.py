"""A masked language model is measured as its training measured it."""

import warnings
from typing import Any

from headway.data.records.sample import few
from headway.tasks.common.running_text import held_out_text, text_lines
from headway.tasks.masked_lm.data import MASK_SHARE, MEASURED, OF_BEFORE, encode_documents, held_out_batches, task_of
from headway.tasks.masked_lm.pipeline import MaskFiller
from headway.tasks.task import EvaluationInputs


def measure(pipe: MaskFiller, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the hidden tokens that were counted: the same ones of a text in the same windows."""
    text = held_out_text(given, "a masked language model is measured on running text")
    tokens = encode_documents(text, pipe.tokenizer)
    length = int(given.plan.get("length", min(256, pipe.model.config.max_length)))
    share = given.plan.get("mask_share") or MASK_SHARE
    task = task_of(pipe.tokenizer, share, whole_words=bool(given.plan.get("whole_words", False)))
    every = given.stride(len(tokens) // length)
    examples = int(task.held_out_counts(held_out_batches(tokens, pipe.tokenizer, length, every)).sum())
    batches = pipe.runtime.batches(held_out_batches(tokens, pipe.tokenizer, length, every))
    metrics = task.evaluate(pipe.model, batches, given.each)
    if given.facts and given.facts.get("data", {}).get("measured") != MEASURED:
        warnings.warn(f"{OF_BEFORE}; only masked tokens are counted now, so the figures differ", stacklevel=3)
    return {**metrics, "examples": examples}


def held_out_inputs(pipe: MaskFiller, given: EvaluationInputs, count: int) -> list[str]:
    """Lines of the held-out text, each with its middle word masked."""
    lines = text_lines(held_out_text(given, "a masked language model is measured on running text"))
    words = (line.split() for line in lines if not pipe.is_open(line))
    return [" ".join([*one[: len(one) // 2], "[MASK]", *one[len(one) // 2 + 1 :]]) for one in few(words, count)]
