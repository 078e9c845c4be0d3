"""What each pipeline is measured by, as its training measures it."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headway.data.decode import Decoded, decoded
from headway.data.dialogues import Dialogues
from headway.data.feed import pair_batches, row_batches, text_batches
from headway.data.image_feed import image_batches
from headway.data.pictures import Pictures
from headway.errors import InputError
from headway.inference.chat import chat_tokenizer
from headway.inference.embedder import Embedder
from headway.inference.generator import Generator
from headway.inference.image_classifier import ImageClassifier
from headway.inference.load import Pipeline
from headway.inference.mask_filler import MaskFiller
from headway.runtime.batching import tokens_at_once
from headway.tasks.common.next_token import LanguageModeling
from headway.tasks.embedding import Embedding
from headway.tasks.image_classification import ImageClassification
from headway.tasks.registry import room
from headway.tasks.task import EvaluationInputs
from headway.training.config import split_seed
from headway.training.prepare import read_input
from headway.training.recipes.dialogue import dialogue_examples, dialogue_task, split_dialogues
from headway.training.recipes.embedding import read_pairs, split_pairs, token_pairs
from headway.training.recipes.image_classification import check_known, split_pictures
from headway.training.recipes.language_modeling import Chunks, encode_text, held_out_part
from headway.training.recipes.masked_lm import MASK_SHARE, encode_documents, held_out_batches, task_of

MOST_FITTED = 20_000
"""Training rows on which a linear model is fitted again to be compared with on other data."""


def measure(pipe: Pipeline, given: EvaluationInputs) -> dict[str, Any]:
    """The metrics of a pipeline, with ``examples``: how many texts or tokens were counted.  Raises InputError."""
    if isinstance(pipe, Generator) and isinstance(given.source, Dialogues):
        return _dialogue_metrics(pipe, given.source, given)
    if isinstance(pipe, Generator):
        return _text_metrics(pipe, given)
    if isinstance(pipe, MaskFiller):
        return _masked_metrics(pipe, given)
    if isinstance(pipe, Embedder):
        return _pair_metrics(pipe, given)
    if isinstance(pipe, ImageClassifier):
        return _image_metrics(pipe, given)
    return room(pipe.task).evaluate(pipe, given)


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
    metrics = dialogue_task(tokenizer, found).evaluate(
        pipe.model, row_batches(found.ids, found.targets, tokens_at_once(pipe.model.config)), given.each
    )
    return {**metrics, "examples": found.n_targets}


def _text_metrics(pipe: Generator, given: EvaluationInputs) -> dict[str, Any]:
    corpus = given.corpus("a language model is measured on running text or on conversations")
    length, every = given.length(pipe.model.config.max_length), given.every
    chunks = held_out_part(corpus) if given.same else Chunks(corpus)
    tokens = encode_text(chunks, pipe.tokenizer, corpus.fingerprint, "validation" if given.same else "all")
    n_bytes = sum(len(text.encode("utf-8", "surrogatepass")) for text, _ in chunks)
    task = LanguageModeling(bytes_per_token=n_bytes / max(1, len(tokens)))
    count = sum(batch.targets.numel() for batch in text_batches(tokens, length, 32, every))
    return {**task.evaluate(pipe.model, text_batches(tokens, length, 32, every), given.each), "examples": count}


def _masked_metrics(pipe: MaskFiller, given: EvaluationInputs) -> dict[str, Any]:
    """The same tokens are hidden of a text that is cut into the same windows."""
    corpus = given.corpus("a masked language model is measured on running text")
    chunks = held_out_part(corpus) if given.same else Chunks(corpus)
    tokens = encode_documents(chunks, pipe.tokenizer, corpus.fingerprint, "validation" if given.same else "all")
    length = int(given.plan.get("length", min(256, pipe.model.config.max_length)))
    share = given.plan.get("mask_share") or MASK_SHARE
    task = task_of(pipe.tokenizer, share, whole_words=bool(given.plan.get("whole_words", False)))
    every = given.every
    examples = int(task.held_out_counts(held_out_batches(tokens, pipe.tokenizer, length, every)).sum())
    metrics = task.evaluate(pipe.model, held_out_batches(tokens, pipe.tokenizer, length, every), given.each)
    return {**metrics, "examples": examples}


def _pair_metrics(pipe: Embedder, given: EvaluationInputs) -> dict[str, Any]:
    """Pairs are cut as in training."""
    table = given.table("an encoder of texts is measured on a table of pairs of texts")
    pairs = read_pairs(table, given.found, on_bad_row=given.options.on_bad_row)
    pairs = split_pairs(pairs, int(given.before.get("seed", 0)))[1] if given.same else pairs
    longest = int(given.plan.get("length", pipe.max_length))
    rows = token_pairs(pairs, pipe.tokenizer, min(longest, pipe.max_length))
    batches = pair_batches(rows, pairs.scores or [1.0] * len(pairs), tokens_at_once(pipe.model.config))
    metrics = Embedding("pairs" if pairs.scores is None else "scores").evaluate(pipe.pooled, batches, given.each)
    return {**metrics, "examples": len(pairs)}


def _image_metrics(pipe: ImageClassifier, given: EvaluationInputs) -> dict[str, Any]:
    """Pictures are read as they are, in the model's size."""
    if not isinstance(given.source, Pictures):
        raise InputError(f"{given.source.name}: a classifier of pictures is measured on pictures.")
    found = decoded(given.source, pipe.preprocessor)
    check_known(found.labels, pipe.labels, given.source.name)
    index: Sequence[int] = range(len(found))
    if given.same:
        index = split_pictures(found, split_seed(given.before))[1].tolist()
    else:
        _warn_of_pictures(pipe, found, given)
    number = {label: i for i, label in enumerate(pipe.labels)}
    targets = np.array([number[found.labels[i]] for i in index], dtype=np.int64)
    each = pipe.model.config.max_length
    size = max(1, tokens_at_once(pipe.model.config) // each)
    batches = image_batches(found.pixels[list(index)], targets, pipe.preprocessor, size, each)
    return {**ImageClassification(pipe.labels).evaluate(pipe.model, batches, given.each), "examples": len(index)}


def _warn_of_pictures(pipe: ImageClassifier, found: Decoded, given: EvaluationInputs) -> None:
    """Warn when pictures to be measured were trained on, as far as those are still there."""
    data = given.facts.get("data", {})
    files = data.get("inputs", [])
    if not files or not all(Path(file).exists() for file in files):
        return
    try:
        trained = read_input(files, given.options)[0]
        if not isinstance(trained, Pictures) or trained.fingerprint != data.get("fingerprint"):
            return
        known = decoded(trained, pipe.preprocessor)
    except InputError:
        return
    held_out = () if given.facts.get("validation") else split_pictures(known, split_seed(given.before))[1]
    keys = set(known.keys) - {known.keys[i] for i in held_out}
    if both := sum(key in keys for key in found.keys):
        said = f"{both:,} of {len(found):,} pictures also occur in the training data: scores on them are too high"
        warnings.warn(said, stacklevel=4)
