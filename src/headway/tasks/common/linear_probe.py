"""A linear classifier on the vectors of a pretrained encoder that stays as it is: for few labelled rows.

The vectors are those after two thirds of the blocks, pooled by their mean and brought to one length: the last blocks of
a published encoder serve what it was trained for, the middle ones serve other tasks better.  Where the labels are
words, they are examples too: a few plain sentences with the label in them ("this is positive") join the rows.  The
classifier is multinomial logistic regression, fitted on exactly what the last matrix of the family's own classifier
reads (``hub.mean_pooling``).
"""

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.data.batches.batching import length_batches, pad
from headway.data.batches.encoded import Rows, row_lengths
from headway.hub.mean_pooling import shift_of
from headway.models.transformer import Encoder
from headway.text.tokenizer import Tokenizer

FEW_ROWS = 100
"""Classes with fewer rows than this, on average, make ``train --from`` choose this way by itself.  Measured at 8 and 64
rows for each class; where tuning the whole model overtakes it was not."""
DEPTH = 2 / 3
"""The share of the blocks that is kept."""
TEMPLATES = ("{}", "this is {}", "it was {}", "a {} text", "This text is {}.", "This sentence is {}.")
LABEL_WEIGHT = 16.0
"""How many rows the sentences of one label count for together."""
TOGETHER = 64
"""Rows that are read between two looks at the clock."""
INVERSE_PENALTY = 3.0
"""scikit-learn's C: chosen with ``LABEL_WEIGHT`` on rows of the customer reviews' training file."""


def kept_blocks(n_layers: int) -> int:
    """How many of an encoder's blocks are used."""
    return max(1, round(n_layers * DEPTH))


def with_label_rows(
    tokenizer: Tokenizer, labels: Sequence[str], rows: Sequence[list[int]], targets: np.ndarray
) -> tuple["Joined", np.ndarray]:
    """Rows of ids and their classes, followed by those of the sentences that are made of the labels."""
    texts, classes = label_texts(labels)
    made = tokenizer.encode_batch(texts, special=True)
    return Joined(rows, made), np.concatenate([targets, np.array(classes, dtype=np.int64)])


class Joined(Rows):
    """Rows of ids, and after them others."""

    def __init__(self, first: Sequence[list[int]], second: Sequence[list[int]]):
        self.first, self.second = first, second

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    @property
    def lengths(self) -> np.ndarray:
        return np.concatenate([row_lengths(self.first), row_lengths(self.second)])

    def row(self, at: int) -> list[int]:
        return self.first[at] if at < len(self.first) else self.second[at - len(self.first)]


def fit_frozen(
    model: Encoder,
    rows: Sequence[list[int]],
    targets: Sequence[int] | np.ndarray,
    n_rows: int,
    *,
    seed: int = 0,
    weights: Tensor | None = None,
    seconds: float | None = None,
) -> int:
    """Fit the last matrix of a classifier that reads the mean of a model's vectors, in place.

    ``rows`` are ids and ``targets`` classes; the first ``n_rows`` are data, the others made of labels.  ``weights``
    (C,) are what a row of each class counts.  Rows are read in an order that the seed draws, as many as ``seconds``
    are enough for: returns how many of the data that were.
    """
    classes = np.asarray(targets)
    order, needed = _reading_order(classes, n_rows, seed)
    began, read = time.monotonic(), needed
    parts = [vectors(model, [rows[i] for i in order[:needed]])]
    used = took = time.monotonic() - began
    while read < len(order) and (seconds is None or used + took < seconds):
        part = order[read : read + TOGETHER]
        parts.append(vectors(model, [rows[i] for i in part]))
        read += len(part)
        used, took = time.monotonic() - began, time.monotonic() - began - used
    known = order[:read]
    head: Any = model.head
    x, length = _readings(model, np.concatenate(parts))
    fitted = _logistic(x, classes[known], known < n_rows, weights)
    matrix = fitted.coef_ / length
    bias = fitted.intercept_ - shift_of(head) * matrix.sum(axis=1)
    if len(matrix) == 1:  # one logit for both classes: half of it for each gives the same probabilities
        matrix, bias = np.concatenate([-matrix, matrix]) / 2, np.concatenate([-bias, bias]) / 2
    with torch.no_grad():
        head.out.weight.copy_(torch.from_numpy(matrix))
        head.out.bias.copy_(torch.from_numpy(bias))
    return int((known < n_rows).sum())


def _readings(model: Encoder, read: np.ndarray) -> tuple[np.ndarray, float]:
    """What the last matrix reads (N, D), without its head's shift and of length 1 on average, and that length."""
    head: Any = model.head
    x = read - shift_of(head)
    length = float(np.linalg.norm(x, axis=1).mean())
    return x / length, length


def _logistic(x: np.ndarray, y: np.ndarray, is_data: np.ndarray, weights: Tensor | None) -> Any:
    """Logistic regression on vectors (N, D) of rows and, where ``is_data`` is false, of sentences made of labels."""
    from sklearn.linear_model import LogisticRegression

    counts = np.where(is_data, 1.0, LABEL_WEIGHT / len(TEMPLATES))
    if weights is not None:
        counts *= weights.numpy()[y]
    return LogisticRegression(C=INVERSE_PENALTY, max_iter=1000).fit(x, y, sample_weight=counts)


def guess_by_vectors(
    model: Encoder, rows: Sequence[list[int]], targets: np.ndarray, n_rows: int, weights: Tensor | None = None
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """What gives some rows their classes when the classifier is fitted on others, by the vectors as they are now.

    ``rows`` and ``targets`` are those of ``fit_frozen``; every fit has the sentences made of labels too.
    """
    (x, _), y = _readings(model, vectors(model, rows)), targets
    made = np.arange(n_rows, len(rows))

    def guess(train: np.ndarray, rest: np.ndarray) -> np.ndarray:
        known = np.concatenate([train, made])
        return _logistic(x[known], y[known], known < n_rows, weights).predict(x[rest])

    return guess


def _reading_order(targets: np.ndarray, n_rows: int, seed: int) -> tuple[np.ndarray, int]:
    """All rows in the order in which they are read, and how many must be: one of each class, and the labels' own."""
    drawn = np.random.default_rng(seed).permutation(n_rows)
    first = np.unique(targets[drawn], return_index=True)[1]
    made = np.arange(n_rows, len(targets))
    return np.concatenate([made, drawn[first], np.delete(drawn, first)]), len(made) + len(first)


def label_texts(labels: Sequence[str]) -> tuple[list[str], list[int]]:
    """Sentences with each label in them, and their classes; none unless every label has a word in it."""
    words = [" ".join(re.findall(r"[^\W\d_]+", label)).lower() for label in labels]
    if any(len(word) < 3 or word.startswith("label") for word in words) or len(set(words)) < len(words):
        return [], []
    return [t.format(word) for word in words for t in TEMPLATES], [i for i in range(len(words)) for _ in TEMPLATES]


@torch.no_grad()
def vectors(model: Encoder, rows: Sequence[list[int]], batch_tokens: int = 2048) -> np.ndarray:
    """What the last matrix of a classifier reads of each row of ids: (N, D) float32."""
    model.eval()
    head: Any = model.head
    device = next(model.parameters()).device
    found = np.zeros((len(rows), model.config.d_model), dtype=np.float32)
    for index in length_batches(row_lengths(rows), batch_tokens, 0, 0):
        ids, mask = pad([rows[i] for i in index])
        ids, mask = ids.to(device), mask.to(device)
        found[index] = head.vector(model.stack(ids, mask), mask).cpu().numpy()
    return found
