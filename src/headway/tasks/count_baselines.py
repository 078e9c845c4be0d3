"""The baselines of models that predict tokens: ln V, and the cross-entropy of unigram and bigram counts."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from headway.data.batches.encoded import EncodedRows
from headway.data.batches.tokens import Tokens

CHUNK = 1 << 20
"""Tokens counted at a time."""
MOST_PAIRS = 1 << 20
"""Distinct pairs of tokens that are held at a time; where there are more, the text is read again for the others."""
MOST_BLOCKS, BLOCK = 1 << 16, 16
"""Blocks of held-out text whose losses are remembered at most, and the fewest tokens of one."""


class LossAlong:
    """The losses of baselines along a text, from which that of any window follows, in bounded memory."""

    def __init__(self, n_targets: int):
        self.block = max(BLOCK, -(-n_targets // MOST_BLOCKS))
        self.ends = np.minimum(np.arange(-(-n_targets // self.block) + 1) * self.block, n_targets)
        self._sums: dict[str, np.ndarray] = {}

    def add(self, name: str, places: np.ndarray, losses: np.ndarray) -> None:
        """Take in the losses (n,) of a baseline at the targets with these numbers (n,)."""
        sums = self._sums.setdefault(name, np.zeros(len(self.ends) - 1))
        sums += np.bincount(places // self.block, weights=losses, minlength=len(sums))

    def windows(self, length: int, every: int = 1) -> dict[str, np.ndarray]:
        """(sum of the loss, number of targets) of every n-th window of ``length`` targets, by the name: (N, 2).

        Where a window begins or ends within a block, the block's loss is shared out evenly.
        """
        starts = np.arange(0, int(self.ends[-1]), length)[::every]
        stops = np.minimum(starts + length, self.ends[-1])
        by_name = {}
        for name, sums in self._sums.items():
            before = np.concatenate([[0.0], sums.cumsum()])
            of_windows = np.interp(stops, self.ends, before) - np.interp(starts, self.ends, before)
            by_name[name] = np.stack([of_windows, stops - starts], axis=1)
        return by_name


def ngram_baselines(
    train: Tokens, validation: Tokens, vocab_size: int, along: LossAlong | None = None
) -> list[dict[str, Any]]:
    """Nats per token of guessing evenly, by frequency, and by the token before, on ``validation``; in bounded memory.

    Unigrams are smoothed by adding one; bigrams are interpolated with the unigrams by Witten and Bell's rule, so that
    no pair is impossible.  Without a target in ``validation`` there is nothing but guessing evenly.  ``along`` is told
    the losses of both.
    """
    uniform = {"name": "uniform (ln V)", "val_loss": math.log(vocab_size)}
    if len(validation) < 2:
        return [uniform]
    chances = unigrams(token_counts(train, vocab_size))
    targets = token_counts(validation, vocab_size)
    targets[int(validation[0])] -= 1  # the first token is no target
    bigram, low = 0.0, 0
    while low < vocab_size:
        high, pairs, counts = _pair_counts(train, vocab_size, low)
        bigram += _bigram_loss(validation, chances, low, high, pairs, counts, along)
        low = high
    if along is not None:
        for start in range(1, len(validation), CHUNK):
            losses = -np.log(chances[np.asarray(validation[start : start + CHUNK], dtype=np.int64)])
            along.add("unigram", np.arange(start - 1, start - 1 + len(losses)), losses)
    return [
        uniform,
        {"name": "unigram", "val_loss": mean_loss(chances, targets)},
        {"name": "bigram", "val_loss": bigram / (len(validation) - 1)},
    ]


def unigram_baselines(
    train: EncodedRows, held_out: EncodedRows, vocab_size: int
) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Nats per token of guessing evenly, and by how often each token is a target in training (one added to each).

    Negative numbers are none.  Of the second also (sum of the loss, number of targets) of each held-out row, (N, 2).
    """
    chances = unigrams(token_counts(train, vocab_size))
    losses = -np.log(chances)
    lines = [
        {"name": "uniform (ln V)", "val_loss": math.log(vocab_size)},
        {"name": "unigram", "val_loss": mean_loss(chances, token_counts(held_out, vocab_size))},
    ]
    targets = ([token for token in row if token >= 0] for row in held_out)
    each = ((float(losses[row].sum()), len(row)) for row in targets)
    return lines, np.fromiter(each, np.dtype((np.float64, 2)), len(held_out))


def token_counts(tokens: Tokens | EncodedRows, vocab_size: int) -> np.ndarray:
    """How often each token occurs, int64 (V,); in bounded memory.  Negative numbers are none."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    if isinstance(tokens, EncodedRows):
        parts = (ids for ids, _ in tokens.parts())
    else:
        parts = (tokens[start : start + CHUNK] for start in range(0, len(tokens), CHUNK))
    for part in parts:
        counts += np.bincount(part[part >= 0], minlength=vocab_size)
    return counts


def unigrams(counts: np.ndarray) -> np.ndarray:
    """The probability of each token by its count, one added to each: float64 (V,)."""
    return (counts + 1.0) / (counts.sum() + len(counts))


def mean_loss(chances: np.ndarray, counts: np.ndarray) -> float:
    """The mean of -ln p over tokens that occur so often: (V,) both."""
    return float(-(counts * np.log(chances)).sum() / counts.sum())


def _pair_counts(tokens: Tokens, vocab_size: int, low: int) -> tuple[int, np.ndarray, np.ndarray]:
    """The distinct pairs of neighbours whose first token is ``low`` or above and below a bound, and their counts.

    Returns that bound, the pairs as first × V + second, ascending, and how often each occurs.  The bound is lowered
    while there are more than MOST_PAIRS, but pairs with one first token are always taken together.
    """
    high = vocab_size
    pairs, counts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    for chunk in _pairs(tokens, vocab_size):
        within = (chunk >= low * vocab_size) & (chunk < high * vocab_size)
        distinct, n = np.unique(chunk[within], return_counts=True)
        indices = np.searchsorted(pairs, distinct)
        known = indices < len(pairs)
        known[known] = pairs[indices[known]] == distinct[known]
        counts[indices[known]] += n[known]
        pairs = np.insert(pairs, indices[~known], distinct[~known])
        counts = np.insert(counts, indices[~known], n[~known])
        if len(pairs) > MOST_PAIRS:
            high = max(low + 1, int(pairs[len(pairs) // 2]) // vocab_size)
            kept = int(np.searchsorted(pairs, high * vocab_size))
            pairs, counts = pairs[:kept].copy(), counts[:kept].copy()
    return high, pairs, counts


def _bigram_loss(
    validation: Tokens,
    chances: np.ndarray,
    low: int,
    high: int,
    pairs: np.ndarray,
    counts: np.ndarray,
    along: LossAlong | None,
) -> float:
    """The sum of -ln p over the targets after tokens from ``low`` to below ``high``, in nats."""
    vocab_size, total = len(chances), 0.0
    firsts = pairs // vocab_size
    follows = np.bincount(firsts, weights=counts, minlength=vocab_size)
    kinds = np.bincount(firsts, minlength=vocab_size).astype(float)
    mass = np.maximum(follows + kinds, 1)
    unseen = np.where(follows > 0, kinds / mass, 1.0)
    at = 0
    for chunk in _pairs(validation, vocab_size):
        places = np.flatnonzero((chunk >= low * vocab_size) & (chunk < high * vocab_size))
        wanted = chunk[places]
        before, targets = wanted // vocab_size, wanted % vocab_size
        seen = np.zeros(len(wanted))
        if len(pairs):
            indices = np.searchsorted(pairs, wanted).clip(max=len(pairs) - 1)
            seen = np.where(pairs[indices] == wanted, counts[indices], 0)
        losses = -np.log(seen / mass[before] + unseen[before] * chances[targets])
        total += float(losses.sum())
        if along is not None:
            along.add("bigram", at + places, losses)
        at += len(chunk)
    return total


def _pairs(tokens: Tokens, vocab_size: int) -> Iterator[np.ndarray]:
    """All neighbours as first × V + second, CHUNK at a time."""
    for start in range(0, len(tokens) - 1, CHUNK):
        piece = np.asarray(tokens[start : start + CHUNK + 1], dtype=np.int64)
        yield piece[:-1] * vocab_size + piece[1:]
