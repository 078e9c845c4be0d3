"""Batches of sequences of different length: little padding, a bound on tokens, an order that a seed fixes.

Letters: B batch, T length of the longest sequence in it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import torch

from headway.data.batches.encoded import row_lengths

IGNORED = -100
"""The target of positions that do not count in the loss."""


class TargetKind(StrEnum):
    """What each target of a batch belongs to: with some of the rows go those of their targets."""

    ROW = "row"
    """one number (B,), or one vector (B, C), for each row"""
    PAIR = "pair"
    """one number (P,) for each pair of the rows i and P + i, of 2 P rows"""
    TOKEN = "token"
    """one number for each token, in its column: (B, T)"""
    SPAN = "span"
    """the columns (B, 2) of the first and the last token of a part of each row"""
    SEQUENCE = "sequence"
    """a sequence for each row, in columns of its own (B, N), filled up with `IGNORED`"""


@dataclass(frozen=True)
class Batch:
    """What a task's loss is computed from."""

    inputs: dict[str, torch.Tensor]
    """What the model reads: "ids" int64 (B, T), and "segments" int64 (B, T) where a row is two texts; or "pixels"."""
    mask: torch.Tensor | None
    """Bool (B, T), true where there is a token; None when there is one everywhere."""
    targets: torch.Tensor
    """Whole or real numbers, of the shape that ``kind`` says; some may be `IGNORED`."""
    kind: TargetKind
    patches: int = 0
    """how many tokens the model makes of each image, where the inputs are "pixels" float32 (B, C, H, W)"""
    weights: torch.Tensor | None = None
    """How much each row counts in the loss, float32 (B,); None: all the same."""
    idle: bool = False
    """whether it counts nothing: what a process computes that has no rows, so that others can exchange with it"""

    def __len__(self) -> int:
        """How many rows there are, or pairs of rows."""
        return len(self.targets)

    @property
    def ids(self) -> torch.Tensor:
        """Token ids, int64 (B, T)."""
        return self.inputs["ids"]

    @property
    def read(self) -> tuple[Any, ...]:
        """The arguments of a model that reads the inputs, in their order: ids or pixels, the mask, segments."""
        first, *others = self.inputs.values()
        return first, self.mask, *others

    def each(self, change: Callable[[Any], Any]) -> "Batch":
        """The same batch with every tensor changed."""
        inputs = {name: change(tensor) for name, tensor in self.inputs.items()}
        mask, weights = (None if tensor is None else change(tensor) for tensor in (self.mask, self.weights))
        return replace(self, inputs=inputs, mask=mask, targets=change(self.targets), weights=weights)

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on a device."""
        return self.each(lambda tensor: tensor.to(device, non_blocking=True))

    @property
    def weight(self) -> float:
        """How much all rows count together: their weights, or how many there are."""
        return len(self) if self.weights is None else float(self.weights.sum())

    def weighed(self, losses: torch.Tensor) -> torch.Tensor:
        """The losses of the rows (B, ...), each times its weight."""
        return losses if self.weights is None else losses * self.weights.view(-1, *[1] * (losses.ndim - 1))

    @property
    def lengths(self) -> torch.Tensor:
        """How many tokens each row or pair has, its target sequence included, int64 (``len(self)``,)."""
        if self.patches:
            return torch.full((len(self),), self.patches)
        own = torch.full((len(self.ids),), self.ids.shape[1]) if self.mask is None else self.mask.sum(dim=1)
        if self.kind is TargetKind.SEQUENCE:
            return own + (self.targets != IGNORED).sum(dim=1)
        return own.view(2, -1).sum(dim=0) if self.kind is TargetKind.PAIR else own

    def rows(self, index: torch.Tensor) -> "Batch":
        """Some rows (or pairs), by number int64 (N,), without columns that hold only padding.

        Every row begins in the first column.  Only targets for tokens, and those that are sequences, lose columns.
        """
        both = torch.cat([index, len(self) + index]) if self.kind is TargetKind.PAIR else index
        inputs = {name: tensor[both] for name, tensor in self.inputs.items()}
        mask, targets = self.mask, self.targets[index]
        if mask is not None:
            mask = mask[both]
            longest = int(mask.sum(dim=1).max())
            inputs = {name: tensor[:, :longest] for name, tensor in inputs.items()}
            mask = None if bool(mask[:, :longest].all()) else mask[:, :longest]
            targets = targets[:, :longest] if self.kind is TargetKind.TOKEN else targets
        if self.kind is TargetKind.SEQUENCE:
            targets = targets[:, : int((targets != IGNORED).sum(dim=1).max())]
        weights = None if self.weights is None else self.weights[index]
        return replace(self, inputs=inputs, mask=mask, targets=targets, weights=weights)

    @property
    def tokens(self) -> int:
        """How many real tokens there are, padding left out; where the targets are sequences, those of the targets."""
        if self.kind is TargetKind.SEQUENCE:
            return int((self.targets != IGNORED).sum())
        return self.places if self.mask is None else int(self.mask.sum())

    @property
    def places(self) -> int:
        """How many positions there are, padding included."""
        return len(self) * self.patches or self.ids.numel()


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


def segments_of(borders: Sequence[int] | np.ndarray, width: int) -> torch.Tensor:
    """Of rows that are two texts each the segment of every place, int64 (B, width): 0, and 1 from its border on."""
    return (torch.arange(width) >= torch.as_tensor(borders)[:, None]).long()


def border(segments: Sequence[int]) -> int:
    """The place at which the second text of a row begins; the length of the row where nothing tells the two apart."""
    return segments.index(1) if 1 in segments else len(segments)


def sent(numbers: Any, device: torch.device | str) -> torch.Tensor:
    """Whole numbers, in a list or in lists of one length, as a tensor (int64) on a device, without waiting for it."""
    return torch.tensor(numbers, dtype=torch.int64).to(device, non_blocking=True)


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
