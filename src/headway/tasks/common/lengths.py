"""How long the sequences of a run may be, from those that are there."""

from collections.abc import Sequence

import numpy as np

from headway.data.batches.encoded import cut_row, row_lengths
from headway.text.tokenizer import Tokenizer


def usual_longest(lengths: Sequence[int] | np.ndarray, most: int) -> int:
    """A length in tokens that holds nearly all: 1.5 × the 99th percentile, a multiple of 16, from 32 to ``most``."""
    return int(min(most, max(32, -(-1.5 * np.percentile(lengths, 99) // 16) * 16)))


def shortened(rows: Sequence[list[int]], longest: int, tokenizer: Tokenizer) -> list[list[int]]:
    """Ids of at most ``longest`` tokens; what ends a text ([SEP]) stays its end."""
    return [ids if len(ids) <= longest else cut_row(ids, longest, tokenizer.special_ids) for ids in rows]


def cut_warning(rows: Sequence[list[int]], longest: int) -> list[str]:
    """A line about how many texts, and what share of all tokens, are longer than that."""
    lengths = row_lengths(rows)
    cut = int((lengths > longest).sum())
    lost = int(np.maximum(0, lengths - longest).sum()) / max(1, int(lengths.sum()))
    return [f"{cut:,} texts exceed {longest} tokens and are cut in training ({lost:.1%} of all tokens)"] if cut else []
