"""scikit-learn's estimators: classifiers of one and of several labels and a regressor that are trained, an embedder.

    reviews = TextClassifier(time="2m").fit(texts, labels)
    reviews.predict(["Great battery, poor screen."])

Constructors take the options of ``headway.train`` that hold for their task; None is not given.  ``fit`` trains in a
temporary directory, ``run_.path``; a pickle holds the model's files.
"""

import inspect
import os
import re
import shutil
import tempfile
import time
import warnings
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

import headway
from headway.api import train_run
from headway.data.open.in_memory import given_inputs
from headway.data.records.label_typing import composed
from headway.errors import InputError, shown
from headway.hub.adapters.locate import locate_model
from headway.hub.fingerprint import files_of
from headway.io.quantities import counted
from headway.tasks.frames import AT_ONCE
from headway.tasks.inputs import known_shares
from headway.tasks.registry import NAMES, command, spec
from headway.training.options import OPTIONS, TrainOptions
from headway.training.progress import Progress, shown_to
from headway.training.store.contents import ADAPTED

OF_DATA = ("encoding", "delimiter", "on_bad_row", "stream", "known_to", "text_column", "label_column", "second_column")
OF_RUNS = ("more_time", "more_steps", "allow_changes", "snapshots", "tensorboard")
SET_HERE = ("task", "weight_column", "merge_labels", "labels_as_text")
"""Options of ``headway.train`` that estimators do not have."""
NAMED = {"from": "from_model", "label-column": "y", "text-column": "X"}
"""What the options of the command are here, where they are called otherwise."""


class Run:
    """The directory of a model, temporary without a ``path``, and options of ``load``; a pickle holds its files."""

    def __init__(self, path: Path | None = None, **how: Any):
        self.path, self.how = path or self._temporary(), how

    def _temporary(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="headway-"))
        weakref.finalize(self, _remove, folder, os.getpid())
        return folder / "run"

    @cached_property
    def pipe(self) -> Any:
        """The pipeline of the model."""
        return headway.load(self.path, **self.how)

    def __getstate__(self) -> dict[str, Any]:
        files = {str(file.relative_to(self.path)): file.read_bytes() for file in files_of(self.path)}
        return {"how": self.how, "files": files}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.path, self.how = self._temporary(), state["how"]
        for name, content in state["files"].items():
            file = self.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


class VectorRun(Run):
    """A model that makes vectors of texts."""

    @cached_property
    def pipe(self) -> Any:
        """Its embedder.  Raises ValueError where it has none."""
        pipe = super().pipe
        embed = command("embedding").takes(pipe, {"nearest": None})
        if embed is None:
            raise ValueError(f"{self.path}: a model for {pipe.task} makes no vectors")
        return embed


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # and not in a fork of it
        shutil.rmtree(folder, ignore_errors=True)


class _Collected(Progress):
    """Warnings of a training; nothing else of it is shown."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


class OfTexts(BaseEstimator):  # type: ignore[misc]
    """What reads texts."""

    run_: Run

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array, tags.input_tags.allow_nan = True, False, True
        return tags


class Trained(OfTexts, ABC):
    """What ``headway.train`` trains for a task."""

    task: ClassVar[str]
    ways: ClassVar[dict[str, Any]] = {}
    """further options of ``headway.train`` that it is trained with"""

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if "task" in vars(cls):
            cls.__init__ = _constructor(cls.task)  # type: ignore[method-assign]

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on texts; a tenth of them is held out, to choose the best weights.

        ``X`` (N,) are texts: a list, an array, a Series, or a frame of one column.  A row of weight 0 is as if it were
        not there, and so is one without a text.  Raises ValueError for what is no text, for targets that cannot be
        learnt, and where ``headway.train`` raises InputError.
        """
        texts = _texts(X)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        check_consistent_length(texts, y)
        weights = _check_sample_weight(sample_weight, texts, dtype=np.float64, ensure_non_negative=True)
        filled = np.array([text.strip() != "" for text in texts])
        if not filled.all():
            warnings.warn(f"{counted(int((~filled).sum()), 'row')} without a text left out", stacklevel=2)
        rows = np.flatnonzero(filled & (weights > 0))
        if not len(rows):
            raise ValueError("no row has a text and a weight above 0: there is nothing to learn")
        weights = weights[rows]
        told: dict[str, Any] = {"task": self.task, "text_column": "text", "label_column": "label", **self.ways}
        told |= {name: value for name, value in self.get_params().items() if value is not None}
        told = {name: value.item() if isinstance(value, np.generic) else value for name, value in told.items()}
        known, labels = self.learn(y, rows, weights)
        data: dict[str, Any] = {"text": [texts[at] for at in rows], "label": labels}
        if sample_weight is not None:
            data["weight"], told["weight_column"] = weights.tolist(), "weight"
        shown = _Collected() if told.pop("quiet", True) else shown_to(False)
        run = Run(device=told.get("device", "auto"))
        try:
            train_run(given_inputs([data]), TrainOptions(**told), run.path, started=time.monotonic(), progress=shown)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("stopped; nothing of this fit is kept") from None
        except InputError as error:
            raise InputError(_in_python(str(error))) from None
        finally:
            for text in getattr(shown, "warnings", ()):
                warnings.warn(_in_python(text), stacklevel=2)
        for name in ("checkpoints", ADAPTED):
            shutil.rmtree(run.path / name, ignore_errors=True)
        self.__dict__.update(known, run_=run)  # a fit that fails changes nothing
        return self

    @abstractmethod
    def learn(self, y: Any, rows: np.ndarray, weights: np.ndarray) -> tuple[dict[str, Any], list[Any]]:
        """What is known of the targets of some rows, by attribute, and the label of each of them."""

    def answered(self, X: Any, read: Callable[[Any], Any], usual: str, words: str) -> np.ndarray:
        """What is ``read`` from the answer to each text, (N, ...); the attribute ``usual``, in words, without one."""
        check_is_fitted(self)
        texts, none = _texts(X), 0
        values = np.repeat(np.asarray(getattr(self, usual))[None], len(texts), axis=0)
        for start in range(0, len(texts), AT_ONCE):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".* no token that the model knows")
                answers = self.run_.pipe(texts[start : start + AT_ONCE])
            for row, answer in enumerate(answers, start):
                if answer.get("scores") or answer.get("value") is not None:
                    values[row] = read(answer)
                else:
                    none += 1
        if none:
            _warn_of_texts(none, len(texts), f"answered with the {words} of the training rows")
        return values


def _constructor(task: str) -> Any:
    """An ``__init__`` that sets the options of ``headway.train`` for a task, and nothing else."""
    of_others = {name for other in NAMES for name in spec(other).options} - spec(task).options
    names = ["quiet", *(name for name in OPTIONS if name not in {*of_others, *OF_DATA, *OF_RUNS, *SET_HERE})]

    def __init__(self: Any, **options: Any) -> None:
        if unknown := sorted(options.keys() - set(names)):
            raise TypeError(f"{type(self).__name__} has no {', '.join(unknown)}; it has {', '.join(names)}")
        for name in names:
            setattr(self, name, options.get(name))

    own = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    own += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in names]
    __init__.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    return __init__


class Scored(ClassifierMixin, Trained):  # type: ignore[misc]
    """What has a score for each of ``classes_``."""

    classes_: np.ndarray
    _names: list[str]
    """how training calls the classes"""
    _shares: np.ndarray
    """of the training rows, by class"""

    def _scores(self, answer: Any) -> list[float]:
        return [answer["scores"].get(name, 0.0) for name in self._names]


class TextClassifier(Scored):
    """A classifier of texts (N,) with labels of any type: ``headway.train(task="classification")``."""

    task = "classification"
    ways: ClassVar[dict[str, Any]] = {"labels_as_text": True}

    def learn(self, y: Any, rows: np.ndarray, weights: np.ndarray) -> tuple[dict[str, Any], list[str]]:
        y = column_or_1d(y, warn=True)
        if missing := [row for row, one in enumerate(y.tolist()) if _is_missing(one)]:
            raise ValueError(f"y has no label in row {missing[0]}")
        y = y.astype(bool) if all(isinstance(one, bool) for one in y.tolist()) else y
        check_classification_targets(y)
        classes, numbers = np.unique(y[rows], return_inverse=True)
        if len(classes) == 1:
            raise ValueError(f"y has one class only, {classes.tolist()[0]!r}: a classifier learns two or more")
        names, shares = _names(classes), np.bincount(numbers, weights) / weights.sum()
        return {"classes_": classes, "_names": names, "_shares": shares}, [names[number] for number in numbers]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each of ``classes_``, float64 (N, C)."""
        scores = self.answered(X, self._scores, "_shares", "shares")
        return scores / scores.sum(axis=1, keepdims=True)  # exactly 1 together, as scikit-learn's metrics want it

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest of ``classes_``, (N,)."""
        scores = self.answered(X, self._scores, "_shares", "most frequent class")
        labels: np.ndarray = self.classes_[scores.argmax(axis=1)]
        return labels


class MultiLabelClassifier(Scored):
    """A classifier of texts (N,) with 0 or 1 for each of C labels (N, C): ``headway.train(task="multi_label")``.

    ``classes_`` are the columns of a frame, or the numbers of the columns of an array.
    """

    task = "multi_label"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = tags.target_tags.multi_output = True
        return tags

    def learn(self, y: Any, rows: np.ndarray, weights: np.ndarray) -> tuple[dict[str, Any], list[list[str]]]:
        table = _array(y.toarray() if hasattr(y, "toarray") else y)
        if table.ndim != 2 or not np.isin(table, (0, 1)).all():
            what = "0 and 1 for each label (N, C), as MultiLabelBinarizer makes them"
            raise ValueError(f"y has the shape {table.shape} and the type {table.dtype}; expected {what}")
        columns = getattr(y, "columns", None)
        classes = np.arange(table.shape[1]) if columns is None else np.asarray(columns, dtype=object)
        table = table[rows].astype(np.int64)
        sets, numbers = np.unique(table, axis=0, return_inverse=True)
        known = {"classes_": classes, "_names": _names(classes), "_shares": weights @ table / weights.sum()}
        known["_usual"] = sets[np.bincount(numbers.ravel(), weights).argmax()]
        return known, [[name for name, one in zip(known["_names"], row, strict=True) if one] for row in table]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each of ``classes_`` by itself, float64 (N, C)."""
        return self.answered(X, self._scores, "_shares", "shares")

    def predict(self, X: Any) -> np.ndarray:
        """0 or 1 for each of ``classes_``, int64 (N, C)."""

        def read(answer: Any) -> list[bool]:
            return [name in answer["labels"] for name in self._names]

        return self.answered(X, read, "_usual", "most frequent labels")


class TextRegressor(RegressorMixin, Trained):  # type: ignore[misc]
    """A model of texts (N,) with a number each: ``headway.train(task="regression")``."""

    task = "regression"

    def learn(self, y: Any, rows: np.ndarray, weights: np.ndarray) -> tuple[dict[str, Any], list[float]]:
        numbers = column_or_1d(y, warn=True).astype(float)
        assert_all_finite(numbers, input_name="y")
        if len(np.unique(numbers[rows])) == 1:
            raise ValueError(f"y has one number only, {numbers[rows][0]:g}: there is nothing to learn")
        return {"_mean": float(np.average(numbers[rows], weights=weights))}, numbers[rows].tolist()

    def predict(self, X: Any) -> np.ndarray:
        """The number of each text, float64 (N,)."""
        return self.answered(X, lambda answer: answer["value"], "_mean", "mean")


class TextEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, OfTexts):  # type: ignore[misc]
    """Vectors of texts by a model that is trained already: ``from_model`` is a run, a directory or an id of the hub."""

    def __init__(self, from_model: Any = None, *, device: str | None = None, precision: str | None = None):
        self.from_model, self.device, self.precision = from_model, device, precision

    def fit(self, X: Any, y: Any = None) -> Self:
        """Load the model; nothing is learnt from the texts.  Raises ValueError where it makes no vectors."""
        _texts(X)
        if self.from_model is None:
            raise ValueError("from_model is None; name a run, a directory or an id of the hub")
        run = VectorRun(locate_model(self.from_model).path, device=self.device or "auto", precision=self.precision)
        self.run_, self._n_features_out = run, run.pipe.width
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The vector of each text, float32 (N, D); zeros for one that is missing or has no known word."""
        check_is_fitted(self)
        texts, embed = _texts(X), self.run_.pipe
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".* no token that the model knows")
            vectors: np.ndarray = embed(texts)
            shares = known_shares(embed.tokenizer, embed.rows(texts)[0], "")
        empty = np.array(shares) == 0
        vectors[empty] = 0.0
        if empty.any():
            _warn_of_texts(int(empty.sum()), len(texts), "their vectors are zeros")
        return vectors


def _warn_of_texts(count: int, of: int, what: str) -> None:
    """Warn, where the method of an estimator was called, of texts that it cannot answer."""
    warnings.warn(f"{count:,} of {counted(of, 'text')} without a word that the model knows: {what}", stacklevel=4)


def _texts(X: Any) -> list[str]:
    """One column of texts, "" for one that is missing.  Raises ValueError for anything else."""
    if (is_sparse := hasattr(X, "toarray")) or not (hasattr(X, "__array__") or isinstance(X, list | tuple)):
        what = "a sparse matrix" if is_sparse else "one text" if isinstance(X, str) else type(X).__name__
        raise ValueError(f"expected a list, an array or a Series of texts, got {what}")
    values = _array(X)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"expected one column of texts, got an array of shape {values.shape}")
    if not len(values):
        raise ValueError("found array with 0 sample(s) while a minimum of 1 is required: no texts")
    texts = ["" if _is_missing(value) else value for value in values.tolist()]
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"expected texts, got {type(text).__name__} ({shown(text)}) in row {row}")
    return texts


def _array(values: Any) -> np.ndarray:
    """An array of objects.  Raises ValueError for lists of different lengths."""
    try:
        return np.asarray(values, dtype=object)
    except ValueError:
        raise ValueError("expected rows of one length; of lists of labels MultiLabelBinarizer makes them") from None


def _in_python(message: str) -> str:
    """A message of ``headway.train`` with the parameters, and without the table that an estimator makes."""
    message = re.sub(r"^a dict of columns of [\d,]+ rows?: ", "", message).replace("column 'label'", "y")
    return re.sub(r"--([a-z][a-z-]*)", lambda flag: NAMED.get(flag[1], flag[1].replace("-", "_")), message)


def _is_missing(cell: Any) -> bool:
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and cell != cell)


def _names(classes: np.ndarray) -> list[str]:
    """A name for each class, by which training knows it: as it is written where that tells all of them apart."""
    written = [composed(str(one)) for one in classes.tolist()]
    apart = len({name.strip() for name in written} - {""}) == len(classes) and "\0" not in "".join(written)
    return written if apart else [f"class {number}" for number in range(len(classes))]
