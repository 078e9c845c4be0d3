"""Holding a part out: rows by label and by seed, running text by its last characters."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from headway.data.corpus import Corpus
from headway.data.labels import text_key
from headway.errors import InputError

HELD_OUT = 0.1
"""The share of the data that is held out when no validation file is given."""


def split_indices(
    texts: Sequence[str], labels: Sequence[str], fraction: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Row indices (int64, ascending) for training and for validation; a pure function of its arguments.

    About `fraction` of the rows of every class are held out.  Rows whose texts read the same (`text_key`) stay on one
    side; where they carry several labels they count for the rarest.  A class with two or more distinct texts has rows
    on both sides, one with a single text stays in training.  Raises InputError when nothing could be held out.
    """
    if len(texts) != len(labels):
        raise ValueError(f"{len(texts)} texts but {len(labels)} labels")
    if not 0 < fraction < 1:
        raise ValueError(f"fraction is {fraction}, expected a number between 0 and 1")
    groups: dict[str, list[int]] = {}
    for i, text in enumerate(texts):
        groups.setdefault(text_key(text), []).append(i)
    counts = Counter(labels)
    by_class: dict[str, list[list[int]]] = {label: [] for label in sorted(counts)}
    for rows in groups.values():
        rarest = min((labels[i] for i in rows), key=lambda label: (counts[label], label))
        by_class[rarest].append(rows)
    random = np.random.default_rng(seed)
    held: list[int] = []
    for members in by_class.values():
        held.extend(_hold_out(members, fraction, random))
    if not held:
        raise InputError(
            f"{len(texts):,} rows with {len(groups):,} distinct texts are too few to hold a part out; "
            "add rows, or name a file with --validation."
        )
    validation = np.sort(np.array(held, dtype=np.int64))
    train = np.setdiff1d(np.arange(len(texts), dtype=np.int64), validation)
    return train, validation


def _hold_out(groups: list[list[int]], fraction: float, random: np.random.Generator) -> list[int]:
    """Rows of whole groups, near `fraction` of them all, with at least one group on each side where there are two."""
    if len(groups) < 2:
        return []
    target = max(1, round(fraction * sum(map(len, groups))))
    shuffled = [groups[i] for i in random.permutation(len(groups))]
    held: list[int] = []
    chosen = 0
    for rows in shuffled[:-1]:  # the last one stays in training
        if len(held) + len(rows) <= target:
            held.extend(rows)
            chosen += 1
    return held if chosen else min(shuffled, key=len)


def text_boundary(n_tokens: int, fraction: float = 0.1) -> int:
    """How many of n characters or tokens are for training when the last `fraction` is held out: int(n * 0.9)."""
    if not 0 < fraction < 1:
        raise ValueError(f"fraction is {fraction}, expected a number between 0 and 1")
    return int(n_tokens * (1 - fraction))


class TextPart:
    """The characters [start, stop) of a corpus, as chunks that can be read any number of times."""

    def __init__(self, corpus: Corpus, start: int, stop: int) -> None:
        self.corpus, self.start, self.stop = corpus, start, stop

    @property
    def n_characters(self) -> int:
        """How many characters there are."""
        return self.stop - self.start

    def __iter__(self) -> Iterator[tuple[str, bool]]:
        """Pairs (text, whether a document ends here); a document cut by the boundary has no end in the first part."""
        at = 0
        for text, ends in self.corpus.chunks():
            low, high = max(self.start - at, 0), min(self.stop - at, len(text))
            at += len(text)
            if low < high:
                yield text[low:high], ends and high == len(text)
            if at >= self.stop:
                return


def split_text(corpus: Corpus, fraction: float = 0.1) -> tuple[TextPart, TextPart]:
    """The training and the validation part of running text: all documents in a row, cut at `text_boundary` characters.

    Both stream from disk.  Raises InputError when a part would be empty.
    """
    n = corpus.n_characters
    boundary = text_boundary(n, fraction)
    if boundary < 1:
        raise InputError(f"{corpus.name}: {n} characters are too few to hold {fraction:.0%} out; add text.")
    return TextPart(corpus, 0, boundary), TextPart(corpus, boundary, n)
