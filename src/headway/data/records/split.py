"""Validation splits of rows by label and seed, and samples that do not depend on the order of rows in a file."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from itertools import pairwise
from typing import Any, Self, TypeVar

import numpy as np

from headway.data.records.repeats import group_numbers
from headway.errors import InputError
from headway.io.quantities import counted

HELD_OUT = 0.1
"""The share of the data that is held out when no validation file is given."""


@dataclass(frozen=True, kw_only=True)
class RowView:
    """Some rows of a source, of which a run holds some out.

    Arrays, and what has a ``part``, have an entry of each row, along their last axis.
    """

    index: np.ndarray
    """The numbers of the rows in the source in ascending order, int64 (N,)."""
    hashes: np.ndarray
    """Equal for rows that read the same (``text_hashes``), int64 (N,)."""
    warnings: list[str] = field(default_factory=list)
    """One message each, about what was left out and what looks wrong."""

    @property
    def index_key(self) -> str:
        """Which rows these are, in hexadecimal."""
        return sha256(self.index.tobytes()).hexdigest()

    @property
    def strata(self) -> np.ndarray:
        """The number of each one's group, int32 (N,): of every group some are held out."""
        return np.zeros(len(self), dtype=np.int32)

    def __len__(self) -> int:
        return len(self.hashes)

    def part(self, rows: np.ndarray | slice) -> Self:
        """Some of them, by their numbers here in ascending order."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        parts: dict[str, Any] = {
            name: value[..., rows] for name, value in values.items() if isinstance(value, np.ndarray)
        }
        parts |= {name: value.part(rows) for name, value in values.items() if hasattr(value, "part")}
        return replace(self, **parts)

    def split(self, seed: int, known: Sequence[int] | np.ndarray = (), most: int | None = None) -> tuple[Self, Self]:
        """Those to train on, and those that a run with this seed holds out: a tenth, and ``most`` at most.

        Those that read the same are on one side, and none whose hash is ``known`` is held out.
        """
        share = HELD_OUT if most is None else min(HELD_OUT, most / max(1, len(self)))
        train, held_out = split_rows(self.hashes, self.strata, share, seed, known)
        return self.part(train), self.part(held_out)


def split_rows(
    hashes: np.ndarray, targets: np.ndarray, fraction: float, seed: int, known: Sequence[int] | np.ndarray = ()
) -> tuple[np.ndarray, np.ndarray]:
    """Row indices (int64, ascending) for training and for validation; a pure function of its arguments.

    ``hashes`` say which texts read the same (``text_hashes``), ``targets`` are the numbers of labels in alphabetical
    order.  About `fraction` of the rows of every class are held out.  Rows of one text stay on one side; where they
    carry several labels they count for the rarest.  A class with two or more distinct texts has rows on both sides, one
    with a single text stays in training, and so do rows whose hashes are ``known``, of which a base was trained.
    Raises InputError when nothing could be held out.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"fraction is {fraction}, expected a number between 0 and 1")
    numbers, n_groups = group_numbers(hashes)
    classes = _rarest_classes(numbers, n_groups, targets)
    sizes = np.bincount(numbers, minlength=n_groups)
    by_class = np.argsort(classes, kind="stable")  # groups in the order of their first rows
    ends = np.cumsum(np.bincount(classes))
    random = np.random.default_rng(seed)
    new = np.ones(n_groups, dtype=bool)
    new[numbers[np.isin(hashes, known)]] = False
    held = np.zeros(n_groups, dtype=bool)
    for start, end in pairwise([0, *ends.tolist()]):
        members = by_class[start:end]
        held[members[_hold_out(sizes[members], new[members], fraction, random)]] = True
    if not held.any() and new.all():
        raise InputError(
            f"{len(hashes):,} rows with {counted(n_groups, 'distinct text')} are too few to hold out a validation set; "
            "add rows, or name a file with --validation."
        )
    chosen = held[numbers]
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def _rarest_classes(numbers: np.ndarray, n_groups: int, targets: np.ndarray) -> np.ndarray:
    """The class of each group: the rarest of its rows' classes, of equally rare ones the first."""
    order = np.argsort(np.bincount(targets), kind="stable")  # classes, the rarest first
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    rarest = np.full(n_groups, len(order), dtype=np.int32)
    np.minimum.at(rarest, numbers, place[targets])
    return order[rarest]


def _hold_out(sizes: np.ndarray, new: np.ndarray, fraction: float, random: np.random.Generator) -> np.ndarray:
    """The numbers of groups of so many rows, near `fraction` of all rows; at least one ``new`` one where there are two.

    Only new groups are held out.
    """
    if len(sizes) < 2 or not new.any():
        return np.zeros(0, dtype=np.int64)
    left = max(1, round(fraction * int(sizes.sum())))
    shuffled = random.permutation(len(sizes))
    shuffled = shuffled[new[shuffled]]
    rest = shuffled[:-1] if new.all() else shuffled  # one stays in training
    held = []
    while len(rest := rest[sizes[rest] <= left]):  # one after the other, those that are too large passed over
        ends = np.cumsum(sizes[rest])
        count = int(np.searchsorted(ends, left, side="right"))
        held.append(rest[:count])
        left, rest = left - int(ends[count - 1]), rest[count:]
    return np.concatenate(held) if held else shuffled[np.argmin(sizes[shuffled])][None]


Row = TypeVar("Row")


def drawn(count: int, most: int) -> np.ndarray:
    """The numbers of ``most`` of so many rows, drawn at random, or of all, ascending: int64 (N,)."""
    return np.arange(count) if count <= most else np.sort(np.random.default_rng(0).permutation(count)[:most])


def drawn_within(sizes: np.ndarray, most: int) -> np.ndarray:
    """The numbers of rows drawn at random while their sizes (N,) come to ``most`` together at most; ascending."""
    order = np.random.default_rng(0).permutation(len(sizes))
    ends = np.cumsum(sizes[order], dtype=np.int64)
    return np.sort(order[: int(np.searchsorted(ends, most, side="right"))])


def few(rows: Iterable[Row], most: int) -> list[Row]:
    """At most so many of the rows, drawn at random, in random order (Vitter 1985, algorithm R)."""
    draw, kept = random.Random(0), list[Row]()
    for number, row in enumerate(rows):
        if number < most:
            kept.append(row)
        elif (at := draw.randrange(number + 1)) < most:
            kept[at] = row
    draw.shuffle(kept)
    return kept
