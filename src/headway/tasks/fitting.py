"""For few labelled rows: a linear classifier on a pretrained encoder's vectors, tuned or not, and its cross-validation.

The vectors are those after two thirds of the blocks, pooled by their mean and brought to one length: the last blocks of
a published encoder serve what it was trained for, the middle ones serve other tasks better.  The classifier is
multinomial logistic regression on exactly what the last matrix of the family's own classifier reads
(``hub.fine_tune``).  Contrastive tuning before it is SetFit (Tunstall et al. 2022).
"""

import math
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.data.batches.batching import length_batches, pad
from headway.data.batches.encoded import Rows, row_lengths
from headway.data.records.repeats import text_key
from headway.hub.fine_tune import shift_of
from headway.models.adapt.freeze import freeze, set_dropout
from headway.models.heads import pool
from headway.models.transformer import Encoder
from headway.tasks.baselines import linear_guess, most_frequent
from headway.text.tokenizer import Tokenizer
from headway.training.evaluation import intervals

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
STEPS = 40
LEAST_STEPS = 5
"""Where the time is not enough for so many, it is better spent on reading rows."""
LEARNING_RATE = 1e-4
BATCH = 16
WARMUP = 0.1
TEMPERATURE = 0.1
TUNED_BY = {"learning_rate": LEARNING_RATE, "batch": BATCH, "warmup": WARMUP, "temperature": TEMPERATURE}
"""What a run records of it, beside the number of steps."""
MOST_ROWS = 1000
"""Rows of the largest table that is judged so."""
FOLDS, REPEATS, LEAST_REPEATS = 5, 10, 2
Guess = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""The classes that a model gives rows, by the numbers of the rows it is fitted on and of those it is to guess."""


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

    def item(self, at: int) -> list[int]:
        return self.first[at] if at < len(self.first) else self.second[at - len(self.first)]


def fit_frozen(
    model: Encoder,
    rows: Sequence[list[int]],
    targets: Sequence[int] | np.ndarray,
    n_rows: int,
    *,
    seed: int = 0,
    weights: np.ndarray | None = None,
    seconds: float | None = None,
) -> int:
    """Fit the last matrix of a classifier that reads the mean of a model's vectors, in place.

    ``rows`` are ids and ``targets`` classes; the first ``n_rows`` are data, the others made of labels.  ``weights``
    (N,) are how much each counts.  Rows are read in an order that the seed draws, as many as ``seconds``
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
    fitted = _logistic(x, classes[known], known < n_rows, None if weights is None else weights[known])
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


def _logistic(x: np.ndarray, y: np.ndarray, is_data: np.ndarray, weights: np.ndarray | None) -> Any:
    """Logistic regression on vectors (N, D) of rows and, where ``is_data`` is false, of sentences made of labels."""
    from sklearn.linear_model import LogisticRegression

    counts = np.where(is_data, 1.0, LABEL_WEIGHT / len(TEMPLATES))
    counts = counts if weights is None else counts * weights
    return LogisticRegression(C=INVERSE_PENALTY, max_iter=1000).fit(x, y, sample_weight=counts)


def guess_by_vectors(
    model: Encoder, rows: Sequence[list[int]], targets: np.ndarray, n_rows: int, weights: np.ndarray | None = None
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """What gives some rows their classes when the classifier is fitted on others, by the vectors as they are now.

    ``rows`` and ``targets`` are those of ``fit_frozen``; every fit has the sentences made of labels too.
    """
    (x, _), y = _readings(model, vectors(model, rows)), targets
    made = np.arange(n_rows, len(rows))

    def guess(train: np.ndarray, rest: np.ndarray) -> np.ndarray:
        known = np.concatenate([train, made])
        own = None if weights is None else weights[known]
        return _logistic(x[known], y[known], known < n_rows, own).predict(x[rest])

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


def tune_vectors(
    model: Encoder,
    rows: Sequence[list[int]],
    targets: Sequence[int] | np.ndarray,
    seed: int,
    show: Callable[[float, float], None],
    seconds: float | None = None,
    weights: np.ndarray | None = None,
) -> int:
    """Train the blocks of an encoder on labelled rows of ids, in place; embeddings stay.  Returns the number of steps.

    ``weights`` (N,) are how much each row counts; ``show`` receives the progress (0 to 1) and the loss.  STEPS are
    taken, or as many as ``seconds`` are enough for.
    """
    began, longest = time.monotonic(), 0.0
    if seconds is not None:
        longest = _step_seconds(model, [rows[i] for i in range(min(len(rows), BATCH))])
        if LEAST_STEPS * longest > seconds:
            return 0
    dropout = model.config.dropout
    set_dropout(freeze(model, 0), 0.1)
    model.train()
    device = next(model.parameters()).device
    parameters = [p for p in model.stack.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=0.01, fused=True)
    random = np.random.default_rng(seed)
    torch.manual_seed(seed)
    classes = np.asarray(targets)
    of_class = [np.flatnonzero(classes == c) for c in np.unique(classes)]
    each = max(2, BATCH // len(of_class))
    step, used = 0, 0.0
    while step < STEPS and (seconds is None or used + longest < seconds):
        share = max(step / STEPS, used / (seconds or math.inf))
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, (share + 1 / STEPS) / WARMUP) * (1 - share)
        batch = np.concatenate([random.permutation(index)[:each] for index in of_class])
        ids, mask = pad([rows[i] for i in batch])
        ids, mask = ids.to(device), mask.to(device)
        x = pool(model.stack(ids, mask), mask, "mean")  # (B, D)
        own = None if weights is None else torch.tensor(weights[batch], dtype=x.dtype, device=device)
        loss = pair_loss(x, torch.tensor(classes[batch], device=device), own)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        show(max(step / STEPS, share), loss.item())
        used, longest = time.monotonic() - began, max(longest, time.monotonic() - began - used)
    set_dropout(model, dropout)
    model.requires_grad_(True).eval()
    return step


@torch.no_grad()
def _step_seconds(model: Encoder, rows: Sequence[list[int]]) -> float:
    """About how long a step on such rows takes: three times as long as reading them, which is done twice to warm up."""
    ids, mask = (one.to(next(model.parameters()).device) for one in pad(rows))
    for _ in range(2):
        began = time.monotonic()
        model.stack(ids, mask)
    return 3 * (time.monotonic() - began)


def pair_loss(x: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """The mean over rows of the mean of -ln p of the others of its label, p a softmax over cosines: (B, D), (B,) -> ().

    Vectors of one label move together, those of different labels apart (Khosla et al. 2020).  A row whose label no
    other has does not count, others as much as the ``weights`` (B,) say.
    """
    x = torch.nn.functional.normalize(x, dim=-1)
    itself = torch.eye(len(x), dtype=torch.bool, device=x.device)
    scores = (x @ x.T / TEMPERATURE).masked_fill(itself, float("-inf"))  # (B, B)
    agree = (targets[:, None] == targets[None]) & ~itself
    total = scores.log_softmax(dim=-1).masked_fill(~agree, 0.0).sum(dim=-1)  # (B,)
    has = agree.any(dim=-1)
    losses = -(total[has] / agree.sum(dim=-1)[has])
    return losses.mean() if weights is None else (losses * weights[has]).sum() / weights[has].sum()


def cross_validated(
    texts: Sequence[str], targets: Sequence[int], others: dict[str, Guess], *, seconds: float | None = None
) -> dict[str, Any] | None:
    """What headway.json says as ``cross_validation``: the baselines and ``others`` by name, accuracy and interval.

    Every row is held out in turn, again and again: only for models that take moments to fit.  ``difference`` is that of
    the last of ``others``, or of the linear model, to the best of those before it.  At most REPEATS repeats are made,
    fewer where ``seconds`` are over.  Intervals are those of as many rows, each held out once: repeats show each row
    again, not other rows.  None where a class has a single text.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    y, keys = np.asarray(targets), [text_key(text) for text in texts]
    classes = [{keys[i] for i in np.flatnonzero(y == label).tolist()} for label in np.unique(y)]
    folds = min(FOLDS, *map(len, classes))
    if folds < 2:
        return None
    most = most_frequent(y)  # of all rows: of equal classes the rest of a fold has the fewer
    models: dict[str, Guess] = {
        "majority class": lambda train, rest: np.full(len(rest), most),
        "linear model": lambda train, rest: linear_guess(
            [texts[i] for i in train.tolist()], y[train].tolist(), [texts[i] for i in rest.tolist()]
        ),
        **others,
    }
    by_row = {name: np.zeros(len(y)) for name in models}
    began, repeats = time.monotonic(), 0
    while repeats < REPEATS:
        split = StratifiedGroupKFold(folds, shuffle=True, random_state=repeats)  # equal texts on one side
        for train, rest in split.split(np.zeros(len(y)), y, keys):
            for name, guess in models.items():
                by_row[name][rest] += guess(train, rest) == y[rest]
        repeats += 1
        if repeats >= LEAST_REPEATS and seconds is not None and time.monotonic() - began > seconds:
            break
    means = {name: float(by_row[name].mean()) / repeats for name in models}
    n, t = len(y), intervals.student(len(y))
    ends = {name: intervals.wilson(mean * n, n, t) for name, mean in means.items()}
    lines = [{"name": name, "accuracy": means[name], "interval": list(ends[name])} for name in models]
    *before, last = models
    rival = max(before, key=lambda name: means[name])
    one, other = (by_row[name] / repeats - means[name] for name in (last, rival))
    alike = float(one @ other / np.sqrt((one @ one + 1) * (other @ other + 1)))  # as if one more row were not
    found = intervals.of_difference(means[last], ends[last], means[rival], ends[rival], alike)
    return {
        "rows": n,
        "folds": folds,
        "repeats": repeats,
        "models": lines,
        "difference": {"of": last, "over": rival, "value": means[last] - means[rival], "interval": list(found)},
    }
