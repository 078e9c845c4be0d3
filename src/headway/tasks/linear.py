"""What a classifier must be ahead of: the most frequent label, and a linear model on word and character n-grams."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from headway.tasks.classification import scores


def classification_baselines(
    train_texts: Sequence[str],
    train_targets: Sequence[int],
    texts: Sequence[str],
    targets: Sequence[int],
    labels: Sequence[str],
    *,
    most_rows: int = 200_000,
) -> list[dict[str, Any]]:
    """accuracy and macro_f1 of both on ``texts``; the linear model reads at most ``most_rows`` rows."""
    majority = Counter(train_targets).most_common(1)[0][0]
    guesses = {
        "majority class": np.full(len(targets), majority),
        "linear model on word and character n-grams": _linear(
            train_texts[:most_rows], train_targets[:most_rows], texts
        ),
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
    return model.predict(texts)


def _score(targets: Sequence[int], guess: np.ndarray, labels: Sequence[str]) -> dict[str, float]:
    confusion = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(confusion, (np.asarray(targets), np.asarray(guess)), 1)
    found = scores(confusion, labels)
    return {"accuracy": found["accuracy"], "macro_f1": found["macro_f1"]}
