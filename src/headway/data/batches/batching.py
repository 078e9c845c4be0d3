"""Batches of sequences of different length: little padding, a bound on tokens, an order that a seed fixes.

Letters: B batch, T length of the longest sequence in it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

IGNORED = -100
"""The target of positions that do not count in the loss."""


@dataclass(frozen=True)
class Batch:
    """What a task's loss is computed from."""

    ids: torch.Tensor
    """Token ids, int64 (B, T)."""
    mask: torch.Tensor | None
    """Bool (B, T), true where there is a token; None when there is one everywhere."""
    targets: torch.Tensor
    """The targets: (B,) classes, or (B, T) tokens, some of which may be `IGNORED`."""

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on a device."""
        mask = None if self.mask is None else self.mask.to(device, non_blocking=True)
        ids, targets = (tensor.to(device, non_blocking=True) for tensor in (self.ids, self.targets))
        return replace(self, ids=ids, mask=mask, targets=targets)

    @property
    def lengths(self) -> torch.Tensor:
        """How many tokens each row has, int64 (B,)."""
        return torch.full((len(self.ids),), self.ids.shape[1]) if self.mask is None else self.mask.sum(dim=1)

    def rows(self, index: torch.Tensor) -> "Batch":
        """Some rows, by number int64 (N,), without columns that hold only padding.

        Every row begins in the first column, and targets for each token stand in the same columns as the tokens.
        """
        ids, targets = self.ids[index], self.targets[index]
        if self.mask is None:
            return Batch(ids, None, targets)
        mask = self.mask[index]
        longest = int(mask.sum(dim=1).max())
        mask, ids = mask[:, :longest], ids[:, :longest]
        targets = targets[:, :longest] if targets.dim() == 2 else targets
        return Batch(ids, None if bool(mask.all()) else mask, targets)

    @property
    def tokens(self) -> int:
        """How many real tokens there are, padding left out."""
        return self.ids.numel() if self.mask is None else int(self.mask.sum())

    @property
    def places(self) -> int:
        """How many positions there are, padding included."""
        return self.ids.numel()


@dataclass(frozen=True)
class TargetBatch(Batch):
    """Sources with a target sequence each: ``ids`` and ``mask`` (B, S), ``targets`` (B, T).

    Targets have columns of their own, filled up with `IGNORED`.
    """

    @property
    def lengths(self) -> torch.Tensor:
        """How many tokens source and target of each row have together, int64 (B,)."""
        return super().lengths + (self.targets != IGNORED).sum(dim=1)

    def rows(self, index: torch.Tensor) -> "TargetBatch":
        """Some rows, by number int64 (N,), without columns that hold only padding."""
        source = super().rows(index)
        targets = self.targets[index]
        longest = int((targets != IGNORED).sum(dim=1).max())
        return TargetBatch(source.ids, source.mask, targets[:, :longest])

    @property
    def tokens(self) -> int:
        """How many real target tokens there are."""
        return int((self.targets != IGNORED).sum())


@dataclass(frozen=True)
class ImageBatch(Batch):
    """Images with a class each: ``ids`` are their numbers, float32 (B, C, H, W), no mask, ``targets`` (B,)."""

    each: int = 1
    """How many tokens the model makes of an image."""

    @property
    def lengths(self) -> torch.Tensor:
        """How many tokens each image is, int64 (B,)."""
        return torch.full((len(self.ids),), self.each)

    def rows(self, index: torch.Tensor) -> "ImageBatch":
        """Some images, by number int64 (N,)."""
        return ImageBatch(self.ids[index], None, self.targets[index], self.each)

    @property
    def tokens(self) -> int:
        """How many tokens all images are together."""
        return len(self.ids) * self.each

    @property
    def places(self) -> int:
        """The same: images have no padding."""
        return self.tokens


def on_device(batches: Iterable[Batch], device: torch.device | str) -> Iterator[Batch]:
    """The same batches, each moved to a device when its turn comes."""
    return (batch.to(device) for batch in batches)


def length_batches(
    lengths: Sequence[int] | np.ndarray,
    tokens_per_batch: int,
    seed: int,
    epoch: int,
    *,
    second: Sequence[int] | np.ndarray | None = None,
    max_examples: int | None = None,
) -> list[np.ndarray]:
    """Every index of `lengths` once, in batches (int64) of similar length; a pure function of its arguments.

    A batch holds at most `tokens_per_batch` tokens, padding included, and at most `max_examples` sequences; a sequence
    that is longer than the budget is a batch of its own.  `second` are the lengths of second sequences, which are
    padded by themselves and count too.
    """
    if tokens_per_batch < 1 or (max_examples is not None and max_examples < 1):
        raise ValueError(f"tokens_per_batch {tokens_per_batch} and max_examples {max_examples} must be 1 or more")
    sizes = np.maximum(np.asarray(lengths, dtype=np.int64), 1)
    others = np.zeros_like(sizes) if second is None else np.asarray(second, dtype=np.int64)
    random = np.random.default_rng([seed, epoch])
    shuffled = random.permutation(len(sizes))
    by_length = shuffled[np.lexsort((others[shuffled], sizes[shuffled]))]
    batches = []
    start = widest = 0
    for end, index in enumerate(by_length):
        count = end - start + 1  # with this sequence, the longest so far
        widest = max(widest, int(others[index]))
        full = count * (sizes[index] + widest) > tokens_per_batch or (max_examples is not None and count > max_examples)
        if full and end > start:
            batches.append(by_length[start:end])
            start, widest = end, int(others[index])
    if start < len(by_length):
        batches.append(by_length[start:])
    return [batches[i] for i in random.permutation(len(batches))]


def longest_batch(
    lengths: Sequence[int] | np.ndarray,
    tokens_per_batch: int,
    *,
    second: Sequence[int] | np.ndarray | None = None,
    max_examples: int | None = None,
) -> np.ndarray:
    """The longest sequences, by index, as many as a batch of `length_batches` may hold: the most memory."""
    sizes = np.maximum(np.asarray(lengths, dtype=np.int64), 1)
    others = np.zeros_like(sizes) if second is None else np.asarray(second, dtype=np.int64)
    order = np.argsort(-(sizes + others), kind="stable")[:max_examples]
    widest = np.maximum.accumulate(sizes[order]) + np.maximum.accumulate(others[order])
    count = int((widest * np.arange(1, len(order) + 1) <= tokens_per_batch).sum())
    return order[: max(1, count)]


def pad(sequences: Sequence[Sequence[int]], pad_id: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences of ids as (ids int64 (B, T), mask bool (B, T), true where a token is), filled up with `pad_id`."""
    if not sequences:
        raise ValueError("no sequences to pad")
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    longest = max(1, int(lengths.max()))
    ids = torch.full((len(sequences), longest), pad_id, dtype=torch.int64)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = torch.tensor(sequence, dtype=torch.int64)
    mask = torch.arange(longest) < lengths[:, None]  # (B, T)
    return ids, mask


def padded(rows: Sequence[Sequence[int]], device: torch.device | str) -> tuple[torch.Tensor, torch.Tensor | None]:
    """``pad`` on a device, with None for the mask where all rows are equally long."""
    if len({len(row) for row in rows}) == 1 and len(rows[0]) > 0:
        return torch.from_numpy(np.array(rows, dtype=np.int64)).to(device, non_blocking=True), None
    ids, mask = pad(rows)
    return ids.to(device, non_blocking=True), mask.to(device, non_blocking=True)


def sent(numbers: Any, device: torch.device | str) -> torch.Tensor:
    """Whole numbers, in a list or in lists of one length, as a tensor (int64) on a device, without waiting for it."""
    return torch.tensor(numbers, dtype=torch.int64).to(device, non_blocking=True)
