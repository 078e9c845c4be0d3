"""A language model is measured as its training measured it: running text in windows, conversations by their replies."""

from typing import Any

from headway.data.batches.batch_source import text_batches
from headway.data.records.dialogues import Dialogues
from headway.data.records.sample import few
from headway.errors import InputError
from headway.tasks.common.next_token import LanguageModeling
from headway.tasks.common.running_text import encode_text, held_out_text, measured_bytes, text_lines
from headway.tasks.language_modeling.chat import chat_tokenizer
from headway.tasks.language_modeling.dialogue import Talks, encoded_talks, talks
from headway.tasks.language_modeling.pipeline import Generator
from headway.tasks.task import EvaluationInputs

BEGINNING = 40
"""Characters of a line that are continued where two ways to compute are compared."""
NEEDS = "a language model is measured on running text or on conversations"


def measure(pipe: Generator, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the tokens that were counted.  Raises InputError."""
    if isinstance(given.source, Dialogues):
        return _dialogue_metrics(pipe, given.source, given)
    return _text_metrics(pipe, given)


def held_out_inputs(pipe: Generator, given: EvaluationInputs, count: int) -> list[str]:
    """The beginnings of lines of the held-out text, or of what users say first in conversations."""
    if isinstance(given.source, Dialogues):
        texts = few((talk[0]["content"] for talk in _held_out_talks(given.source, given)), count)
    else:
        texts = few(text_lines(held_out_text(given, NEEDS)), count)
    return [text[:BEGINNING] for text in texts]


def _held_out_talks(source: Dialogues, given: EvaluationInputs) -> Talks:
    return given.held_out(talks(source))  # type: ignore[no-any-return]


def _dialogue_metrics(pipe: Generator, source: Dialogues, given: EvaluationInputs) -> dict[str, Any]:
    """Of replies alone, in conversations of at most the length of training."""
    length = given.length(pipe.model.config.max_length)
    found = given.sampled(_held_out_talks(source, given))
    examples = encoded_talks(found, chat_tokenizer(pipe.tokenizer)).cut(length)
    given.counts["measured"] = examples.n_talks
    if not len(examples.ids):
        raise InputError(f"{source.name}: no reply begins within the {length:,} tokens that are read.")
    batches = pipe.runtime.batches(examples.examples.batches(pipe.runtime.tokens))
    return {**examples.objective().evaluate(pipe.model, batches, given.each), "examples": examples.n_targets}


def _text_metrics(pipe: Generator, given: EvaluationInputs) -> dict[str, Any]:
    length = given.length(pipe.model.config.max_length)
    text = held_out_text(given, NEEDS)
    tokens = encode_text(text, pipe.tokenizer)
    every = given.stride(len(tokens) // length)
    task = LanguageModeling(measured_bytes(text, tokens, pipe.tokenizer))
    count = sum(batch.targets.numel() for batch in text_batches(tokens, length, 32, every))
    batches = pipe.runtime.batches(text_batches(tokens, length, 32, every))
    return {**task.evaluate(pipe.model, batches, given.each), "examples": count}
