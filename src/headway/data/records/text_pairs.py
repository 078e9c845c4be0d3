"""Pairs of sources and targets from a table, with warnings about pairs that look wrong."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from headway.data.records.table import Table
from headway.errors import InputError

SEPARATORS = "\r\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e"
"""Characters that other programs take for the end of a line."""
EXTREME = 9.0
"""In an extreme pair, one text is this many times longer than the other, relative to the usual ratio."""
SHORT = 20
"""Characters: of shorter texts any ratio is possible."""
LOOKED_AT = 100_000
"""Pairs: of more, every n-th is looked at for sides that are exchanged."""
SURE = 0.9
"""Sides are told apart by their words where that works for this share of the pairs."""
DECISIVE = 3.0
"""Nats by which the words of both texts must lean to the other side before a pair is said to be exchanged."""
TURNS = 8
"""How often pairs are swapped and their words counted again, at most."""


@dataclass(frozen=True)
class TextPairs:
    """A target for each source."""

    sources: list[str]
    targets: list[str]
    warnings: list[str] = field(default_factory=list)
    """messages about what was left out and what looks wrong"""

    @property
    def texts(self) -> list[str]:
        """Sources and targets alternately, so that any prefix has as much of both."""
        return [text for pair in zip(self.sources, self.targets, strict=True) for text in pair]

    def at(self, index: Sequence[int]) -> "TextPairs":
        """Some of the pairs, without the warnings."""
        return TextPairs([self.sources[i] for i in index], [self.targets[i] for i in index])

    def __len__(self) -> int:
        return len(self.sources)


def read_text_pairs(table: Table, source: str, target: str) -> TextPairs:
    """The pairs of two columns.  Those with nothing on a side are left out and counted, others are never changed.

    Raises InputError when none are left.
    """
    columns = table.column(source), table.column(target)
    filled = [bool(one.strip()) and bool(other.strip()) for one, other in zip(*columns, strict=True)]
    kept = [row for row, whole in enumerate(filled) if whole]
    if not kept:
        raise InputError(f"{table.name}: no row has both a {source} and a {target}.")
    pairs = TextPairs(*([column[row] for row in kept] for column in columns))
    warnings = []
    half = [row for row in range(len(filled)) if not filled[row] and any(column[row].strip() for column in columns)]
    if half:
        warnings.append(f"left out because one side is empty: {len(half):,} ({table.places(half)})")
    both = len(filled) - len(kept) - len(half)
    if both:
        warnings.append(f"left out because both sides are empty: {both:,}")

    def tell(what: str, found: list[int]) -> None:
        if found:
            where = table.places([kept[i] for i in found])
            warnings.append(f"{what}: {len(found):,} of {len(pairs):,} pairs, {len(found) / len(pairs):.1%} ({where})")

    equal = [i for i, (one, other) in enumerate(zip(pairs.sources, pairs.targets, strict=True)) if one == other]
    tell("the same text on both sides", equal)
    tell("much longer on one side than in other pairs", extreme_pairs(pairs))
    each = step_of(len(pairs))
    looked = "" if each == 1 else f" (one in {each:,} was checked)"
    tell(f"source and target seem to be swapped{looked}", exchanged_pairs(pairs))
    broken = [i for i in range(len(pairs)) if any(c in pairs.sources[i] + pairs.targets[i] for c in SEPARATORS)]
    tell("with a line separator such as U+2028, which counts as text", broken)
    return TextPairs(pairs.sources, pairs.targets, warnings)


def extreme_pairs(pairs: TextPairs) -> list[int]:
    """The numbers of pairs whose lengths do not go together: a sign that they do not belong together."""
    lengths = [(len(one), len(other)) for one, other in zip(pairs.sources, pairs.targets, strict=True)]
    usual = math.exp(sum(math.log(b / a) for a, b in lengths) / len(lengths))
    return [
        i
        for i, (a, b) in enumerate(lengths)
        if max(a, b) > SHORT and not 1 / EXTREME < (b + 1) / ((a + 1) * usual) < EXTREME
    ]


def exchanged_pairs(pairs: TextPairs) -> list[int]:
    """The numbers of pairs whose source reads like a target, and whose target like a source: always the fewer ones.

    By the words of both sides (naive Bayes): pairs that lean the other way are turned round and the words counted
    again, until none does.  Nothing where the words do not tell the sides apart.
    """
    index = range(0, len(pairs), step_of(len(pairs)))
    words = [[set(texts[i].lower().split()) for i in index] for texts in (pairs.sources, pairs.targets)]
    counts = [Counter(word for one in side for word in one) for side in words]
    turned = [False] * len(index)

    def to_target(text: set[str], own: int) -> float:
        """How far words lean to the target's side, their occurrence in this very text set aside."""
        chances = [[counts[side][word] - (side == own) + 0.5 for word in text] for side in (0, 1)]
        return sum(math.log(target / source) for source, target in zip(*chances, strict=True))

    leans: list[tuple[float, float]] = []
    for _ in range(TURNS):
        leans = [(to_target(words[0][k], turned[k]), to_target(words[1][k], 1 - turned[k])) for k in range(len(index))]
        now = [target < 0 < source for source, target in leans]
        moved = [k for k in range(len(index)) if now[k] != turned[k]]
        if not moved:
            break
        for k in moved:
            turned[k] = now[k]
            for side in (0, 1):
                to = side if not turned[k] else 1 - side
                counts[to].update(words[side][k])
                counts[1 - to].subtract(words[side][k])
    told_apart = sum(min(source, target) < 0 < max(source, target) for source, target in leans)
    if told_apart < SURE * len(index):
        return []
    sign = 1 if sum(turned) * 2 <= len(index) else -1  # of those that lean as the fewer ones do
    return [i for i, (a, b) in zip(index, leans, strict=True) if sign * a > DECISIVE and sign * b < -DECISIVE]


def step_of(count: int) -> int:
    """The step through so many pairs: which of them are checked."""
    return -(-count // LOOKED_AT)


def exchanged_sides(train: TextPairs, held_out: TextPairs) -> bool:
    """Whether the sources of other pairs read like the targets that are trained on, and their targets like sources."""
    words = [{word for text in texts for word in text.lower().split()} for texts in (train.sources, train.targets)]

    def known(texts: list[str], side: int) -> float:
        found = [word in words[side] for text in texts for word in text.lower().split()]
        return sum(found) / max(1, len(found))

    crossed = known(held_out.sources, 1) > known(held_out.sources, 0)
    return crossed and known(held_out.targets, 0) > known(held_out.targets, 1)
