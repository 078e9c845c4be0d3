"""A tag for each word: the loss, and metrics by word and by entity.

Letters: B batch, T length, C classes, N words.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.data.batches.batching import IGNORED, Batch, padded
from headway.data.formats.tags import OUTSIDE, entities
from headway.nn.kernels.dropout import generator
from headway.runtime.windows import read_in_windows
from headway.training.objective import Objective


class TokenClassification(Objective):
    """The tag of each word, at its first token.

    ``token_dropout`` is the share of tokens that training replaces by ``hidden_token``, except ``protected`` ones: a
    small model then also learns names from their context.  Rows with more than ``longest`` tokens are measured in
    windows with the special tokens ``around`` them, as a tagger answers.
    """

    def __init__(
        self,
        labels: Sequence[str],
        *,
        label_smoothing: float = 0.0,
        token_dropout: float = 0.0,
        hidden_token: int = 0,
        protected: Sequence[int] = (),
        longest: int | None = None,
        around: tuple[list[int], list[int]] = ([], []),
    ):
        self.labels = list(labels)
        self.label_smoothing = label_smoothing
        self.longest, self.around = longest, around
        self.token_dropout, self.hidden_token = token_dropout, hidden_token
        self.protected = torch.tensor(list(protected), dtype=torch.int64)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, int, Tensor]:
        """The smoothed sum of -ln p over the words, in nats, their number, and the sum without smoothing."""
        ids, *others = batch.read
        if model.training and self.token_dropout:
            drop = torch.rand(ids.shape, device=ids.device, generator=generator()) < self.token_dropout
            ids = ids.masked_fill(drop & ~torch.isin(ids, self.protected.to(ids.device)), self.hidden_token)
        logits = model(ids, *others).float()  # (B, T, C)
        smoothing = self.label_smoothing if model.training else 0.0
        count = int((batch.targets != IGNORED).sum())
        return _summed(logits, batch.targets, smoothing), count, _summed(logits.detach(), batch.targets)

    @torch.no_grad()
    def evaluate(
        self, model: nn.Module, batches: Iterable[Batch], each: list[np.ndarray] | None = None
    ) -> dict[str, Any]:
        """val_loss (nats per word) and what ``Counts`` counts, over all batches.

        ``each`` receives, for each row, (2 × correct entities, predicted + true entities).
        """
        counts, total = Counts(self.labels), 0.0
        for batch in batches:
            logits = self._logits(model, batch)
            total += _summed(logits, batch.targets).item()
            guesses, targets = logits.argmax(dim=-1).cpu().numpy(), batch.targets.cpu().numpy()
            wanted = targets != IGNORED
            units = [counts.add(row[at], guess[at]) for row, guess, at in zip(targets, guesses, wanted, strict=True)]
            if each is not None:
                each.append(np.array(units, dtype=np.float64))
        return {"val_loss": total / max(1, counts.words), **counts.metrics()}

    def _logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """Logits (B, T, C) of the tokens of each row; 0 for the special tokens of a row that is read in windows."""
        if self.longest is None or batch.ids.shape[1] <= self.longest:
            return model(*batch.read).float()
        front, back = map(len, self.around)
        lengths = batch.lengths.tolist()
        bodies = [ids[front : length - back] for ids, length in zip(batch.ids.tolist(), lengths, strict=True)]

        def read(windows: list[list[int]]) -> list[Tensor]:
            size = max(1, batch.places // len(windows[0]))
            parts = (windows[start : start + size] for start in range(0, len(windows), size))
            return [one for part in parts for one in model(*padded(part, batch.ids.device)).float()]

        logits_of = read_in_windows(bodies, self.longest, self.around, read)
        width = batch.ids.shape[1]
        return torch.stack([F.pad(one, (0, 0, front, width - front - len(one))) for one in logits_of])

    def cost(self, metrics: dict[str, Any]) -> float:
        """How far F1 is from 1, then the loss."""
        return 1.0 - float(metrics["entity_f1"]) + 1e-6 * float(metrics["val_loss"])


def _summed(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    flat = logits.flatten(0, 1), targets.flatten()  # (B·T, C), (B·T,)
    return F.cross_entropy(*flat, reduction="sum", label_smoothing=smoothing, ignore_index=IGNORED)


class Counts:
    """Correct, predicted and true words and entities; ``labels`` are the names of the tags, by number."""

    def __init__(self, labels: Sequence[str]):
        self.labels = list(labels)
        self.whole = OUTSIDE not in self.labels
        self.words = self.right_words = 0
        self.right: Counter[str] = Counter()
        self.found: Counter[str] = Counter()
        self.wanted: Counter[str] = Counter()

    def add(self, targets: Sequence[int] | np.ndarray, guesses: Sequence[int] | np.ndarray) -> tuple[int, int]:
        """Count a sentence by the numbers of its tags (N,): (2 × correct entities, predicted + true)."""
        self.words += len(targets)
        self.right_words += int(np.sum(np.asarray(targets) == np.asarray(guesses)))
        wanted, found = (
            set(entities([self.labels[number] for number in tags], whole=self.whole)) for tags in (targets, guesses)
        )
        right = wanted & found
        for counter, some in ((self.right, right), (self.found, found), (self.wanted, wanted)):
            counter.update(kind for kind, _, _ in some)
        return 2 * len(right), len(found) + len(wanted)

    def metrics(self) -> dict[str, Any]:
        """accuracy by word; precision, recall and F1 of entities, over all (micro) and for each type (per_class).

        They equal those of ``seqeval`` in its default mode.
        """
        kinds = sorted(set(self.found) | set(self.wanted))
        right, found, wanted = (counter.total() for counter in (self.right, self.found, self.wanted))
        scores = _scores(right, found, wanted)
        return {
            "accuracy": self.right_words / max(1, self.words),
            **{f"entity_{name}": value for name, value in scores.items()},
            "per_class": {
                kind: {**_scores(self.right[kind], self.found[kind], self.wanted[kind]), "support": self.wanted[kind]}
                for kind in kinds
            },
        }


def _scores(right: int, found: int, wanted: int) -> dict[str, float]:
    return {
        "precision": right / found if found else 0.0,
        "recall": right / wanted if wanted else 0.0,
        "f1": 2 * right / (found + wanted) if found + wanted else 0.0,
    }
