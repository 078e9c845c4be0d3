"""A language model is measured as its training measured it: running text in windows, conversations by their replies."""

from collections.abc import Sequence
from typing import Any

from headway.data.batches.batch_source import row_batches, text_batches
from headway.data.records.dialogues import Dialogues
from headway.errors import InputError
from headway.tasks.common.next_token import LanguageModeling
from headway.tasks.common.running_text import Chunks, encode_text, held_out_part
from headway.tasks.language_modeling.chat import chat_tokenizer
from headway.tasks.language_modeling.dialogue import dialogue_examples, dialogue_task, split_dialogues
from headway.tasks.language_modeling.pipeline import Generator
from headway.tasks.task import EvaluationInputs
from headway.training.options import split_seed


def measure(pipe: Generator, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the tokens that were counted.  Raises InputError."""
    if isinstance(given.source, Dialogues):
        return _dialogue_metrics(pipe, given.source, given)
    return _text_metrics(pipe, given)


def _dialogue_metrics(pipe: Generator, source: Dialogues, given: EvaluationInputs) -> dict[str, Any]:
    """Of replies alone, in conversations of at most the length of training."""
    length = given.length(pipe.model.config.max_length)
    index: Sequence[int] = range(len(source))
    if given.same:
        index = split_dialogues(source, split_seed(given.before))[1].tolist()
    tokenizer = chat_tokenizer(pipe.tokenizer)
    found = dialogue_examples(tokenizer, source, index, length)
    if not found.ids:
        raise InputError(f"{source.name}: no reply begins within the {length:,} tokens that are read.")
    batches = pipe.runtime.batches(row_batches(found.ids, found.targets, pipe.runtime.tokens))
    metrics = dialogue_task(tokenizer, found).evaluate(pipe.model, batches, given.each)
    return {**metrics, "examples": found.n_targets}


def _text_metrics(pipe: Generator, given: EvaluationInputs) -> dict[str, Any]:
    corpus = given.corpus("a language model is measured on running text or on conversations")
    length, every = given.length(pipe.model.config.max_length), given.every
    chunks = held_out_part(corpus) if given.same else Chunks(corpus)
    tokens = encode_text(chunks, pipe.tokenizer, corpus.fingerprint, "validation" if given.same else "all")
    n_bytes = sum(len(text.encode("utf-8", "surrogatepass")) for text, _ in chunks)
    task = LanguageModeling(bytes_per_token=n_bytes / max(1, len(tokens)))
    count = sum(batch.targets.numel() for batch in text_batches(tokens, length, 32, every))
    batches = pipe.runtime.batches(text_batches(tokens, length, 32, every))
    return {**task.evaluate(pipe.model, batches, given.each), "examples": count}
