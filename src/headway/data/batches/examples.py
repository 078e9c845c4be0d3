"""Sequences with what is wanted of each, and the batches that they make.

Letters: N examples, T tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from headway.data.batches.batching import IGNORED, Batch, TargetKind, length_batches, longest_batch, pad, segments_of
from headway.data.batches.encoded import row_lengths


@dataclass(frozen=True, eq=False)
class Examples:
    """N sequences of ids with their targets, in batches of similar length."""

    ids: Sequence[Sequence[int]]
    targets: Any
    """A sequence or an array: for each a number, a vector of numbers, or a sequence of them, as ``kind`` says."""
    kind: TargetKind
    second: Sequence[Sequence[int]] | None = None
    """the second sequences, where the kind is `PAIR`; ``ids`` are the first"""
    borders: np.ndarray | None = None
    """int64 (N,), where each sequence is two texts: the place at which the second begins"""
    weights: np.ndarray | None = None
    """how much each counts in the loss, float32 (N,), where they differ"""

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def lengths(self) -> tuple[np.ndarray, np.ndarray | None]:
        """The tokens of each in a batch, int64 (N,), and those of what is padded by itself: the source of a target."""
        own = row_lengths(self.ids)
        if self.kind is TargetKind.SEQUENCE:
            return row_lengths(self.targets), own
        return own if self.second is None else 2 * np.maximum(own, row_lengths(self.second)), None

    def order(self, tokens: int, seed: int = 0, epoch: int = 0, most: int | None = None) -> list[np.ndarray]:
        """The examples of each batch, by number (``length_batches``); ``most`` is how many a batch may have."""
        sizes, second = self.lengths
        return length_batches(sizes, tokens, seed, epoch, second=second, max_examples=most)

    def batches(self, tokens: int) -> Iterator[Batch]:
        """Every example once, those of similar length together, always in the same order."""
        return map(self.batch, self.order(tokens))

    def longest(self, tokens: int, most: int | None = None) -> Batch:
        """The longest examples, as many as one batch holds."""
        sizes, second = self.lengths
        return self.batch(longest_batch(sizes, tokens, second=second, max_examples=most))

    def together(self) -> Batch:
        """All in one batch."""
        return self.batch(np.arange(len(self)))

    def batch(self, index: np.ndarray) -> Batch:
        """These examples together."""
        columns = [self.ids] if self.second is None else [self.ids, self.second]
        ids, mask = pad([column[i] for column in columns for i in index])
        inputs, wanted = {"ids": ids}, [self.targets[i] for i in index]
        if self.borders is not None:
            inputs["segments"] = segments_of(self.borders[index], ids.shape[1])
        if self.kind in (TargetKind.TOKEN, TargetKind.SEQUENCE):
            targets = pad(wanted, IGNORED)[0]
        else:
            numbers = np.asarray(wanted)
            targets = torch.from_numpy(numbers.astype(np.float32 if numbers.dtype.kind in "fb" else np.int64))
        weights = None if self.weights is None else torch.from_numpy(self.weights[index])
        return Batch(inputs, None if bool(mask.all()) else mask, targets, self.kind, weights=weights)
