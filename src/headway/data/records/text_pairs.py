"""Pairs of texts from a table, with warnings about pairs that look wrong."""

import math
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from headway.data.open.columns import number
from headway.data.records.repeats import text_hashes
from headway.data.records.table import Table
from headway.data.records.text_rows import Found, Growing, TextRows
from headway.errors import InputError

SEPARATOR = re.compile("[\r\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e]")
"""A character that other programs take for the end of a line."""
EXTREME = 9.0
"""In an extreme pair, one text is this many times longer than the other, relative to the usual ratio."""
SHORT = 20
"""Characters: of shorter texts any ratio is possible."""
LOOKED_AT, CHARACTERS = 100_000, 30_000_000
"""Pairs, and characters in them: of more, every n-th pair is looked at for sides that are exchanged."""
SURE = 0.9
"""Sides are told apart by their words where that works for this share of the pairs."""
DECISIVE = 3.0
"""Nats by which the words of both texts must lean to the other side before a pair is said to be exchanged."""
TURNS = 8
"""How often pairs are swapped and their words counted again, at most."""


@dataclass(frozen=True)
class TextPairs(TextRows):
    """Rows that have two texts; ``hashes`` are those of the first ones."""

    scores: np.ndarray | None = None
    """How near the texts are, float64 (N,), where the table says so."""

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Both texts of each row, as they are read."""
        return self.cells

    @property
    def texts(self) -> Iterator[str]:
        """First and second texts alternately, so that any prefix has as much of both."""
        return (text for pair in self for text in pair)

    @property
    def characters(self) -> int:
        """The characters of all texts."""
        return int(self.lengths.sum(dtype=np.int64))

    @property
    def sources(self) -> TextRows:
        """The first texts."""
        return self._side(0)

    @property
    def targets(self) -> TextRows:
        """The second texts."""
        return self._side(1)

    def _side(self, at: int) -> TextRows:
        column, lengths = self.columns[at : at + 1], self.lengths[at]
        return TextRows(self.table, column, lengths, index=self.index, hashes=self.hashes)

    def looked_at(self) -> "TextPairs":
        """Every n-th pair, so that there are few enough to compare their words."""
        return self.part(slice(None, None, self.step))

    @property
    def step(self) -> int:
        """That n."""
        return max(1, -(-len(self) // LOOKED_AT), -(-self.characters // CHARACTERS))


class PairReading:
    """The facts that one pass over two columns of texts, and a column of scores, finds."""

    def __init__(self, table: Table, columns: tuple[str, str], scored: str | None = None):
        for column in (*columns, *([scored] if scored else [])):
            table.check_column(column)
        self.half, self.empty = Found("one side is empty"), Found("both sides are empty")
        self.unscored = Found("no number as score")
        self.equal = Found("the same text on both sides")
        self.broken = Found("with a line separator such as U+2028, which counts as text")
        growing, start = Growing(index="q", hashes="q", first="i", second="i", scores="d"), 0
        for chunk in table.chunks():
            sides = [chunk.columns[name] for name in columns]
            numbers = np.fromiter(map(number, chunk.columns[scored] if scored else ()), np.float64)
            rows = self._filled(sides, numbers if scored else np.zeros(len(chunk)), start)
            sides = [[texts[row] for row in rows.tolist()] for texts in sides]
            self._look(sides, start + rows)
            growing.add(index=start + rows, hashes=text_hashes(sides[0]), scores=numbers[rows] if scored else [])
            growing.add(first=[*map(len, sides[0])], second=[*map(len, sides[1])])
            start += len(chunk)
        index, hashes, first, second, scores = growing.arrays().values()
        lengths, known = np.stack([first, second]), scores if scored else None
        self.pairs = TextPairs(table, columns, lengths, known, index=index, hashes=hashes)

    def _filled(self, sides: list[list[str]], scores: np.ndarray, start: int) -> np.ndarray:
        """The numbers of the rows that lack nothing; the others are counted."""
        one, other = (np.array([not text or text.isspace() for text in texts], dtype=bool) for texts in sides)
        unscored = np.isnan(scores) & ~one & ~other
        for what, lacking in ((self.half, one ^ other), (self.empty, one & other), (self.unscored, unscored)):
            what.add(start + np.flatnonzero(lacking))
        return np.flatnonzero(~(one | other | unscored))

    def _look(self, sides: list[list[str]], rows: np.ndarray) -> None:
        """Look at the texts of some rows, by their numbers in the table."""
        equal = [i for i, (one, other) in enumerate(zip(*sides, strict=True)) if one == other]
        self.equal.add(rows[equal])
        if any(SEPARATOR.search("\n".join(texts)) for texts in sides):
            broken = [i for i, pair in enumerate(zip(*sides, strict=True)) if any(map(SEPARATOR.search, pair))]
            self.broken.add(rows[broken])


def read_text_pairs(table: Table, source: str, target: str) -> TextPairs:
    """The pairs of two columns.  Those with nothing on a side are left out and counted, others are never changed.

    Raises InputError when none are left.
    """
    reading = PairReading(table, (source, target))
    pairs, half, empty = reading.pairs, reading.half, reading.empty
    if not len(pairs):
        raise InputError(f"{table.name}: no row has both a {source} and a {target}.")
    warnings = []
    if half.count:
        warnings.append(f"left out because {half.what}: {half.count:,} ({table.places(half.first)})")
    if empty.count:
        warnings.append(f"left out because {empty.what}: {empty.count:,}")
    looked = "" if pairs.step == 1 else f" (one in {pairs.step:,} was checked)"
    extreme = Found("much longer on one side than in other pairs")
    exchanged = Found(f"source and target seem to be swapped{looked}")
    extreme.add(pairs.index[extreme_pairs(pairs)])
    exchanged.add(pairs.index[exchanged_pairs(pairs)])
    for one in (reading.equal, extreme, exchanged, reading.broken):
        if one.count:
            share = f"{one.count:,} of {len(pairs):,} pairs, {one.count / len(pairs):.1%}"
            warnings.append(f"{one.what}: {share} ({table.places(one.first)})")
    return replace(pairs, warnings=warnings)


def extreme_pairs(pairs: TextPairs) -> np.ndarray:
    """The numbers of pairs whose lengths do not go together: a sign that they do not belong together."""
    one, other = pairs.lengths
    usual = math.exp(float(np.log(other / one).mean()))
    ratio = (other + 1) / ((one + 1) * usual)
    return np.flatnonzero((np.maximum(one, other) > SHORT) & ~((ratio > 1 / EXTREME) & (ratio < EXTREME)))


def exchanged_pairs(pairs: TextPairs) -> np.ndarray:
    """The numbers of pairs whose source reads like a target, and whose target like a source: always the fewer ones.

    By the words of both sides (naive Bayes): pairs that lean the other way are turned round and the words counted
    again, until none does.  Nothing where the words do not tell the sides apart.
    """
    looked, known = pairs.looked_at(), dict[str, int]()
    numbers, sizes = (array("i"), array("i")), (array("i"), array("i"))  # the distinct words of each text, side by side
    for pair in looked:
        for side, text in enumerate(pair):
            distinct = set(text.lower().split())
            numbers[side].extend([known.setdefault(word, len(known)) for word in distinct])
            sizes[side].append(len(distinct))
    count, size = len(looked), len(known)
    del known
    words = [np.frombuffer(side, np.int32) for side in numbers]
    rows = [np.repeat(np.arange(count, dtype=np.int32), np.frombuffer(side, np.int32)) for side in sizes]
    turned = np.zeros(count, dtype=bool)
    for _ in range(TURNS):
        own = [turned[rows[side]] ^ bool(side) for side in (0, 1)]  # the side on which each word counts
        counts = [
            sum(np.bincount(words[side][own[side] == there], minlength=size) for side in (0, 1)) for there in (0, 1)
        ]
        # how far a word that counts on either side leans to the target's, its occurrence in this very text set aside
        apart = [
            np.log(np.maximum(counts[1] - side, 0) + 0.5) - np.log(np.maximum(counts[0] - 1 + side, 0) + 0.5)
            for side in (0, 1)
        ]
        leans = [
            np.bincount(rows[side], np.where(own[side], apart[1][words[side]], apart[0][words[side]]), count)
            for side in (0, 1)
        ]
        now = (leans[1] < 0) & (leans[0] > 0)
        if (now == turned).all():
            break
        turned = now
    told_apart = (np.minimum(*leans) < 0) & (np.maximum(*leans) > 0)
    if told_apart.sum() < SURE * count:
        return np.zeros(0, dtype=np.int64)
    sign = 1 if turned.sum() * 2 <= count else -1  # of those that lean as the fewer ones do
    return pairs.step * np.flatnonzero((sign * leans[0] > DECISIVE) & (sign * leans[1] < -DECISIVE))


def exchanged_sides(train: TextPairs, held_out: TextPairs) -> bool:
    """Whether the sources of other pairs read like the targets that are trained on, and their targets like sources."""
    words: tuple[set[str], set[str]] = (set(), set())
    for pair in train.looked_at():
        for known, text in zip(words, pair, strict=True):
            known.update(text.lower().split())
    known_words = np.zeros((2, 2))  # words of held-out sources and targets that are known of sources and targets
    for pair in held_out:
        for side, text in enumerate(pair):
            known_words[side] += [sum(word in known for word in text.lower().split()) for known in words]
    return bool(known_words[0, 1] > known_words[0, 0] and known_words[1, 0] > known_words[1, 1])
