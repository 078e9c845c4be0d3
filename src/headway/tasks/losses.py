"""Losses that tasks share, with their metrics: one for each row, the class of a row, the next token, and R-Drop.

Letters: B batch, T length, N places or answers, V vocabulary or classes.
"""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.data.batches.batching import IGNORED, Batch
from headway.errors import InputError
from headway.models.heads import Gives, gives, n_outputs
from headway.nn.kernels.dispatch import cross_entropy, unsmoothed
from headway.nn.kernels.dropout import generator
from headway.text.tokenizer import Tokenizer
from headway.training.objective import Objective

MOST_IN_CONFUSION = 1_000
"""Classes up to which every pair is counted: a matrix of 20,000 classes would be 3 GB."""
NO_LABEL = -1
"""The class of a text that is given none."""


class RowLoss(Objective, ABC):
    """A loss for each row, of the model's output for it and its target."""

    @abstractmethod
    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of each row (B,), from the outputs (B, ...) and the targets (B,)."""

    def means(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Further metrics that are means over the rows: by key, the value of each row (B,).

        The first is the headline metric, by which the model is compared with its baselines; without any, that is the
        loss.
        """
        return {}

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Any, ...]:
        """The sum over the rows, and how much they count (``Objective.loss``)."""
        losses = self.losses(of_one(model, model(*batch.read).float()), batch.targets)
        return batch.weighed(_each(losses, batch.targets)).sum(), batch.weight

    @torch.no_grad()
    def evaluate(
        self, model: nn.Module, batches: Iterable[Batch], each: list[np.ndarray] | None = None
    ) -> dict[str, Any]:
        """``val_loss`` and the means, over all rows."""
        parts = [self.of(of_one(model, model(*batch.read).float()), batch.targets) for batch in batches]
        return _averages(parts, each)

    def of(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The value of each row (B,) for the means, and then for the loss."""
        return {**self.means(outputs, targets), "val_loss": _each(self.losses(outputs, targets), targets)}

    def measured(self, outputs: Tensor, targets: Tensor, each: list[np.ndarray] | None = None) -> dict[str, Any]:
        """``val_loss`` and the metrics, of the outputs (N, ...) and targets (N, ...) of all rows.

        ``each`` is given what each row came to, float64 (N, 2).
        """
        return _averages([self.of(outputs, targets)], each)


class WholeLoss(RowLoss):
    """A loss for each row whose metrics are of all rows together (``measured``)."""

    @torch.no_grad()
    def evaluate(
        self, model: nn.Module, batches: Iterable[Batch], each: list[np.ndarray] | None = None
    ) -> dict[str, Any]:
        both = [(of_one(model, model(*batch.read).float()).cpu(), batch.targets.cpu()) for batch in batches]
        outputs, targets = (torch.cat(part) for part in zip(*both, strict=True))
        return self.measured(outputs, targets, each)


def _each(losses: Tensor, targets: Tensor) -> Tensor:
    """The losses, which are one for each row, (B,).  Raises InputError for others, whose sum would mean nothing."""
    if losses.shape != targets.shape[:1]:
        raise InputError(
            f"the loss of {len(targets):,} rows is {tuple(losses.shape)}, expected {tuple(targets.shape[:1])}: a "
            "model of one number for each text returns (B,), not (B, 1)."
        )
    return losses


def of_one(model: nn.Module, outputs: Tensor) -> Tensor:
    """A model's outputs for texts; (B,) instead of (B, 1) where its head gives one number for each."""
    return outputs.squeeze(-1) if gives(model) is Gives.ROW and n_outputs(model) == 1 else outputs


def _averages(parts: list[dict[str, Tensor]], each: list[np.ndarray] | None) -> dict[str, Any]:
    """The mean of each metric over the rows of all parts; ``each`` is given (the headline metric, 1) of each row."""
    if each is not None:
        values = (next(iter(part.values())).double().cpu().numpy() for part in parts)
        each += [np.stack([of_rows, np.ones_like(of_rows)], axis=1) for of_rows in values]
    return {key: float(torch.cat([part[key] for part in parts]).double().mean()) for key in parts[0]}


def row_losses(logits: Tensor, targets: Tensor, wanted: Tensor) -> np.ndarray:
    """(sum of -ln p, number of targets) of each row of a batch: float64 (B, 2).

    ``wanted``, bool (B, T), is true where a target is; logits (N, V) and targets (N,) are theirs, row by row.
    """
    losses = F.cross_entropy(logits, targets, reduction="none").double().cpu().numpy()  # (N,)
    mask = wanted.cpu().numpy()
    rows = np.nonzero(mask)[0]
    return np.stack([np.bincount(rows, weights=losses, minlength=len(mask)), mask.sum(axis=1)], axis=1)


def bytes_per_token(n_bytes: int, n_tokens: int, n_unknown: int) -> float | None:
    """The mean of a text; None, with a warning, where the tokenizer cannot write it back."""
    if n_unknown:
        share = f"{n_unknown:,} of {n_tokens:,} tokens to measure are unknown text"
        warnings.warn(f"{share}, whose characters no loss counts: bits per byte are not given", stacklevel=3)
        return None
    return max(1, n_bytes) / max(1, n_tokens)


def unknown_in(rows: Iterable[Any], tokenizer: Tokenizer) -> int:
    """How many tokens of some rows of ids are unknown text."""
    unknown = tokenizer.unknown
    if unknown is None or unknown in (tokenizer.end_of_text, tokenizer.begin_of_text, tokenizer.pad):
        return 0  # GPT-2 names the token that ends a text, since it knows every byte
    return sum(int(np.count_nonzero(np.asarray(row) == unknown)) for row in rows)


class TokenLoss(Objective, ABC):
    """A loss of predicted tokens, measured by every target of every batch once."""

    guesses: ClassVar[bool] = True
    """whether accuracy is measured: how often the likeliest token is right"""
    unknown: int = IGNORED
    """a target that is never right, since it stands for characters that the model cannot write"""

    @abstractmethod
    def predicted(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """What is measured of a batch: logits (N, V) in float32, their targets (N,), and their places, bool (B, T)."""

    @torch.no_grad()
    def evaluate(
        self, model: nn.Module, batches: Iterable[Batch], each: list[np.ndarray] | None = None
    ) -> dict[str, Any]:
        """val_loss (nats per target), perplexity, and accuracy."""
        total, right, count = 0.0, 0, 0
        for batch in batches:
            logits, targets, wanted = self.predicted(model, batch)
            rows = row_losses(logits, targets, wanted)
            if each is not None:
                each.append(rows)
            total, count = total + float(rows[:, 0].sum()), count + len(targets)
            if self.guesses:
                right += int(((logits.argmax(dim=-1) == targets) & (targets != self.unknown)).sum())
        loss = total / max(1, count)
        accuracy = {"accuracy": right / max(1, count)} if self.guesses else {}
        return {"val_loss": loss, "perplexity": math.exp(min(loss, 700.0)), **accuracy}


class LanguageModeling(TokenLoss):
    """Next-token prediction for a decoder.

    ``bytes_per_token`` of the validation text turns nats per token into bits per byte, which does not depend on the
    tokenizer; it is None where tokens are unknown text, whose characters the loss does not count.
    """

    guesses = False

    def __init__(self, bytes_per_token: float | None = 1.0, label_smoothing: float = 0.0):
        self.bytes_per_token = bytes_per_token
        self.label_smoothing = label_smoothing

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, int, Tensor]:
        """The smoothed sum of -ln p over all targets but those that are ``IGNORED``, in nats, their number, and the sum
        without smoothing.

        Only the positions of those targets go through the V-wide head.
        """
        logits, targets, _ = self.predicted(model, batch)
        smoothing = self.label_smoothing if model.training else 0.0
        loss = cross_entropy(logits, targets, smoothing)
        return loss, len(targets), unsmoothed(loss, logits, targets, smoothing)

    def predicted(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        wanted = batch.targets != IGNORED
        whole = bool(wanted.all())
        logits = model(batch.ids, batch.mask, chosen=None if whole else wanted).float()  # (B, T, V) or (N, V)
        return logits.flatten(0, -2), batch.targets[wanted], wanted

    def evaluate(
        self, model: nn.Module, batches: Iterable[Batch], each: list[np.ndarray] | None = None
    ) -> dict[str, Any]:
        """val_loss (nats per token), perplexity, bits_per_byte."""
        metrics, each_token = super().evaluate(model, batches, each), self.bytes_per_token
        bits = None if each_token is None else metrics["val_loss"] / math.log(2) / each_token
        return {**metrics, "bits_per_byte": bits}


def modeling_of(
    targets: Iterable[Sequence[int] | np.ndarray], tokenizer: Tokenizer, label_smoothing: float = 0.0
) -> LanguageModeling:
    """Next-token prediction whose bits per byte are those of these targets, each the ids of a text."""
    n_bytes = n_tokens = unknown = 0
    for target in targets:
        n_bytes += len(tokenizer.decode(target).encode("utf-8", "surrogatepass"))
        n_tokens, unknown = n_tokens + len(target), unknown + unknown_in([target], tokenizer)
    return LanguageModeling(bytes_per_token(n_bytes, n_tokens, unknown), label_smoothing)


def twice(batch: Batch) -> Batch:
    """A batch of B rows as one of 2 B: all rows, and all again.  Dropout differs from row to row."""
    return batch.rows(torch.arange(len(batch), device=batch.targets.device).repeat(2))


def divergence(one: Tensor, other: Tensor, batch: Batch | None = None) -> Tensor:
    """The mean of both Kullback-Leibler divergences between two sets of answers, summed over them, in nats.

    ``one`` and ``other`` are logits (N, V), of the rows of a ``batch`` if these have weights; the result is ().
    """
    p, q = one.log_softmax(dim=-1), other.log_softmax(dim=-1)
    apart = (p.exp() - q.exp()) * (p - q)
    return (apart if batch is None else batch.weighed(apart)).sum() / 2


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
