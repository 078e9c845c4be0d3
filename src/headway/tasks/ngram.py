"""What a language model must be ahead of: ln V, and the cross-entropy of unigram and bigram counts."""

import math
from typing import Any

import numpy as np

CHUNK = 1 << 22
"""Tokens counted at a time."""


def ngram_baselines(train: np.ndarray, validation: np.ndarray, vocab_size: int) -> list[dict[str, Any]]:
    """Nats per token of guessing evenly, by frequency, and by the token before, on ``validation``.

    Unigrams are smoothed by adding one; bigrams are interpolated with the unigrams by Witten and Bell's rule, so that
    no pair is impossible.  Without a target in ``validation`` there is nothing but guessing evenly.
    """
    uniform = {"name": "uniform (ln V)", "val_loss": math.log(vocab_size)}
    if len(validation) < 2:
        return [uniform]
    chances = unigrams(token_counts(train, vocab_size))
    targets = np.asarray(validation[1:], dtype=np.int64)
    before = np.asarray(validation[:-1], dtype=np.int64)
    pairs, counts = _pair_counts(train, vocab_size)
    firsts = pairs // vocab_size
    total = np.bincount(firsts, weights=counts, minlength=vocab_size)
    kinds = np.bincount(firsts, minlength=vocab_size).astype(float)
    wanted = before * vocab_size + targets
    place = np.searchsorted(pairs, wanted).clip(max=max(0, len(pairs) - 1))
    seen = np.where(pairs[place] == wanted, counts[place], 0) if len(pairs) else np.zeros(len(wanted))
    mass = np.maximum(total + kinds, 1)
    unseen = np.where(total > 0, kinds / mass, 1.0)
    bigram = seen / mass[before] + unseen[before] * chances[targets]
    return [
        uniform,
        {"name": "unigram", "val_loss": float(-np.log(chances[targets]).mean())},
        {"name": "bigram", "val_loss": float(-np.log(bigram).mean())},
    ]


def unigram_baselines(train: np.ndarray, validation: np.ndarray, vocab_size: int) -> list[dict[str, Any]]:
    """Nats per token of guessing evenly, and by how often each token is a target in training (one added to each)."""
    chances = unigrams(token_counts(train, vocab_size))
    return [
        {"name": "uniform (ln V)", "val_loss": math.log(vocab_size)},
        {"name": "unigram", "val_loss": float(-np.log(chances[validation]).mean())},
    ]


def token_counts(tokens: np.ndarray, vocab_size: int) -> np.ndarray:
    """How often each token occurs, int64 (V,); in bounded memory."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    for start in range(0, len(tokens), CHUNK):
        counts += np.bincount(tokens[start : start + CHUNK], minlength=vocab_size)
    return counts


def unigrams(counts: np.ndarray) -> np.ndarray:
    """The probability of each token by its count, one added to each: float64 (V,)."""
    return (counts + 1.0) / (counts.sum() + len(counts))


def _pair_counts(train: np.ndarray, vocab_size: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct pairs of neighbours, as first × V + second, ascending, and how often each occurs."""
    pairs, counts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    for start in range(0, len(train) - 1, CHUNK):
        piece = np.asarray(train[start : start + CHUNK + 1], dtype=np.int64)
        found, n = np.unique(piece[:-1] * vocab_size + piece[1:], return_counts=True)
        merged = np.concatenate([pairs, found])
        pairs, index = np.unique(merged, return_inverse=True)
        counts = np.bincount(index, weights=np.concatenate([counts, n])).astype(np.int64)
    return pairs, counts
