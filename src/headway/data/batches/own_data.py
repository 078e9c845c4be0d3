"""The data of an own module: arrays, a dataset of torch, or ids, as batches for the training loop."""

import hashlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset, TensorDataset, default_collate

from headway.data.batches.batch_source import BatchSource, EpochBatches, Position, TextBatches
from headway.data.batches.batching import Batch, TargetKind
from headway.errors import InputError

HELD_OUT = 0.1
"""The share of the data that is held out where no validation data are given."""


class DatasetBatches(EpochBatches):
    """Batches of a dataset in a new order every epoch, a pure function of (seed, epoch)."""

    def __init__(self, train: Any, held_out: Any, batch_size: int, seed: int):
        self.train, self.held_out, self.batch_size, self.seed = train, held_out, batch_size, seed

    def order(self, epoch: int) -> list[np.ndarray]:
        """The numbers of the examples in each batch; a single one at the end joins those before (batch norms)."""
        numbers = np.random.default_rng([self.seed, epoch]).permutation(len(self.train))
        starts = np.arange(self.batch_size, len(numbers), self.batch_size)
        return np.split(numbers, starts[:-1] if len(starts) and len(numbers) - starts[-1] == 1 else starts)

    def next(self, position: Position) -> tuple[Batch, Position]:
        return batch_of(self.train, self.at(position)), self.after(position)

    def validation(self) -> Iterator[Batch]:
        numbers = range(0, len(self.held_out), self.batch_size)
        whole = np.arange(len(self.held_out))
        return (batch_of(self.held_out, whole[start : start + self.batch_size]) for start in numbers)

    def validation_batches(self) -> int:
        return math.ceil(len(self.held_out) / self.batch_size)


def batch_of(data: Any, index: np.ndarray) -> Batch:
    """Some examples of a dataset: inputs by their place, and targets; ``patches`` 1 counts each row as one token."""
    parts = data[index] if type(data) is TensorDataset else default_collate([data[i] for i in index.tolist()])
    if not isinstance(parts, list | tuple) or len(parts) < 2 or not all(isinstance(part, Tensor) for part in parts):
        raise InputError("data: an item of the dataset must be a tuple of inputs and last a target, as numbers.")
    *inputs, targets = parts
    return Batch({str(at): part for at, part in enumerate(inputs)}, None, targets, TargetKind.ROW, patches=1)


def batches_of(data: Any, validation: Any, *, length: int, batch_size: int, seed: int) -> BatchSource:
    """The batches of the data and the validation data.  Raises InputError."""
    train = _opened(data, "data")
    held_out = None if validation is None else _opened(validation, "validation")
    if held_out is not None and isinstance(train, np.ndarray) != isinstance(held_out, np.ndarray):
        raise InputError("validation: is of another kind than data; give ids for ids, and rows for rows.")
    if isinstance(train, np.ndarray):
        if held_out is None:
            at = len(train) - int(HELD_OUT * len(train))
            train, held_out = train[:at], train[at:]
        return TextBatches(train, held_out, length, batch_size * length, seed)  # type: ignore[arg-type]
    if held_out is None:
        order = np.random.default_rng(seed).permutation(len(train)).tolist()
        count = max(1, int(HELD_OUT * len(order)))
        if len(order) < 2:
            raise InputError("data: has a single row, of which none can be held out; give validation=.")
        train, held_out = _some(train, order[count:]), _some(train, order[:count])
    return DatasetBatches(train, held_out, batch_size, seed)


def _opened(data: Any, name: str) -> Any:
    """Ids as an array int64 (N,), or a dataset with a length.  Raises InputError."""
    if isinstance(data, tuple):
        parts = [torch.from_numpy(_array(part, name)) for part in data]
        lengths = [len(part) for part in parts]
        if len(parts) < 2 or len(set(lengths)) > 1:
            raise InputError(f"{name}: expected inputs and targets of one length, found lengths {lengths}.")
        data = TensorDataset(*parts)
    elif not isinstance(data, Dataset):
        ids = _array(data, name)
        if ids.ndim != 1 or ids.dtype != np.int64:
            said = f"{ids.dtype} of shape {ids.shape}"
            raise InputError(f"{name}: expected a tuple of inputs and targets, a Dataset, or ids (N,); found {said}.")
        return ids
    if not hasattr(data, "__len__") or not len(data):
        raise InputError(f"{name}: the dataset has no rows or no length, so that no epoch can be made of it.")
    return data


def _some(data: Any, index: list[int]) -> Any:
    """Some rows of a dataset, by number."""
    return (
        TensorDataset(*(part[index] for part in data.tensors)) if type(data) is TensorDataset else Subset(data, index)
    )


def _array(part: Any, name: str) -> np.ndarray:
    """An array (N, ...) of int64, float32 or bool.  Raises InputError."""
    try:
        found = part.detach().cpu().numpy() if isinstance(part, Tensor) else np.asarray(part)
    except ValueError as error:
        raise InputError(f"{name}: is no array ({error}).") from None
    kinds = {"i": np.int64, "u": np.int64, "f": np.float32, "b": np.bool_}
    if found.dtype.kind not in kinds or not found.ndim:
        raise InputError(f"{name}: expected arrays of numbers (N, ...), found {found.dtype} of shape {found.shape}.")
    return np.ascontiguousarray(found, dtype=kinds[found.dtype.kind])


def digest(*given: Any) -> str:
    """The SHA-256 of data; of a Dataset of its length and its first and last items."""
    found = hashlib.sha256()
    for data in given:
        if isinstance(data, Dataset):
            parts = [*batch_of(data, np.array([0, len(data) - 1])).inputs.values(), len(data)]  # type: ignore[arg-type]
        else:
            parts = [] if data is None else list(data) if isinstance(data, tuple) else [data]
        for part in parts:
            found.update(_array(part, "data").tobytes() if not isinstance(part, int) else b"%d" % part)
    return found.hexdigest()
