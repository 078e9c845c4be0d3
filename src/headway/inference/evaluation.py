"""Measure a saved model again, on the data it held out or on any other."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.data.corpus import Corpus
from headway.data.dialogues import Dialogues
from headway.data.feed import pair_batches, row_batches, text_batches
from headway.data.labels import labelled, leaks
from headway.data.table import Table
from headway.errors import InputError
from headway.inference.chat import chat_tokenizer
from headway.inference.classifier import BATCH_TOKENS, Classifier
from headway.inference.embedder import Embedder
from headway.inference.generator import Generator
from headway.inference.load import load
from headway.inference.mask_filler import MaskFiller
from headway.inference.translator import Translator
from headway.tasks.classification import Classification
from headway.tasks.embedding import Embedding
from headway.tasks.language_modeling import LanguageModeling
from headway.training.config import TrainOptions
from headway.training.prepare import read_input
from headway.training.recipes.classification import held_out_rows, shortened, split_seed
from headway.training.recipes.dialogue import dialogue_examples, dialogue_task, split_dialogues
from headway.training.recipes.embedding import Pairs, read_pairs, split_pairs, token_pairs
from headway.training.recipes.language_modeling import encode_text, text_parts
from headway.training.recipes.masked_lm import MASK_SHARE, encode_documents, held_out_batches, task_of

READING = ("text_column", "label_column", "second_column", "encoding", "delimiter", "on_bad_row")
"""Options of the training run that say how its files are read."""
NAMES = ("val_loss", "bits_per_byte", "perplexity", "accuracy", "macro_f1", "bleu", "chrf")


def evaluate(run: str | Path, inputs: Sequence[str | Path] = (), **columns: str | None) -> dict[str, Any]:
    """The metrics of a saved model, with ``examples`` (texts or tokens counted) and ``on`` (what was measured).

    Without inputs, or given the very file the model was trained on, its held-out part is measured.  Raises InputError
    when there is nothing to measure on.
    """
    pipe = load(run)
    if isinstance(pipe, Translator):
        raise InputError(f"{run}: holds a model for {pipe.task}, which evaluate does not measure yet.")
    facts = _facts(Path(run))
    files = [str(path) for path in inputs] or facts.get("validation") or facts.get("data", {}).get("inputs")
    if not files:
        raise InputError(f"{run}: does not say what it was trained on; name a file to measure on.")
    if not inputs and (gone := [file for file in files if not Path(file).exists()]):
        raise InputError(
            f"{gone[0]}: the data of this run are not there any more; say where: headway evaluate {run} FILE."
        )
    before = facts.get("options", {})
    reading = {key: before[key] for key in READING if before.get(key) is not None}
    given = {key: value for key, value in columns.items() if value is not None}
    options = TrainOptions(**{**reading, **given, "task": pipe.task})
    source, found = read_input(files, options)
    if not inputs and facts.get("data", {}).get("fingerprint") != source.fingerprint and not facts.get("validation"):
        raise InputError(
            f"{source.name}: has changed since the run was trained on it, so its held-out part is not known; "
            f"name a file to measure on: headway evaluate {run} FILE."
        )
    same = not facts.get("validation") and source.fingerprint == facts.get("data", {}).get("fingerprint")
    if isinstance(pipe, Generator) and isinstance(source, Dialogues):
        index = split_dialogues(source, split_seed(before))[1].tolist() if same else range(len(source))
        metrics = _dialogue_metrics(pipe, source, index, _length(pipe, facts))
    elif isinstance(pipe, Generator):
        if not isinstance(source, Corpus):
            raise InputError(f"{source.name}: a language model is measured on running text or on conversations.")
        every = facts.get("plan", {}).get("validation_every", 1) if same else 1
        metrics = _text_metrics(pipe, source, same, every, _length(pipe, facts))
    elif isinstance(pipe, MaskFiller):
        if not isinstance(source, Corpus):
            raise InputError(f"{source.name}: a masked language model is measured on running text.")
        metrics = _masked_metrics(pipe, source, same, facts.get("plan", {}))
    elif isinstance(pipe, Embedder):
        if not isinstance(source, Table):
            raise InputError(f"{source.name}: an encoder of texts is measured on a table of pairs of texts.")
        pairs = read_pairs(source, found, on_bad_row=options.on_bad_row)
        pairs = split_pairs(pairs, int(before.get("seed", 0)))[1] if same else pairs
        metrics = _pair_metrics(pipe, pairs, int(facts.get("plan", {}).get("length", pipe.max_length)))
    else:
        if not isinstance(source, Table):
            raise InputError(f"{source.name}: a classifier is measured on a table of texts and labels.")
        rows = labelled(source, found.text_column or "", found.label_column or "", on_bad_row=options.on_bad_row)
        texts, names = rows.texts, rows.labels
        if same:
            texts, names = held_out_rows(rows, split_seed(before))
        else:
            _warn_of_leaks(texts, facts, options)
        metrics = _row_metrics(pipe, texts, names, source.name, _length(pipe, facts))
    on = f"{source.name}, the held-out part" if same else source.name
    return {"task": pipe.task, "on": on, **{name: metrics.get(name) for name in NAMES}, **metrics}


def _length(pipe: Generator | Classifier, facts: dict[str, Any]) -> int:
    """The length in tokens that the run was measured at: a model that was not made there may read more."""
    longest = pipe.model.config.max_length
    return min(longest, int(facts.get("plan", {}).get("length", longest)))


def _dialogue_metrics(pipe: Generator, source: Dialogues, index: Sequence[int], length: int) -> dict[str, Any]:
    """As in training: of replies alone, in conversations of at most ``length`` tokens."""
    tokenizer = chat_tokenizer(pipe.tokenizer)
    found = dialogue_examples(tokenizer, source, index, length)
    if not found.ids:
        raise InputError(f"{source.name}: no reply begins within the {length:,} tokens that are read.")
    metrics = dialogue_task(tokenizer, found).evaluate(pipe.model, row_batches(found.ids, found.targets, BATCH_TOKENS))
    return {**metrics, "examples": found.n_targets}


def _text_metrics(pipe: Generator, corpus: Corpus, same: bool, every: int, length: int) -> dict[str, Any]:
    chunks = text_parts(corpus, None)[1] if same else corpus.chunks()
    tokens = encode_text(chunks, pipe.tokenizer, corpus.fingerprint, "validation" if same else "all")
    chunks = text_parts(corpus, None)[1] if same else corpus.chunks()
    n_bytes = sum(len(text.encode("utf-8", "surrogatepass")) for text, _ in chunks)
    task = LanguageModeling(bytes_per_token=n_bytes / max(1, len(tokens)))
    count = sum(batch.targets.numel() for batch in text_batches(tokens, length, 32, every))
    return {**task.evaluate(pipe.model, text_batches(tokens, length, 32, every)), "examples": count}


def _masked_metrics(pipe: MaskFiller, corpus: Corpus, same: bool, plan: dict[str, Any]) -> dict[str, Any]:
    """As in training: the same tokens are hidden of a text that is cut into the same windows."""
    chunks = text_parts(corpus, None)[1] if same else corpus.chunks()
    tokens = encode_documents(chunks, pipe.tokenizer, corpus.fingerprint, "validation" if same else "all")
    length = int(plan.get("length", min(256, pipe.model.config.max_length)))
    task = task_of(
        pipe.tokenizer, plan.get("mask_share") or MASK_SHARE, whole_words=bool(plan.get("whole_words", False))
    )
    every = int(plan.get("validation_every", 1)) if same else 1
    examples = len(task.held_out_targets(held_out_batches(tokens, pipe.tokenizer, length, every)))
    metrics = task.evaluate(pipe.model, held_out_batches(tokens, pipe.tokenizer, length, every))
    return {**metrics, "examples": examples}


def _pair_metrics(pipe: Embedder, pairs: Pairs, longest: int) -> dict[str, Any]:
    rows = token_pairs(pairs, pipe.tokenizer, min(longest, pipe.max_length))  # cut as in training
    batches = pair_batches(rows, pairs.scores or [1.0] * len(pairs), BATCH_TOKENS)
    metrics = Embedding("pairs" if pairs.scores is None else "scores").evaluate(pipe.pooled, batches)
    return {**metrics, "examples": len(pairs)}


def _warn_of_leaks(texts: list[str], facts: dict[str, Any], options: TrainOptions) -> None:
    """Warn when rows to be measured were trained on, as far as the training files are still there."""
    data = facts.get("data", {})
    files = [file for file in data.get("inputs", []) if Path(file).exists()]
    if not files or "text_column" not in data:
        return
    try:
        trained, _ = read_input(files, replace(options, text_column=data["text_column"], label_column=None))
        if not isinstance(trained, Table) or trained.fingerprint != data.get("fingerprint"):
            return
        both = leaks(trained.column(data["text_column"]), texts)
    except InputError:
        return
    if both:
        warnings.warn(
            f"{len(both):,} of {len(texts):,} rows also occur in the training data: scores on them are too high",
            stacklevel=3,
        )


def _row_metrics(pipe: Classifier, texts: list[str], names: list[str], source: str, longest: int) -> dict[str, Any]:
    strange = sorted(set(names) - set(pipe.labels))
    if strange:
        raise InputError(
            f"{source}: has labels the model does not know: {', '.join(strange[:5])}; known: {', '.join(pipe.labels)}."
        )
    number = {label: i for i, label in enumerate(pipe.labels)}
    ids = shortened(pipe.tokenizer.encode_batch(texts, special=True), longest, pipe.tokenizer)  # cut as in training
    batches = row_batches(ids, [number[name] for name in names], BATCH_TOKENS)
    return {**Classification(pipe.labels).evaluate(pipe.model, batches), "examples": len(texts)}


def _facts(run: Path) -> dict[str, Any]:
    try:
        return json.loads((run / "headway.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
