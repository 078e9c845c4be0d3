"""From the user's files to everything a run needs before its size is decided."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headway.data.cache import cache_directory, cache_key, tokenised
from headway.data.corpus import Corpus
from headway.data.detect import Detected, detect
from headway.data.labels import Labelled, check_labels, labelled, leaks
from headway.data.read import read, text_corpus
from headway.data.split import split_indices, split_text
from headway.data.table import Table
from headway.errors import InputError
from headway.tasks.linear import classification_baselines
from headway.tasks.ngram import ngram_baselines
from headway.text.tokenizer import Tokenizer
from headway.text.train import train_tokenizer
from headway.training.config import TrainOptions

HELD_OUT = 0.1
"""The share of the data that is held out when no validation file is given."""


@dataclass
class TextData:
    """Running text as tokens."""

    tokenizer: Tokenizer
    train: np.ndarray
    validation: np.ndarray
    bytes_per_token: float
    facts: dict[str, Any]
    baselines: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class RowData:
    """Texts with labels, as tokens."""

    tokenizer: Tokenizer
    labels: list[str]
    train: list[list[int]]
    train_targets: list[int]
    validation: list[list[int]]
    validation_targets: list[int]
    longest: int
    facts: dict[str, Any]
    baselines: list[dict[str, Any]] = field(default_factory=list)


def read_input(inputs: Sequence[str | Path], options: TrainOptions) -> tuple[Corpus | Table, Detected]:
    """The files, and what they are for.  Raises InputError for anything that cannot be used."""
    source = read(inputs, encoding=options.encoding, delimiter=options.delimiter, on_bad_row=options.on_bad_row)
    found = detect(source, text_column=options.text_column, label_column=options.label_column, task=options.task)
    if isinstance(source, Table) and found.task == "language_modeling":
        source = text_corpus(
            source,
            found.text_column or "",
            encoding=options.encoding,
            delimiter=options.delimiter,
            on_bad_row=options.on_bad_row,
        )
    return source, found


# -- language modelling ------------------------------------------------------------------------------------------------


def text_parts(
    corpus: Corpus, held_out: Corpus | None
) -> tuple[Iterable[tuple[str, bool]], Iterable[tuple[str, bool]]]:
    """Training and validation text as chunks that can be read again and again."""
    if held_out is None:
        return split_text(corpus, HELD_OUT)
    return _Chunks(corpus), _Chunks(held_out)


class _Chunks:
    def __init__(self, corpus: Corpus):
        self.corpus = corpus

    def __iter__(self) -> Iterator[tuple[str, bool]]:
        return self.corpus.chunks()


def prepare_text(
    corpus: Corpus,
    held_out: Corpus | None,
    options: TrainOptions,
    tokenizer: Tokenizer | None,
    say: Callable[[str], None],
) -> TextData:
    """Tokenise running text, training the tokenizer unless one is given (that of a run taken up again)."""
    train_text, validation_text = text_parts(corpus, held_out)
    if tokenizer is None:
        tokenizer = _text_tokenizer(corpus, train_text, options)
        if tokenizer.sampled:
            say(f"the tokenizer was trained on the first {tokenizer.trained_on_characters:,} characters")
    train = encode_text(train_text, tokenizer, corpus.fingerprint, "train")
    held_out_print = corpus.fingerprint if held_out is None else held_out.fingerprint
    validation = encode_text(validation_text, tokenizer, held_out_print, "validation" if held_out is None else "all")
    n_bytes = sum(len(text.encode("utf-8", "surrogatepass")) for text, _ in validation_text)
    facts = {
        "inputs": [str(path) for path in corpus.paths],
        "fingerprint": corpus.fingerprint,
        "documents": corpus.n_documents,
        "train": f"{len(train):,} tokens",
        "validation": f"{len(validation):,} tokens"
        + (" (the last 10 % of the text)" if held_out is None else f" ({', '.join(map(str, held_out.paths))})"),
        "warnings": [f"{corpus.n_empty} empty documents were left out"] if corpus.n_empty else [],
    }
    return TextData(
        tokenizer,
        train,
        validation,
        bytes_per_token=n_bytes / max(1, len(validation)),
        facts=facts,
        baselines=ngram_baselines(train, validation, tokenizer.vocab_size),
    )


def encode_text(chunks: Iterable[tuple[str, bool]], tokenizer: Tokenizer, fingerprint: str, part: str) -> np.ndarray:
    """Tokens of running text, mapped from the cache."""
    return tokenised(
        chunks,
        tokenizer.encode_batch,
        end_of_text=tokenizer.end_of_text,
        vocab_size=tokenizer.vocab_size,
        key=cache_key(fingerprint, tokenizer.to_json(), part, HELD_OUT),
        directory=cache_directory(),
    )


def _text_tokenizer(corpus: Corpus, train_text: Iterable[tuple[str, bool]], options: TrainOptions) -> Tokenizer:
    kind = options.tokenizer or "bpe"
    if kind == "wordpiece":
        raise InputError("--tokenizer wordpiece does not keep spaces; for running text use bpe, word or char.")
    vocab = options.vocab
    if vocab is None and kind == "bpe":
        vocab = bpe_size(corpus.n_characters)
    source = corpus.chunks() if kind == "char" else train_text  # every character of the text, also of the held-out part
    return train_tokenizer((text for text, _ in source), kind, vocab, role="decoder")


def bpe_size(n_characters: int) -> int:
    """How many subwords a text of that length supports: about one for each 1,000 characters, 512 to 16,384."""
    size = 512
    while size < 16384 and size * 1500 < n_characters:
        size *= 2
    return size


# -- classification ----------------------------------------------------------------------------------------------------


def prepare_rows(
    table: Table, found: Detected, held_out: Table | None, options: TrainOptions, tokenizer: Tokenizer | None
) -> RowData:
    """Split, tokenise and check texts with labels, training the tokenizer unless one is given."""
    text_column, label_column = found.text_column or "", found.label_column or ""
    rows = labelled(table, text_column, label_column, on_bad_row=options.on_bad_row)
    warnings = list(rows.warnings)
    if held_out is not None:
        other = labelled(held_out, text_column, label_column, on_bad_row=options.on_bad_row)
        check_labels(rows.labels, other, other.name)
        both = leaks(rows.texts, other.texts)
        if both:
            share = len(both) / len(other.texts)
            warnings.append(
                f"{len(both):,} of {len(other.texts):,} validation rows ({share:.0%}) also occur in training: "
                "scores on them will be too high"
            )
        train_texts, train_labels = rows.texts, rows.labels
        texts, names = other.texts, other.labels
    else:
        train_index, _ = split_indices(rows.texts, rows.labels, HELD_OUT, options.seed)
        train_texts, train_labels = _pick(rows, train_index)
        texts, names = held_out_rows(rows, options.seed)
    labels = rows.classes
    number = {label: i for i, label in enumerate(labels)}
    train_targets, targets = [number[label] for label in train_labels], [number[label] for label in names]
    if tokenizer is None:
        tokenizer = _row_tokenizer(train_texts, options)
    train, validation = (tokenizer.encode_batch(part, special=True) for part in (train_texts, texts))
    longest = options.length or _longest([len(ids) for ids in train])
    cut = sum(len(ids) > longest for ids in train)
    if cut:
        lost = sum(max(0, len(ids) - longest) for ids in train) / sum(map(len, train))
        warnings.append(f"{cut:,} texts exceed {longest} tokens and are cut in training ({lost:.1%} of all tokens)")
    counts = Counter(rows.labels)
    facts = {
        "inputs": [str(path) for path in table.paths],
        "fingerprint": table.fingerprint,
        "text_column": text_column,
        "label_column": label_column,
        "classes": {label: counts[label] for label in labels},
        "train": f"{len(train):,} rows",
        "validation": f"{len(validation):,} rows"
        + (" (10 %, classes kept, duplicates on one side)" if held_out is None else f" ({held_out.name})"),
        "warnings": warnings,
    }
    return RowData(
        tokenizer,
        labels,
        [ids[:longest] for ids in train],
        train_targets,
        [ids[:longest] for ids in validation],
        targets,
        longest,
        facts,
        classification_baselines(train_texts, train_targets, texts, targets, labels),
    )


def held_out_rows(rows: Labelled, seed: int) -> tuple[list[str], list[str]]:
    """Texts and labels of the rows that a run with this seed holds out."""
    return _pick(rows, split_indices(rows.texts, rows.labels, HELD_OUT, seed)[1])


def _pick(rows: Labelled, index: np.ndarray) -> tuple[list[str], list[str]]:
    return [rows.texts[i] for i in index], [rows.labels[i] for i in index]


def _row_tokenizer(texts: Sequence[str], options: TrainOptions) -> Tokenizer:
    kind = options.tokenizer or "word"
    vocab = options.vocab
    if vocab is None and kind == "word":
        counts = Counter(word for text in texts for word in set(re.findall(r"\w+|[^\w\s]", text.lower())))
        vocab = 5 + max(2, min(30_000, sum(n >= 2 for n in counts.values())))  # words of one text teach nothing
    return train_tokenizer(texts, kind, vocab, role="encoder")


def _longest(lengths: list[int]) -> int:
    """A length that holds nearly every text: 1.5 × the 99th percentile, a multiple of 16, at most 512."""
    return int(min(512, max(32, -(-1.5 * np.percentile(lengths, 99) // 16) * 16)))
