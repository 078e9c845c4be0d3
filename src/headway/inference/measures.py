"""What each pipeline is measured by, as its training measures it."""

import difflib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from headway.data.batches import length_batches
from headway.data.corpus import Corpus
from headway.data.decode import Decoded, decoded
from headway.data.detected import Detected
from headway.data.dialogues import Dialogues
from headway.data.feed import pair_batches, row_batches, target_batches, text_batches
from headway.data.image_feed import image_batches
from headway.data.label_typing import recorded
from headway.data.labels import labelled, leaks
from headway.data.pictures import Pictures
from headway.data.table import Table
from headway.data.text_pairs import TextPairs, exchanged_sides, read_text_pairs
from headway.errors import InputError
from headway.inference.chat import chat_tokenizer
from headway.inference.classifier import Classifier
from headway.inference.embedder import Embedder
from headway.inference.generator import Generator
from headway.inference.image_classifier import ImageClassifier
from headway.inference.load import Pipeline
from headway.inference.mask_filler import MaskFiller
from headway.inference.together import tokens_at_once
from headway.inference.translator import Translator
from headway.models.transformer import EncoderDecoder
from headway.tasks.bleu import MISSING, WITHOUT_SPACES, bleu_scores, chrf_intervals, without_spaces
from headway.tasks.classification import Classification
from headway.tasks.comparison import in_order
from headway.tasks.embedding import Embedding
from headway.tasks.image_classification import ImageClassification
from headway.tasks.language_modeling import LanguageModeling
from headway.tasks.linear import classification_baselines
from headway.tasks.translation import Translation
from headway.training.config import TrainOptions
from headway.training.prepare import are_aligned, read_input, without_columns
from headway.training.recipes.classification import held_out_rows, shortened, split_seed
from headway.training.recipes.dialogue import dialogue_examples, dialogue_task, split_dialogues
from headway.training.recipes.embedding import read_pairs, split_pairs, token_pairs
from headway.training.recipes.image_classification import check_known, split_pictures
from headway.training.recipes.language_modeling import Chunks, encode_text, held_out_part
from headway.training.recipes.masked_lm import MASK_SHARE, encode_documents, held_out_batches, task_of
from headway.training.recipes.prefix import joined, prefix_task
from headway.training.recipes.translation import (
    UNCHANGED,
    columns_of,
    copied_scores,
    fitting,
    id_pairs,
    split_text_pairs,
)

MOST_FITTED = 20_000
"""Training rows on which a linear model is fitted again to be compared with on other data."""


@dataclass(frozen=True)
class Given:
    """What a model is measured on."""

    source: Corpus | Table
    found: Detected
    facts: dict[str, Any]
    """headway.json of the run, or nothing"""
    options: TrainOptions
    same: bool
    """whether these are the files that the run was trained on, of which the held-out part is meant"""
    whole: bool = False
    """whether all of it is measured, also where training measured some windows alone"""
    each: list[np.ndarray] = field(default_factory=list)
    """is given what each unit came to (``Task.evaluate``), in any order; of classes, in their own"""
    baselines: list[dict[str, Any]] = field(default_factory=list)
    """is given the baselines that were measured on the same, and ``of_baselines`` what each unit came to with them"""
    of_baselines: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def before(self) -> dict[str, Any]:
        """The options of the run."""
        return self.facts.get("options", {})

    @property
    def every(self) -> int:
        """Which windows of a text are measured: every n-th."""
        return int(self.plan.get("validation_every", 1)) if self.same and not self.whole else 1

    @property
    def plan(self) -> dict[str, Any]:
        """The plan of the run."""
        return self.facts.get("plan", {})

    def table(self, what: str) -> Table:
        """The source as a table.  Raises InputError for any other."""
        if not isinstance(self.source, Table):
            raise InputError(f"{self.source.name}: {what}.")
        return self.source

    def corpus(self, what: str) -> Corpus:
        """The source as running text.  Raises InputError for any other."""
        if not isinstance(self.source, Corpus):
            raise InputError(f"{self.source.name}: {what}.")
        return self.source


def measure(pipe: Pipeline, given: Given) -> dict[str, Any]:
    """The metrics of a pipeline, with ``examples``: how many texts or tokens were counted.  Raises InputError."""
    if isinstance(pipe, Generator) and isinstance(given.source, Dialogues):
        return _dialogue_metrics(pipe, given.source, given)
    if isinstance(pipe, Generator):
        return _text_metrics(pipe, given)
    if isinstance(pipe, MaskFiller):
        return _masked_metrics(pipe, given)
    if isinstance(pipe, Embedder):
        return _pair_metrics(pipe, given)
    if isinstance(pipe, Translator):
        return _translation_metrics(pipe, given)
    if isinstance(pipe, ImageClassifier):
        return _image_metrics(pipe, given)
    return _row_metrics(pipe, given)


def _length(pipe: Generator | Classifier, given: Given) -> int:
    """The length in tokens that the run was measured at: a model that was not made there may read more."""
    longest = pipe.model.config.max_length
    return min(longest, int(given.plan.get("length", longest)))


def _dialogue_metrics(pipe: Generator, source: Dialogues, given: Given) -> dict[str, Any]:
    """Of replies alone, in conversations of at most the length of training."""
    length = _length(pipe, given)
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


def _text_metrics(pipe: Generator, given: Given) -> dict[str, Any]:
    corpus = given.corpus("a language model is measured on running text or on conversations")
    length, every = _length(pipe, given), given.every
    chunks = held_out_part(corpus) if given.same else Chunks(corpus)
    tokens = encode_text(chunks, pipe.tokenizer, corpus.fingerprint, "validation" if given.same else "all")
    n_bytes = sum(len(text.encode("utf-8", "surrogatepass")) for text, _ in chunks)
    task = LanguageModeling(bytes_per_token=n_bytes / max(1, len(tokens)))
    count = sum(batch.targets.numel() for batch in text_batches(tokens, length, 32, every))
    return {**task.evaluate(pipe.model, text_batches(tokens, length, 32, every), given.each), "examples": count}


def _masked_metrics(pipe: MaskFiller, given: Given) -> dict[str, Any]:
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


def _pair_metrics(pipe: Embedder, given: Given) -> dict[str, Any]:
    """Pairs are cut as in training."""
    table = given.table("an encoder of texts is measured on a table of pairs of texts")
    pairs = read_pairs(table, given.found, on_bad_row=given.options.on_bad_row)
    pairs = split_pairs(pairs, int(given.before.get("seed", 0)))[1] if given.same else pairs
    longest = int(given.plan.get("length", pipe.max_length))
    rows = token_pairs(pairs, pipe.tokenizer, min(longest, pipe.max_length))
    batches = pair_batches(rows, pairs.scores or [1.0] * len(pairs), tokens_at_once(pipe.model.config))
    metrics = Embedding("pairs" if pairs.scores is None else "scores").evaluate(pipe.pooled, batches, given.each)
    return {**metrics, "examples": len(pairs)}


def _translation_metrics(pipe: Translator, given: Given) -> dict[str, Any]:
    """The loss as in training, BLEU and chrF of what is written; of pairs that fit into the model."""
    table = given.table("a translator is measured on pairs of texts")
    pairs = columns_of(table, given.found)
    if given.same:
        pairs = split_text_pairs(pairs, split_seed(given.before))[1]
    else:
        _warn_of_pairs(pairs, table.name, given)
    longest = min(pipe.longest_source, pipe.longest_target)
    if isinstance(pipe.model, EncoderDecoder):
        longest = min(longest, int(given.plan.get("length", longest)))
    rows, fit = fitting(pairs, id_pairs(pairs, pipe.tokenizer), longest)
    if len(fit) < len(pairs):
        left_out = f"{len(pairs) - len(fit):,} of {len(pairs):,} pairs"
        warnings.warn(f"{left_out} are longer than {longest:,} tokens and not measured", stacklevel=3)
    if not rows:
        raise InputError(f"{table.name}: no pair has at most {longest:,} tokens on each side, which is what is read.")
    if isinstance(pipe.model, EncoderDecoder):
        batches = target_batches(
            [source for source, _ in rows], [target for _, target in rows], tokens_at_once(pipe.model.config)
        )
        metrics = Translation(pipe.rules.start[0]).evaluate(pipe.model, batches, given.each)
    else:
        metrics = prefix_task(rows, pipe.tokenizer).evaluate(
            pipe.model, row_batches(*joined(rows), tokens_at_once(pipe.model.config)), given.each
        )
    written = pipe(fit.sources)
    scores = bleu_scores(written, fit.targets)
    if not scores:
        warnings.warn(MISSING, stacklevel=3)
    else:
        scores |= {"written": len(fit), "intervals": chrf_intervals(written, fit.sources, fit.targets)}
        given.baselines.append({"name": UNCHANGED, **copied_scores(fit)})
    if scores and without_spaces(fit.targets):
        warnings.warn(WITHOUT_SPACES, stacklevel=3)
    return {**metrics, **scores, "examples": len(fit)}


def _warn_of_pairs(pairs: TextPairs, name: str, given: Given) -> None:
    """Warn of what looks wrong with pairs to be measured, by themselves and beside those that were trained on."""
    for warning in pairs.warnings:
        warnings.warn(f"{name}: {warning}", stacklevel=4)
    trained = _training_table(given)
    if trained is None:
        return
    data = given.facts["data"]
    known = read_text_pairs(trained, data["text_column"], data["second_column"])
    if not given.facts.get("validation"):
        known = split_text_pairs(known, split_seed(given.before))[0]
    if exchanged_sides(known, pairs):
        warnings.warn(
            f"{name}: source and target seem to be exchanged, by the words of the training data", stacklevel=4
        )
    if both := leaks(known.sources, pairs.sources):
        said = f"{len(both):,} of {len(pairs):,} sources also occur in the training data: scores on them are too high"
        warnings.warn(said, stacklevel=4)


def _image_metrics(pipe: ImageClassifier, given: Given) -> dict[str, Any]:
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


def _warn_of_pictures(pipe: ImageClassifier, found: Decoded, given: Given) -> None:
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


def _row_metrics(pipe: Classifier, given: Given) -> dict[str, Any]:
    """Texts are cut as in training."""
    table, found = given.table("a classifier is measured on a table of texts and labels"), given.found
    columns = found.text_column or "", found.label_column or ""
    merged = recorded(given.facts)
    rows = labelled(
        table, *columns, on_bad_row=given.options.on_bad_row, to_learn=False, merging=merged, classes=pipe.labels
    )
    texts, names = rows.texts, rows.labels
    if given.same:
        texts, names = held_out_rows(rows, split_seed(given.before))
    known = None if given.same else _trained_rows(given)
    if known is not None:
        _warn_of_leaks(known[0], texts)
    strange = sorted(set(names) - set(pipe.labels))
    if strange:
        raise InputError(
            f"{table.name}: has labels the model does not know: "
            f"{', '.join(_with_nearest(label, pipe.labels) for label in strange[:5])}; "
            f"known: {', '.join(pipe.labels[:20])}{', ...' * (len(pipe.labels) > 20)}."
        )
    number = {label: i for i, label in enumerate(pipe.labels)}
    encoded = pipe.tokenizer.encode_batch(texts, special=True)
    ids = shortened(encoded, _length(pipe, given), pipe.tokenizer)
    targets, most = [number[name] for name in names], tokens_at_once(pipe.model.config)
    each: list[np.ndarray] = []
    metrics = Classification(pipe.labels).evaluate(pipe.model, row_batches(ids, targets, most), each)
    order = np.concatenate(length_batches([len(row) for row in ids], most, 0, 0))
    given.each.append(in_order(each, order))
    if known is not None and len(known[0]) <= MOST_FITTED and set(known[1]) <= set(number):
        learnt = known[0], [number[label] for label in known[1]]
        lines, _ = classification_baselines(*learnt, texts, targets, pipe.labels, given.of_baselines)
        given.baselines.extend(lines)
    return {**metrics, "examples": len(texts)}


def _with_nearest(label: str, labels: Sequence[str]) -> str:
    """A label that is not known, with the known one that is written nearly so."""
    written = {known.casefold(): known for known in labels}
    near = difflib.get_close_matches(label.casefold(), list(written), n=1, cutoff=0.75)
    return f"{label!r} (did you mean {written[near[0]]!r}?)" if near else repr(label)


def _trained_rows(given: Given) -> tuple[list[str], list[str]] | None:
    """Texts and labels that a classifier was trained on, as far as they are still there."""
    trained = _training_table(given)
    if trained is None:
        return None
    data = given.facts["data"]
    policy = given.before.get("on_bad_row") or "error"
    rows = labelled(
        trained, data["text_column"], data["label_column"], on_bad_row=policy, merging=recorded(given.facts)
    )
    held_out = [] if given.facts.get("validation") else held_out_rows(rows, split_seed(given.before))[0]
    apart = set(leaks(held_out, rows.texts))
    kept = [i for i in range(len(rows.texts)) if i not in apart]
    return [rows.texts[i] for i in kept], [rows.labels[i] for i in kept]


def _warn_of_leaks(known: list[str], texts: list[str]) -> None:
    """Warn when rows to be measured were trained on."""
    if both := leaks(known, texts):
        warnings.warn(
            f"{len(both):,} of {len(texts):,} rows also occur in the training data: scores on them are too high",
            stacklevel=4,
        )


def _training_table(given: Given) -> Table | None:
    """What the run was trained on, as far as it is a table with the columns that are recorded and is still there."""
    data = given.facts.get("data", {})
    files = data.get("inputs", [])
    if not files or "text_column" not in data or not all(Path(file).exists() for file in files):
        return None
    options = without_columns(given.options)
    if not are_aligned(files, options.task):
        options = replace(options, text_column=data["text_column"], second_column=data.get("second_column"))
    try:
        trained, _ = read_input(files, options)
    except InputError:
        return None
    return trained if isinstance(trained, Table) and trained.fingerprint == data.get("fingerprint") else None
