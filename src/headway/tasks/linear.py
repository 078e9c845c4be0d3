"""What a classifier must be ahead of: the most frequent label, and a linear model on word and character n-grams."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from headway.tasks.classification import scores

MOST_ROWS, MOST_CHARACTERS = 200_000, 20_000_000
"""What the linear model is fitted on at most: each character begins several n-grams, which are held in memory."""
ROWS_AT_ONCE = 10_000
"""Rows whose n-grams are held when the fitted model reads."""


def classification_baselines(
    train_texts: Sequence[str],
    train_targets: Sequence[int],
    texts: Sequence[str],
    targets: Sequence[int],
    labels: Sequence[str],
) -> list[dict[str, Any]]:
    """accuracy and macro_f1 of both on ``texts``; the linear model is fitted on the first rows, within its bounds."""
    most = max(1, bisect_right(list(accumulate(map(len, train_texts[:MOST_ROWS]))), MOST_CHARACTERS))
    majority = Counter(train_targets).most_common(1)[0][0]
    guesses = {
        "majority class": np.full(len(targets), majority),
        "linear model on word and character n-grams": _linear(train_texts[:most], train_targets[:most], texts),
    }
    return [{"name": name, **_score(targets, guess, labels)} for name, guess in guesses.items()]


def _linear(train_texts: Sequence[str], train_targets: Sequence[int], texts: Sequence[str]) -> np.ndarray:
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


def _score(targets: Sequence[int], guess: np.ndarray, labels: Sequence[str]) -> dict[str, float]:
    confusion = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(confusion, (np.asarray(targets), np.asarray(guess)), 1)
    found = scores(confusion, labels)
    return {"accuracy": found["accuracy"], "macro_f1": found["macro_f1"]}
