"""The profile of a run's data before its first step, by which `training.health` explains the run.

Everything is found in the ids that a batch source gives, whatever the task, in a second or so even for large data.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from headway.data.batches.batch_source import BatchSource, HeldOutText, RowBatches
from headway.data.batches.batching import TargetKind
from headway.data.batches.encoded import row_hashes
from headway.data.batches.tokens import Tokens
from headway.data.images.batch_source import ImageBatches
from headway.hub.preprocessor import ImagePreprocessor
from headway.tasks.count_baselines import ngram_baselines
from headway.text.tokenizer import Tokenizer
from headway.training.health import DataProfile

SPAN = 64
"""Tokens of held-out text that are looked for in the training text; a power of two."""
MOST_SPANS, MOST_TOKENS = 512, 1 << 25
"""Spans that are looked for, and training tokens in which they are."""
MOST_ROWS, MOST_PAIRS = 200_000, 10_000
"""Training rows whose tokens are counted, and training pairs whose co-occurring tokens are counted."""
MOST_COUNTED = 1 << 22
"""Training tokens that are counted."""
AT_ONCE = 1 << 18
"""Tokens whose spans are held at a time."""
FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""Odd, and of 64 random bits: what tokens are multiplied by to tell spans apart."""


def data_profile(
    baselines: Sequence[dict[str, Any]],
    batch_source: BatchSource,
    reader: Tokenizer | ImagePreprocessor,
    *,
    learning_rate: float = 0.0,
    pretrained: bool = False,
) -> DataProfile:
    """What the baselines say and what the data of ``batch_source`` show.

    ``pretrained`` says whether the run begins from a model that already does its task.
    """
    losses = {line["name"]: line["val_loss"] for line in baselines if isinstance(line.get("val_loss"), float)}
    majority = next((line for line in baselines if line["name"] == "majority class"), {})
    linear = next((line for line in baselines if str(line["name"]).startswith("linear model")), {})
    found: dict[str, Any] = {
        "learning_rate": learning_rate,
        "pretrained": pretrained,
        "uniform": losses.get("uniform (ln V)"),
        "chance": losses.get("unigram"),
        "simple": losses.get("bigram"),
        "majority": majority.get("accuracy"),
        "majority_f1": majority.get("macro_f1"),
        "linear": linear.get("accuracy"),
    }
    if isinstance(batch_source, ImageBatches):
        found |= _of_images(batch_source)
    elif isinstance(batch_source, HeldOutText) and isinstance(reader, Tokenizer):
        found |= _of_text(batch_source, reader, with_bigrams="bigram" not in losses)
    elif isinstance(batch_source, RowBatches) and isinstance(reader, Tokenizer):
        found |= _of_rows(batch_source, reader)
    return DataProfile(**found)


def _of_text(batch_source: HeldOutText, tokenizer: Tokenizer, *, with_bigrams: bool) -> dict[str, Any]:
    train, held_out = batch_source.sample, batch_source.held_out
    found: dict[str, Any] = {"examples": max(0, len(held_out) - 1), "leaked": repeated(train, held_out)}
    if tokenizer.unknown is not None:
        found["unknown"] = float((_counted(train) == tokenizer.unknown).mean())
    if with_bigrams:  # compared with unigrams of the same tokens, all of which count here
        found["simple"] = _bigrams(train, held_out, tokenizer.vocab_size)
    return found


def _of_rows(batch_source: RowBatches, tokenizer: Tokenizer) -> dict[str, Any]:
    train, held = batch_source.train, batch_source.held_out
    inputs, held_out = train.ids, held.ids
    unknown, rows = tokenizer.unknown, row_hashes(inputs)
    frame = tokenizer.special_ids - {unknown}
    told = np.fromiter((unknown not in row for row in held_out), bool)  # else equal ids are not equal texts
    found = _of_copies(rows, row_hashes(held_out)[told], len(held_out))
    if unknown is not None:
        tokens = Counter(token for row in _shuffled(inputs) for token in row if token not in frame)
        found["unknown"] = tokens[unknown] / max(1, tokens.total())
    if train.kind is TargetKind.SEQUENCE:
        written, wanted = train.targets, held.targets
        found["one_target"] = _most_frequent(row_hashes(written))
        found["simple"] = _bigrams(_joined(written), _joined(wanted), tokenizer.target.vocab_size)
        found["paired"] = fitting_pairs(
            *(list(_shuffled(part, MOST_PAIRS)) for part in (inputs, written)),
            *(list(_shuffled(part, MOST_SPANS)) for part in (held_out, wanted)),
        )
    elif train.kind is TargetKind.ROW and len(held_out) and isinstance(train.targets[0], int | np.integer):
        found |= _of_classes(train.targets, held.targets)
    return found


def _of_classes(train: Sequence[int], held_out: Sequence[int]) -> dict[str, Any]:
    """How even the classes are, and the held-out loss of guessing by their frequencies."""
    known, others = np.asarray(train), np.asarray(held_out)
    counts = np.bincount(known, minlength=int(others.max(initial=0)) + 1)
    chances = (counts[others] + 1) / (len(known) + np.count_nonzero(counts))
    return {"one_target": _most_frequent(known), "chance": float(-np.log(chances).mean())}


def _of_images(batch_source: ImageBatches) -> dict[str, Any]:
    train, held_out = (
        np.array([hash(image.tobytes()) for image in images]) for images in (batch_source.train, batch_source.held_out)
    )
    found = _of_copies(train, held_out, len(held_out))
    return found | _of_classes(batch_source.train_targets, batch_source.held_out_targets)  # type: ignore[arg-type]


def _of_copies(train: np.ndarray, told: np.ndarray, count: int) -> dict[str, Any]:
    """How many of ``count`` held-out rows are in training, where they can be told apart; rows by their hashes."""
    leaked = int(np.isin(told, train).sum()) / max(1, count)
    return {"examples": count, "leaked": leaked, "alike": _most_frequent(train)}


def _joined(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """The tokens of some rows, one after another."""
    tokens = (token for row in _shuffled(rows) for token in row)
    return np.fromiter(islice(tokens, MOST_COUNTED), dtype=np.int64)


def _bigrams(train: Tokens, held_out: Tokens, vocab_size: int) -> float | None:
    """The held-out loss of bigrams; None where there is no target."""
    lines = ngram_baselines(_counted(train), held_out, vocab_size)
    return lines[-1]["val_loss"] if len(lines) > 1 else None


def _shuffled(rows: Sequence[Any], most: int = MOST_ROWS) -> Iterator[Any]:
    """At most so many rows, in an order that is drawn at random and the same for as many rows."""
    return (rows[i] for i in np.random.default_rng(0).permutation(len(rows))[:most].tolist())


def _counted(train: Tokens) -> np.ndarray:
    """At most MOST_COUNTED tokens of a text, in spans that are spread over it evenly."""
    if len(train) <= MOST_COUNTED:
        return np.asarray(train[:])
    starts = np.linspace(0, len(train) - AT_ONCE, MOST_COUNTED // AT_ONCE).astype(np.int64)
    return np.concatenate([np.asarray(train[start : start + AT_ONCE]) for start in starts.tolist()])


def _most_frequent(values: np.ndarray) -> float:
    """The share of the most frequent value."""
    return int(np.unique(values, return_counts=True)[1].max()) / len(values) if len(values) else 0.0


def repeated(train: Tokens, held_out: Tokens) -> float:
    """The share of the spans of ``held_out``, of SPAN tokens each, that occur in ``train``; 0 where there is no span.

    At most MOST_SPANS are looked for in MOST_TOKENS of ``train``, both evenly spread.
    """
    count = len(held_out) // SPAN
    if not count:
        return 0.0
    chosen = np.unique(np.linspace(0, count - 1, min(count, MOST_SPANS)).astype(np.int64)) * SPAN
    numbers = [_span_numbers(np.asarray(held_out[at : at + SPAN]))[0] for at in chosen]
    wanted, times = np.unique(np.array(numbers), return_counts=True)
    seen = np.zeros(len(wanted), dtype=bool)
    starts = np.arange(0, len(train) - SPAN + 1, AT_ONCE)
    for start in starts[:: max(1, -(-len(train) // MOST_TOKENS))].tolist():
        found = _span_numbers(np.asarray(train[start : start + AT_ONCE + SPAN - 1]))
        place = np.searchsorted(wanted, found).clip(max=len(wanted) - 1)  # much faster than np.isin, which hashes
        seen[place[wanted[place] == found]] = True
    return float(times[seen].sum() / times.sum())


def _span_numbers(tokens: np.ndarray) -> np.ndarray:
    """A number for each span of SPAN tokens, uint64 (N - SPAN + 1,): equal spans have equal ones."""
    numbers, length, factor = tokens.astype(np.uint64) + np.uint64(1), 1, FACTOR
    while length < SPAN:  # that of two halves is the first plus the second times a power of FACTOR
        numbers = numbers[:-length] + numbers[length:] * factor
        length, factor = 2 * length, np.uint64(int(factor) ** 2 % (1 << 64))
    return numbers


def fitting_pairs(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    held_out: Sequence[Sequence[int]],
    held_out_targets: Sequence[Sequence[int]],
) -> float | None:
    """How often a held-out target fits its source better than the next one's target does, ties as a half.

    The score of a target is the mean over its tokens of how much more often than by chance each occurs with a token of
    the source in training, for the best such token.  Where sources and targets have nothing to do with each
    other, a half is to be expected.  None where no two neighbours differ.
    """
    from scipy.sparse import csr_matrix

    def presence(rows: Sequence[Sequence[int]]) -> Any:
        """Which tokens each of the first rows has, (N, V) of 0 and 1."""
        kept = [sorted(set(row)) for row in rows[:MOST_PAIRS]]
        ends = np.cumsum([0, *map(len, kept)])
        columns = np.array([token for row in kept for token in row], dtype=np.int64)
        return csr_matrix((np.ones(len(columns), dtype=np.float32), columns, ends), shape=(len(kept), width))

    width = 1 + max(
        (token for part in (sources, targets, held_out, held_out_targets) for row in part for token in row), default=0
    )
    one, other = presence(sources), presence(targets)
    both = (one.T @ other).tocsr()
    n_one, n_other = (np.asarray(part.sum(axis=0)).ravel() for part in (one, other))

    def fit(source: list[int], target: list[int]) -> float:
        expected = np.outer(n_one[source], n_other[target]) / max(1, one.shape[0])
        return float(np.log((both[source][:, target].toarray() + 1) / (expected + 1)).max(axis=0).mean())

    won: list[float] = []
    count = min(len(held_out), MOST_SPANS)
    for i in range(count):
        source, mine, others = (
            sorted(set(row)) for row in (held_out[i], held_out_targets[i], held_out_targets[(i + 1) % count])
        )
        if mine != others and source and mine and others:
            own, next_one = fit(source, mine), fit(source, others)
            won.append(0.5 if own == next_one else float(own > next_one))
    return float(np.mean(won)) if won else None
