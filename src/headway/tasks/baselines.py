"""The baselines of rows: the most frequent label, and a linear model on n-grams, or on pixels."""

import warnings
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from headway.data.images.batch_source import Pixels
from headway.data.records.split import drawn, drawn_within
from headway.data.records.text_rows import TextRows
from headway.tasks.losses import scores

MOST_CHARACTERS = 2_000_000
"""Characters that the linear model is fitted on at most: each begins about four n-grams, of 30 to 100 bytes each."""
MOST_WORK = 500_000_000
"""N-grams in the rows, times classes, at most: each class is fitted separately, which reads all of them."""
MOST_WEIGHTS = 10_000_000
"""Features times classes at most: rarer n-grams are left out.  The weights, and copies of them, are held in memory."""
ENTRIES = 4.4
"""N-grams for each character of a text, about."""
LEAST_EACH = 5
"""Rows for each class: a sample with fewer says little, so the linear model is left out."""
MOST_IMAGES, SIDE, LINEAR_C = 5_000, 32, 0.1
"""Images that the linear model is fitted on at most, the longest side that it reads, and what weighs its errors."""
AT_ONCE = 256
"""Images that the fitted model reads at a time."""
SVM_C = 0.3
"""What weighs the errors of the linear model."""
LINEAR = "linear model on word and character n-grams"
"""The name of the strongest of the simple baselines of texts."""
ROWS_AT_ONCE = 2_000
"""Rows whose n-grams are held when the fitted model reads."""


def classification_baselines(
    train: TextRows,
    train_targets: Sequence[int] | np.ndarray,
    rows: TextRows,
    targets: Sequence[int] | np.ndarray,
    labels: Sequence[str],
    each: dict[str, np.ndarray] | None = None,
) -> tuple[list[dict[str, Any]], str]:
    """accuracy and macro_f1 of both on ``rows``, and a line where the linear model is not fitted on all rows.

    Classes, features and rows together decide what it costs: of many rows it reads a sample, and where even that is too
    much there is no linear model.  ``each`` is given (predicted, true) class of every row by the name of the baseline,
    (N, 2).
    """
    sample, said = fitted_rows(train.lengths, len(np.unique(train_targets)))
    known = list(train.part(sample)), [int(train_targets[i]) for i in sample]
    linear = {LINEAR: linear_guess(*known, rows)} if len(sample) else {}
    return _scored(linear, train_targets, targets, labels, each), said


def most_frequent(targets: Sequence[int] | np.ndarray) -> int:
    """The class that most rows have, of equally frequent ones the first by number, whatever the order of the rows."""
    return int(np.bincount(targets).argmax())


def fitted_rows(lengths: np.ndarray, classes: int) -> tuple[np.ndarray, str]:
    """The numbers of the rows that a linear model of so many classes is fitted on, and a line unless those are all.

    ``lengths`` are those of the texts in characters.
    """
    most = min(MOST_CHARACTERS, int(MOST_WORK / ENTRIES / max(1, classes)))
    count = len(lengths)
    if not count or (lengths.sum(dtype=np.int64) <= most and classes * 1000 <= MOST_WEIGHTS):
        return np.arange(count), ""
    rows = drawn_within(lengths, most)
    if len(rows) < max(1, LEAST_EACH * classes):
        return rows[:0], f"the linear baseline is left out: {classes:,} classes in {count:,} rows take too long"
    return rows, fitted_on_some(len(rows), count, "rows")


def image_baselines(
    train: Pixels | np.ndarray,
    train_targets: Sequence[int] | np.ndarray,
    images: Pixels | np.ndarray,
    targets: Sequence[int] | np.ndarray,
    labels: Sequence[str],
    each: dict[str, np.ndarray] | None = None,
) -> tuple[list[dict[str, Any]], str]:
    """accuracy and macro_f1 of both on ``images`` (N, H, W, C), and a line where the linear model reads a sample.

    It reads pixels, shrunk where many.  ``each`` is given (predicted, true) class of every image by the name of the
    baseline, (N, 2).
    """
    sample = drawn(len(train), MOST_IMAGES)
    linear = {"linear model on pixels": _on_pixels(train[sample], np.asarray(train_targets)[sample], images)}
    said = fitted_on_some(len(sample), len(train), "images")
    return _scored(linear, train_targets, targets, labels, each), said


def fitted_on_some(read: int, count: int, what: str, name: str = "linear") -> str:
    """A line about a baseline that reads a sample of the training data, if it does."""
    return f"the {name} baseline is fitted on {read:,} of {count:,} {what}, drawn at random" if read < count else ""


def _on_pixels(train: np.ndarray, train_targets: Sequence[int] | np.ndarray, images: Pixels | np.ndarray) -> np.ndarray:
    """Predicted classes (N,) of logistic regression on pixels, each brought to mean 0 and deviation 1."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if len(np.unique(train_targets)) < 2:
        return np.full(len(images), train_targets[0])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=LINEAR_C, max_iter=200, tol=1e-3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it could be fitted longer
        x = _flat(train)
        model.fit(x, train_targets)
    parts = (_shrunk(images[at : at + AT_ONCE]) for at in range(0, len(images), AT_ONCE))
    one_channel = x.shape[1] < _shrunk(train[:1]).size  # grey
    return np.concatenate(
        [model.predict((part[..., :1] if one_channel else part).reshape(len(part), -1)) for part in parts]
    )


def _flat(images: np.ndarray) -> np.ndarray:
    """(N, H, W, C) -> (N, F) float32, shrunk; of grey images a single channel."""
    part = _shrunk(images)
    if part.shape[3] == 3 and bool((part == part[..., :1]).all()):
        part = part[..., :1]
    return part.reshape(len(part), -1)


def _shrunk(images: np.ndarray) -> np.ndarray:
    """Images as float32: every n-th row and column the mean of n, so that sides have at most SIDE."""
    _, height, width, channels = images.shape
    step = -(-max(height, width) // SIDE)
    rows, columns = max(1, height // step), max(1, width // step)
    part = images[:, : rows * min(step, height), : columns * min(step, width)].astype(np.float32)
    if step > 1:
        part = part.reshape(len(part), rows, -1, columns, part.shape[2] // columns, channels).mean(axis=(2, 4))
    return part


def linear_guess(
    train_texts: Sequence[str], train_targets: Sequence[int], texts: Sequence[str] | TextRows
) -> np.ndarray:
    """Predicted classes (N,) of a linear support vector machine on TF-IDF of word 1-2-grams and character 2-5-grams.

    Of texts without any n-gram, and of a single class, there is nothing to fit: all are the most frequent class.
    """
    from sklearn.svm import LinearSVC

    model, usual = LinearSVC(C=SVM_C), most_frequent(train_targets)
    return _by_ngrams(model, "predict", len(set(train_targets)), train_texts, train_targets, texts, usual)


def linear_margins(
    train_texts: Sequence[str], train_targets: np.ndarray, texts: Sequence[str] | TextRows
) -> np.ndarray:
    """How far each text is on a label's side of such a model, one for each label (N, C); the targets are 0 or 1.

    Of texts without any n-gram there is nothing to fit: all are as far as there are texts with the label.
    """
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import LinearSVC

    model, usual = OneVsRestClassifier(LinearSVC(C=SVM_C)), train_targets.mean(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of labels that all of these texts have, or none
        return _by_ngrams(model, "decision_function", len(usual), train_texts, train_targets, texts, usual)


def linear_numbers(
    train_texts: Sequence[str], train_targets: np.ndarray, texts: Sequence[str] | TextRows
) -> np.ndarray:
    """Numbers (N,) by ridge regression on the same n-grams; without any n-gram the mean of the targets."""
    from sklearn.linear_model import Ridge

    return _by_ngrams(Ridge(), "predict", 1, train_texts, train_targets, texts, train_targets.mean())


def _by_ngrams(
    model: Any, read: str, classes: int, train_texts: Any, train_targets: Any, texts: Any, usual: Any
) -> np.ndarray:
    """What a linear model on TF-IDF of n-grams ``read``s in texts, some at a time; ``usual`` if nothing fits."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline, make_union

    most = MOST_WEIGHTS // classes
    shared: dict[str, Any] = {"sublinear_tf": True, "dtype": np.float32}
    features = make_union(
        TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\S+", max_features=most // 4 + 1, **shared),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), max_features=most * 3 // 4 + 1, **shared),
    )
    fitted = make_pipeline(features, model)
    try:
        fitted.fit(train_texts, train_targets)
    except ValueError:
        return np.full((len(texts), *np.shape(usual)), usual)
    rest, step = iter(texts), max(1, min(ROWS_AT_ONCE, most))
    parts = iter(lambda: list(islice(rest, step)), [])
    return np.concatenate([getattr(fitted, read)(part) for part in parts])


def _scored(
    guesses: dict[str, np.ndarray],
    train_targets: Sequence[int] | np.ndarray,
    targets: Sequence[int] | np.ndarray,
    labels: Sequence[str],
    each: dict[str, np.ndarray] | None,
) -> list[dict[str, Any]]:
    """The line of each baseline, by what it guesses; that of the majority class is the first."""
    guesses = {"majority class": np.full(len(targets), most_frequent(train_targets)), **guesses}
    if each is not None:
        each |= {name: np.stack([guess, targets], axis=1).astype(np.float64) for name, guess in guesses.items()}
    found = {name: scores(np.asarray(targets), guess, labels) for name, guess in guesses.items()}
    return [{"name": name, **{key: one[key] for key in ("accuracy", "macro_f1")}} for name, one in found.items()]
