"""The baselines that a classifier must beat: the most frequent label, and a linear model on n-grams, or on pixels."""

import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from headway.tasks.classification import scores

MOST_ROWS, MOST_CHARACTERS = 200_000, 20_000_000
"""What the linear model is fitted on at most: each character begins several n-grams, which are held in memory."""
MOST_PICTURES, SIDE, LINEAR_C = 5_000, 32, 0.1
"""Pictures that the linear model is fitted on at most, the longest side that it reads, and what weighs its errors."""
ROWS_AT_ONCE = 10_000
"""Rows whose n-grams are held when the fitted model reads."""


def classification_baselines(
    train_texts: Sequence[str],
    train_targets: Sequence[int],
    texts: Sequence[str],
    targets: Sequence[int],
    labels: Sequence[str],
    each: dict[str, np.ndarray] | None = None,
) -> list[dict[str, Any]]:
    """accuracy and macro_f1 of both on ``texts``; the linear model is fitted on the first rows, within its bounds.

    ``each`` is given (predicted, true) class of every row by the name of the baseline, (N, 2).
    """
    most = max(1, bisect_right(list(accumulate(map(len, train_texts[:MOST_ROWS]))), MOST_CHARACTERS))
    majority = Counter(train_targets).most_common(1)[0][0]
    guesses = {
        "majority class": np.full(len(targets), majority),
        "linear model on word and character n-grams": linear_guess(train_texts[:most], train_targets[:most], texts),
    }
    return _scored(guesses, targets, labels, each)


def picture_baselines(
    train: np.ndarray,
    train_targets: Sequence[int],
    pictures: np.ndarray,
    targets: Sequence[int],
    labels: Sequence[str],
    each: dict[str, np.ndarray] | None = None,
) -> list[dict[str, Any]]:
    """accuracy and macro_f1 of both on ``pictures`` (N, H, W, C); the linear model reads pixels, shrunk where many.

    ``each`` is given (predicted, true) class of every picture by the name of the baseline, (N, 2).
    """
    majority = Counter(train_targets).most_common(1)[0][0]
    guesses = {
        "majority class": np.full(len(targets), majority),
        "linear model on pixels": _on_pixels(train[:MOST_PICTURES], train_targets[:MOST_PICTURES], pictures),
    }
    return _scored(guesses, targets, labels, each)


def _on_pixels(train: np.ndarray, train_targets: Sequence[int], pictures: np.ndarray) -> np.ndarray:
    """Predicted classes (N,) of logistic regression on pixels, each brought to mean 0 and deviation 1."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if len(set(train_targets)) < 2:
        return np.full(len(pictures), train_targets[0])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=LINEAR_C, max_iter=200, tol=1e-3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it could be fitted longer
        model.fit(_flat(train), train_targets)
    return model.predict(_flat(pictures))


def _flat(pictures: np.ndarray) -> np.ndarray:
    """(N, H, W, C) -> (N, F) float32: every n-th row and column the mean of n, so that sides have at most SIDE."""
    _, height, width, channels = pictures.shape
    step = -(-max(height, width) // SIDE)
    rows, columns = max(1, height // step), max(1, width // step)
    part = pictures[:, : rows * min(step, height), : columns * min(step, width)].astype(np.float32)
    if step > 1:
        part = part.reshape(len(part), rows, -1, columns, part.shape[2] // columns, channels).mean(axis=(2, 4))
    if channels == 3 and bool((part == part[..., :1]).all()):
        part = part[..., :1]  # grey
    return part.reshape(len(part), -1)


def linear_guess(train_texts: Sequence[str], train_targets: Sequence[int], texts: Sequence[str]) -> np.ndarray:
    """Predicted classes (N,) of a linear support vector machine on TF-IDF of word 1-2-grams and character 2-5-grams."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.svm import LinearSVC

    features = make_union(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\S+"),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True),
    )
    model = make_pipeline(features, LinearSVC(C=0.3))
    try:
        model.fit(train_texts, train_targets)
    except ValueError:  # no n-gram in any text
        return np.full(len(texts), Counter(train_targets).most_common(1)[0][0])
    return np.concatenate([model.predict(texts[i : i + ROWS_AT_ONCE]) for i in range(0, len(texts), ROWS_AT_ONCE)])


def _scored(
    guesses: dict[str, np.ndarray],
    targets: Sequence[int],
    labels: Sequence[str],
    each: dict[str, np.ndarray] | None,
) -> list[dict[str, Any]]:
    """The line of each baseline, by what it guesses."""
    if each is not None:
        each |= {name: np.stack([guess, targets], axis=1).astype(np.float64) for name, guess in guesses.items()}
    return [{"name": name, **_score(targets, guess, labels)} for name, guess in guesses.items()]


def _score(targets: Sequence[int], guess: np.ndarray, labels: Sequence[str]) -> dict[str, float]:
    confusion = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(confusion, (np.asarray(targets), np.asarray(guess)), 1)
    found = scores(confusion, labels)
    return {"accuracy": found["accuracy"], "macro_f1": found["macro_f1"]}
