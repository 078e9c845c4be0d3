"""Samples of rows that do not depend on the order in which a file has them."""

import random
from collections.abc import Iterable
from typing import TypeVar

import numpy as np

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
