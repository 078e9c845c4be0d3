"""One label for each input: the names of the labels, the loss, the metrics and the answers."""

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.data.batches.batching import Batch
from headway.errors import InputError
from headway.hub.directory import read_json
from headway.hub.fine_tune import named_classes
from headway.hub.kept_entries import kept
from headway.models.heads import Gives
from headway.nn.kernels.dropout import generator
from headway.tasks.answers import Label
from headway.tasks.losses import divergence, twice
from headway.tasks.task import TaskInputs
from headway.training.objective import Objective

HALF = 0.5
"""The share of known tokens below which an answer says it."""
MOST_IN_CONFUSION = 1_000
"""Classes up to which every pair is counted: a matrix of 20,000 classes would be 3 GB."""
ONE_LABEL = "single_label_classification"
"""``problem_type`` of a classifier that names one label for each input; it is often left out."""
NO_LABEL = -1
"""The class of a text that is given none."""


def labels_of(directory: Path, n_classes: int, problem: str | None = None) -> list[str]:
    """The names of the classes in order; LABEL_0, LABEL_1 and so on where ``config.json`` has none.

    Raises InputError for a classifier for another ``problem`` (``TaskSpec.problem``; None: one label for each input),
    and for names that are not right.
    """
    path = directory / "config.json"
    entries = read_json(path)
    kind = entries.get("problem_type")
    if (kind or ONE_LABEL) != (problem or ONE_LABEL):
        raise InputError(
            f"{path}: problem_type is {str(kind)[:60]!r}, expected {problem or ONE_LABEL}: reading "
            "its scores as those of another kind of classifier would be wrong."
        )
    if n_classes < 2:
        raise InputError(f"{path}: the model gives a number and no label; a classifier has 2 classes or more.")
    names = entries.get("id2label") or {str(i): f"LABEL_{i}" for i in range(n_classes)}
    if not isinstance(names, dict) or {str(i) for i in range(n_classes)} != set(names):
        raise InputError(f"{path}: id2label must name each of the {n_classes} classes, from 0 to {n_classes - 1}.")
    labels = [str(names[str(i)]) for i in range(n_classes)]
    if nameless := [i for i in range(n_classes) if names[str(i)] is None or not labels[i].strip()]:
        raise InputError(f"{path}: id2label has no name for class {nameless[0]}.")
    if len(set(labels)) < n_classes:
        raise InputError(f"{path}: id2label gives two classes the same name; found {', '.join(labels)}.")
    back = entries.get("label2id")
    if isinstance(back, dict) and set(back) == set(labels) and any(back[labels[i]] != i for i in range(n_classes)):
        raise InputError(f"{path}: id2label and label2id contradict each other; correct the one that is wrong.")
    return labels


def likeliest(scores: dict[str, float]) -> Label:
    """The answer that names the likeliest label; none where there are no scores."""
    best = max(scores, key=scores.__getitem__, default=None)
    return {"label": best, "score": None if best is None else scores[best], "scores": scores}


def label_answers(
    labels: Sequence[str],
    probabilities: Tensor,
    known: Sequence[float] | None = None,
    named: Callable[[dict[str, float]], Any] = likeliest,
) -> list[Any]:
    """The answer for each row of probabilities (N, C), which ``named`` makes of those by label.

    ``known`` (N,) is the share of known tokens of each text: below ``HALF`` it is in the answer, and of 0 there are no
    scores.
    """
    answers = []
    for row, share in zip(probabilities.tolist(), known or [1.0] * len(probabilities), strict=True):
        answers.append(named(dict(zip(labels, row, strict=True)) if share else {}))
        if 0 < share < HALF:
            answers[-1]["known"] = share
    return answers


def continued_classes(
    given: TaskInputs, classes: Sequence[str], what: Gives, problem: str | None = None
) -> tuple[list[str], bool]:
    """The classes of a model that learns ``classes``, in order, and whether its head is a new one.

    A base for the same ``problem`` (``TaskSpec.problem``) that gives ``what`` and knows all of them by their names
    keeps its head, and with it all its classes in their order.  A run that is resumed has the classes that it began
    with.
    """
    known = [] if given.base is None else named_classes(given.base.model, what)
    if given.base is not None and (kept(given.base.model, "problem_type") or ONE_LABEL) != (problem or ONE_LABEL):
        known = []
    labels = (given.earlier or {}).get("labels") or known
    labels = list(labels if set(classes) <= set(labels) else classes)
    return labels, labels != known


class Classification(Objective):
    """One label for each text.

    ``weights`` (C,) multiply the loss of each text by that of its class (not smoothing's share of the other classes,
    which would draw every answer to rare ones); ``token_dropout`` is the share of tokens that training replaces by
    ``hidden_token``, which keeps a small model from leaning on single words.  With ``r_drop`` α every batch is read
    twice, and half of α times the divergence of the two answers is added (``tasks.losses``).  ``by_accuracy``
    says how evaluations are compared.  A text of ``silent`` tokens alone gets no label, as in answers, which is wrong.
    """

    def __init__(
        self,
        labels: Sequence[str],
        *,
        weights: Tensor | None = None,
        label_smoothing: float = 0.0,
        token_dropout: float = 0.0,
        hidden_token: int = 0,
        protected: Sequence[int] = (),
        r_drop: float = 0.0,
        by_accuracy: bool = False,
        silent: Collection[int] = (),
    ):
        self.labels = list(labels)
        self.weights = weights
        self.label_smoothing = label_smoothing
        self.token_dropout, self.hidden_token = token_dropout, hidden_token
        self.r_drop, self.by_accuracy = r_drop, by_accuracy
        self.protected = torch.tensor(list(protected), dtype=torch.int64)
        self.silent = torch.tensor(sorted(silent), dtype=torch.int64)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, float, Tensor]:
        """What is minimised, how much the texts count, and the sum of their -ln p, in nats (``Objective.loss``)."""
        once, read_twice = batch, model.training and bool(self.r_drop)
        batch = twice(batch) if read_twice else batch
        ids, *others = batch.read
        if model.training and self.token_dropout:
            drop = torch.rand(ids.shape, device=ids.device, generator=generator()) < self.token_dropout
            ids = ids.masked_fill(drop & ~torch.isin(ids, self.protected.to(ids.device)), self.hidden_token)
        logits = model(ids, *others).float()  # (B, C)
        smoothing = self.label_smoothing if model.training else 0.0
        each = F.cross_entropy(logits, batch.targets, reduction="none", label_smoothing=smoothing)  # (B,)
        if self.weights is not None and model.training:
            each = each * self.weights.to(ids.device)[batch.targets]
        loss = batch.weighed(each).sum()
        shown = batch.weighed(F.cross_entropy(logits.detach(), batch.targets, reduction="none")).sum()
        if read_twice:
            one, other = logits.chunk(2)
            loss, shown = loss / 2 + self.r_drop / 2 * divergence(one, other, once), shown / 2
        return loss, once.weight, shown

    @torch.no_grad()
    def evaluate(
        self, model: nn.Module, batches: Iterable[Batch], each: list[np.ndarray] | None = None
    ) -> dict[str, Any]:
        """val_loss (nats per text) and all ``scores``, over all batches."""
        pairs: list[np.ndarray] = []
        total = 0.0
        for batch in batches:
            logits = model(*batch.read).float()
            total += F.cross_entropy(logits, batch.targets, reduction="sum").item()
            guesses = logits.argmax(dim=-1)
            if len(self.silent):
                says = ~torch.isin(batch.ids, self.silent.to(batch.ids.device))
                says = says if batch.mask is None else says & batch.mask
                guesses = guesses.masked_fill(~says.any(dim=1), NO_LABEL)
            pairs.append(np.stack([guesses.cpu().numpy(), batch.targets.cpu().numpy()], axis=1))
        if each is not None:
            each += [part.astype(np.float64) for part in pairs]
        predicted, targets = np.concatenate(pairs).T
        return {"val_loss": total / len(targets), **scores(targets, predicted, self.labels)}

    def cost(self, metrics: dict[str, Any]) -> float:
        """The loss; ``by_accuracy`` the error first, since a model that fits its rows grows sure of its mistakes."""
        loss = float(metrics["val_loss"])
        return 1.0 - metrics["accuracy"] + 1e-6 * loss if self.by_accuracy else loss


def scores(targets: np.ndarray, guesses: np.ndarray, labels: Sequence[str]) -> dict[str, Any]:
    """accuracy, macro_f1, per_class and confusion of predicted classes (N,), given the true ones (N,).

    ``NO_LABEL`` is a prediction that is missing: wrong, of no class, and not in confusion.  macro_f1 is the mean over
    the classes that occur or are predicted; confusion (C, C) has the true classes as rows and is left out where there
    are more than MOST_IN_CONFUSION.
    """
    size, given = len(labels), guesses != NO_LABEL
    counted = (targets, guesses[given], targets[targets == guesses])
    true, predicted, right = (np.bincount(x, minlength=size) for x in counted)
    precision, recall = quotients(right, predicted), quotients(right, true)
    f1 = quotients(2 * precision * recall, precision + recall)
    present = (true > 0) | (predicted > 0)
    rows = zip(labels, *(values.tolist() for values in (precision, recall, f1, true)), strict=True)
    pairs = targets[given] * size + guesses[given]
    small = size <= MOST_IN_CONFUSION
    confusion = np.bincount(pairs, minlength=size * size).reshape(size, size).tolist() if small else None
    return {
        "accuracy": float(right.astype(float).sum() / max(1, len(targets))),
        "macro_f1": float(f1[present].mean()) if present.any() else 0.0,
        "per_class": {name: {"precision": p, "recall": r, "f1": f, "support": n} for name, p, r, f, n in rows},
        **({"confusion": confusion} if small else {}),
    }


def quotients(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """``one`` by ``other``, 0 where that is 0; float64 (C,)."""
    return np.divide(one, other, out=np.zeros(len(one)), where=other > 0)


def balanced_weights(targets: Sequence[int] | np.ndarray, n_classes: int, weights: np.ndarray | None = None) -> Tensor:
    """Weights (C,) under which every class counts the same and the mean weight of an example is 1.

    The ``weights`` (N,) are how much each example counts already.
    """
    counts = np.bincount(np.asarray(targets), weights, minlength=n_classes)
    each = counts.sum() / (np.count_nonzero(counts) * np.where(counts > 0, counts, 1))
    return torch.tensor(each, dtype=torch.float32)
