"""Vectors of texts that are near each other when the texts belong together.

Letters: P pairs, B = 2 P texts, N held-out pairs, D width.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.data.batches.batching import Batch
from headway.data.records.repeats import text_hashes
from headway.data.records.split import drawn_within
from headway.data.records.text_pairs import TextPairs
from headway.tasks.baselines import fitted_on_some
from headway.training.evaluation.intervals import area, spearman
from headway.training.objective import Objective

SCALE = 20.0
"""What cosines are multiplied by: 1 / temperature, with the temperature 0.05."""
ROWS_AT_ONCE = 1024
"""Rows of the N × N table of similarities that evaluation holds."""
TIE = 1e-6
"""Cosines that differ by less are equal: so much may the order of a sum change them."""
MOST_CHARACTERS = 2_000_000
"""Characters of training texts from which the baseline knows how rare words are, at most."""


class Embedding(Objective):
    """Training of sentence vectors on pairs of texts.

    A batch of P pairs has 2 P rows of ids: the first texts, then the second ones in the same order; ``targets`` are the
    pairs' scores (P,), which "pairs" does not read.  The model gives one vector for each row.

    kind "pairs": every pair belongs together.  Each first text is to find its second among those of the batch (InfoNCE,
    van den Oord et al. 2018: the cross-entropy of the cosines times ``scale``); ``symmetric`` asks the same of each
    second text and takes the mean.  A pair that shares a text with another is no wrong answer for it: in training by
    the ids that the model reads, since it cannot tell these apart, in evaluation by the texts (``texts_of``).
    ``texts`` are the numbers (2, N) of the held-out texts in the order of their batches, equal where the texts are;
    without them, all differ.  (A single batch is evaluated only to measure its time and memory.)

    kind "scores": pairs have a score; higher means nearer.  The loss is CoSENT's (Su 2022),
    ln(1 + Σ exp(scale · (cos_i - cos_j))) over all i, j in the batch with score_i < score_j, counted once for each pair
    of the batch.  It asks for the order of the scores alone, as Spearman's correlation does by which such models are
    judged.  Regression of the cosine onto the score would also ask that unrelated texts be at right angles, which few
    models give, and would read a meaning into how the scores are spaced.  0 and 1 are scores like any other.
    """

    by_rows = False

    def __init__(
        self,
        kind: Literal["pairs", "scores"] = "pairs",
        *,
        scale: float = SCALE,
        symmetric: bool = True,
        texts: Tensor | None = None,
    ):
        if kind not in ("pairs", "scores"):
            raise ValueError(f"kind is {kind!r}, but must be pairs or scores")
        if not scale > 0:
            raise ValueError(f"scale is {scale}, but must be above 0")
        self.kind, self.scale, self.symmetric, self.texts = kind, scale, symmetric, texts

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, int]:
        """The sum of the loss over the P pairs of a batch, in nats, and P."""
        first, second = _halves(_vectors(model, batch))
        if self.kind == "scores":
            cosines = (first * second).sum(dim=-1)
            return len(first) * cosent(cosines, batch.targets, self.scale), len(first)
        ids = batch.ids if batch.mask is None else batch.ids.masked_fill(~batch.mask, -1)  # equal rows are equal texts
        same = same_pairs(*_halves(ids))
        return contrastive(first, second, same, self.scale, symmetric=self.symmetric), len(first)

    @torch.no_grad()
    def evaluate(
        self, model: Callable[..., Tensor], batches: Iterable[Batch], each: list[np.ndarray] | None = None
    ) -> dict[str, Any]:
        """Over all N held-out pairs at once, however they come in batches.

        "pairs": val_loss (nats per pair, each text among all N), accuracy (how often the nearest of all second texts is
        the right one), mrr (the mean of 1 / its rank).  Of ties the right text is the last (``rank_right``), so that
        texts that the model cannot tell apart are not counted as found.
        "scores": val_loss, and how well cosines rank the scores (``ranking``).
        """
        firsts, seconds, scores = [], [], []
        for batch in batches:
            first, second = _halves(_vectors(model, batch))
            firsts.append(first.float().cpu())
            seconds.append(second.float().cpu())
            scores.append(batch.targets.float().cpu())
        first, second = torch.cat(firsts), torch.cat(seconds)
        if self.kind == "scores":
            cosines, wanted = (first * second).sum(dim=-1), torch.cat(scores)
            loss = cosent(cosines.double(), wanted, self.scale).item()
            metrics, units = ranking(cosines.double().numpy(), wanted.double().numpy())
            if each is not None:
                each.append(units)
            return {"val_loss": loss, **metrics}
        numbers = torch.arange(2 * len(first)).view(2, -1) if self.texts is None else self.texts[:, : len(first)]
        metrics, ranks = self._ranked(first, second, *numbers)
        if each is not None:
            each.append(np.stack([ranks, np.ones(len(ranks))], axis=1))
        return metrics

    def _ranked(self, first: Tensor, second: Tensor, one: Tensor, other: Tensor) -> tuple[dict[str, Any], np.ndarray]:
        """Metrics and the ranks of the right texts (N,), of vectors (N, D) of texts numbered (N,), equal ones alike."""
        total, ranks = 0.0, []
        sides = [(first, second), (second, first)] if self.symmetric else [(first, second)]
        for side, (queries, answers) in enumerate(sides):
            for start in range(0, len(queries), ROWS_AT_ONCE):
                rows = torch.arange(start, min(start + ROWS_AT_ONCE, len(queries)))
                cosines, rank = rank_right(queries[rows] @ answers.T, rows, one, other)
                total += F.cross_entropy(self.scale * cosines, rows, reduction="sum").item() / len(sides)
                ranks += [rank] if side == 0 else []
        rank = torch.cat(ranks)
        return {"val_loss": total / len(first), **found_by(rank)}, rank.double().numpy()


def rank_right(cosines: Tensor, rows: Tensor, one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """(the cosines, -inf where a pair shares a text with the row's; the rank of each row's own second text, (R,)).

    ``cosines`` (R, N) are those of the first texts number ``rows`` (R,) with all second ones; ``one`` and ``other``
    (N,) number the texts.  A text as near as the right one, to within ``TIE``, counts as nearer.
    """
    own = torch.arange(len(rows))
    same = (one[rows, None] == one) | (other[rows, None] == other)
    same[own, rows] = False
    right = cosines[own, rows, None]
    cosines = cosines.masked_fill(same, -torch.inf)
    return cosines, (cosines > right - TIE).sum(dim=1)  # the right one itself makes it 1 or more


def found_by(rank: Tensor) -> dict[str, float]:
    """accuracy and mrr of the ranks (N,) of the right texts."""
    return {"accuracy": (rank == 1).double().mean().item(), "mrr": (1 / rank.double()).mean().item()}


def texts_of(pairs: TextPairs, order: np.ndarray | None = None) -> Tensor:
    """Numbers (2, N) of the first and the second texts, in an order of the pairs; equal where they read the same.

    That is decided as for repeated rows (``data.records.repeats``), on the whole texts and not on what a model reads.
    """
    both = np.stack([text_hashes(list(side)) for side in (pairs.sources, pairs.targets)])
    return torch.from_numpy(both if order is None else both[:, order])


def embedding_baselines(
    train: TextPairs, held_out: TextPairs, each: dict[str, np.ndarray]
) -> tuple[list[dict[str, Any]], str]:
    """The metrics of cosines of TF-IDF vectors (words, and 2-4 characters within them) on held-out pairs.

    The inverse document frequencies are those of the training texts, or of a sample, which the line says.  ``each``
    receives the result of every pair, as ``Embedding.evaluate`` gives it.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_union

    features = make_union(
        TfidfVectorizer(sublinear_tf=True, token_pattern=r"\S+"),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True),
    )
    name = "words and characters in common (TF-IDF)"
    sample = train.part(drawn_within(train.lengths.sum(axis=0), MOST_CHARACTERS))
    sampled = fitted_on_some(len(sample), len(train), "pairs", "TF-IDF")
    try:
        features.fit([*sample.sources, *sample.targets])
    except ValueError:  # no word in any text
        return [], ""
    first, second = list(held_out.sources), list(held_out.targets)
    one, other = (features.transform(texts) for texts in (first, second))
    if held_out.scores is not None:
        cosines = np.asarray(one.multiply(other).sum(axis=1))[:, 0]
        metrics, each[name] = ranking(cosines, held_out.scores)
        return [{"name": name, **metrics}], sampled
    groups, ranks, answers = texts_of(held_out), [], other.T.tocsr()
    for rows in torch.arange(len(first)).split(ROWS_AT_ONCE):
        found = torch.from_numpy((one[rows.numpy()] @ answers).toarray())
        ranks.append(rank_right(found, rows, *groups)[1])
    rank = torch.cat(ranks)
    each[name] = np.stack([rank.double().numpy(), np.ones(len(rank))], axis=1)
    return [{"name": name, **found_by(rank)}], sampled


def ranking(cosines: np.ndarray, scores: np.ndarray) -> tuple[dict[str, float], np.ndarray]:
    """How well cosines (N,) rank scores (N,), and the units of that, (N, 2).

    spearman, their rank correlation.  For scores of two values, whose correlation cannot reach 1, roc_auc, the area
    under the curve, and average_precision (Σ over thresholds of the gain in recall times the precision, as
    scikit-learn): the higher value is what is to be found, and is 1 in the units, the lower one 0.
    """
    if len(np.unique(scores)) != 2:
        return {"spearman": spearman(cosines, scores)}, np.stack([cosines, scores], axis=1)
    positive = scores == scores.max()
    _, place, counts = np.unique(-cosines, return_inverse=True, return_counts=True)
    hits = np.bincount(place, weights=positive)  # of each threshold, the highest cosine first
    precision = hits.cumsum() / counts.cumsum()
    metrics = {"roc_auc": area(cosines, positive)[0], "average_precision": float(hits @ precision / hits.sum())}
    return metrics, np.stack([cosines, positive], axis=1)


def contrastive(first: Tensor, second: Tensor, same: Tensor, scale: float, *, symmetric: bool) -> Tensor:
    """The sum of InfoNCE over pairs of vectors of length 1, (P, D) each.

    ``same``, bool (P, P), is true where row and column are two pairs that share a text: no wrong answers.
    """
    logits = (scale * first @ second.T).float().masked_fill(same, -torch.inf)  # (P, P)
    right = torch.arange(len(first), device=first.device)
    loss = F.cross_entropy(logits, right, reduction="sum")
    return (loss + F.cross_entropy(logits.T, right, reduction="sum")) / 2 if symmetric else loss


def cosent(cosines: Tensor, scores: Tensor, scale: float) -> Tensor:
    """ln(1 + Σ exp(scale · (cos_i - cos_j))) over all i, j with score_i < score_j; both (P,).  In O(P ln P)."""
    scores, order = scores.sort()
    logits = scale * cosines[order]
    below = torch.searchsorted(scores.contiguous(), scores.contiguous())  # how many have a smaller score
    worse = below > 0
    if not bool(worse.any()):
        return (0 * cosines).sum()
    sums = logits.logcumsumexp(dim=0)[below[worse] - 1]
    return F.softplus(torch.logsumexp(sums - logits[worse], dim=0))


def same_pairs(first: Tensor, second: Tensor) -> Tensor:
    """Bool (P, P): two different pairs that share their first or their second text, by ids (P, T) padded alike."""
    same = (first[:, None] == first).all(dim=-1) | (second[:, None] == second).all(dim=-1)
    return same & ~torch.eye(len(first), dtype=torch.bool, device=first.device)


def _vectors(model: Callable[..., Tensor], batch: Batch) -> Tensor:
    """Vectors of length 1, (2 P, D)."""
    vectors = model(*batch.read).float()
    if vectors.dim() != 2 or len(vectors) % 2:
        raise ValueError(f"the model gives {tuple(vectors.shape)}; expected one vector for each text of pairs")
    return F.normalize(vectors, dim=-1)


def _halves(rows: Tensor) -> tuple[Tensor, Tensor]:
    return rows[: len(rows) // 2], rows[len(rows) // 2 :]
