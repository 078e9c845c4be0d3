"""How long the sequences of a run may be, from those that are there."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from headway.text.tokenizer import Tokenizer


def usual_longest(lengths: Sequence[int], most: int) -> int:
    """A length in tokens that holds nearly all: 1.5 × the 99th percentile, a multiple of 16, from 32 to ``most``."""
    return int(min(most, max(32, -(-1.5 * np.percentile(lengths, 99) // 16) * 16)))


def shortened(rows: Sequence[list[int]], longest: int, tokenizer: Tokenizer) -> list[list[int]]:
    """Ids of at most ``longest`` tokens; what ends a text ([SEP]) stays its end."""
    return list(each_shortened(rows, longest, tokenizer))


def each_shortened(rows: Iterable[list[int]], longest: int, tokenizer: Tokenizer) -> Iterator[list[int]]:
    """The same, one after the other."""
    ends = tokenizer.special_ids
    return (ids if len(ids) <= longest else _cut(ids, longest, ends) for ids in rows)


def _cut(ids: list[int], longest: int, ends: frozenset[int]) -> list[int]:
    return [*ids[: longest - 1], ids[-1]] if ids[-1] in ends else ids[:longest]


def cut_warning(rows: Sequence[list[int]], longest: int) -> list[str]:
    """A line about how many texts, and what share of all tokens, are longer than that."""
    cut = sum(len(ids) > longest for ids in rows)
    lost = sum(max(0, len(ids) - longest) for ids in rows) / max(1, sum(map(len, rows)))
    return [f"{cut:,} texts exceed {longest} tokens and are cut in training ({lost:.1%} of all tokens)"] if cut else []
