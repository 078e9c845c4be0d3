"""How many tokens of a text are read, by training, by evaluation and by a model that answers, and how many it knows."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from headway.data.batches.encoded import cut_row
from headway.hub.sentence_transformers import sequence_length
from headway.io.quantities import counted
from headway.text.tokenizer import Tokenizer

Words = tuple[str, str, str]
"""A verb of one text, of several, and what follows."""
_SUMS: ContextVar[dict[Words, list[int]] | None] = ContextVar("sums", default=None)


def usual_longest(lengths: Sequence[int] | np.ndarray, most: int) -> int:
    """A length in tokens that holds nearly all: 1.5 × the 99th percentile, a multiple of 16, from 32 to ``most``."""
    return int(min(most, max(32, -(-1.5 * np.percentile(lengths, 99) // 16) * 16)))


def cut_warning(lengths: np.ndarray, longest: int) -> list[str]:
    """A line about how many texts of these lengths, and what share of all tokens, are longer than that."""
    cut = int((lengths > longest).sum())
    lost = int(np.maximum(0, lengths - longest).sum()) / max(1, int(lengths.sum()))
    what = (
        f"{counted(cut, 'text')} of more than {longest:,} tokens: training, evaluation and answers read the beginning"
    )
    return [f"{what} alone ({lost:.1%} of all tokens are not read; --length changes this)"] if cut else []


def reading_length(model: Any, tokenizer: Tokenizer, recorded: int | None = None) -> int:
    """How many tokens of a text a model reads when it is measured and when it answers.

    The smallest of what its positions allow, ``max_seq_length`` of ``sentence_bert_config.json``, the tokenizer's
    ``model_max_length``, and the length ``recorded`` by the run that trained it (``plan.length`` of headway.json).
    """
    longest = sequence_length(model)
    return min(longest, tokenizer.max_length or longest, recorded or longest)


def beginnings(tokenizer: Tokenizer, texts: Sequence[str], longest: int) -> list[list[int]]:
    """The ids of texts as training and evaluation read them: ``longest`` at most, from the beginning; it warns of that.

    Special tokens are around them; a text without any token has none.
    """
    ends, rows = tokenizer.special_ids, tokenizer.encode_batch(texts, special=True)
    rest = f"longer than {longest:,} tokens: only the beginning is read; train with a larger --length to read more"
    tell(sum(len(row) > longest for row in rows), len(rows), ("is", "are", rest))
    return [cut_row(row, longest, ends) if len(row) > longest else row for row in rows]


def known_shares(tokenizer: Tokenizer, rows: Sequence[list[int]], so: str) -> list[float]:
    """The share of each row's tokens that the tokenizer knows, 0 to 1, 0 for none; it warns of those, and says ``so``.

    Special tokens and white space do not count.
    """
    silent, unknown, shares = tokenizer.silent_ids, tokenizer.unknown, []
    for ids in rows:
        known = len(ids) - sum(map(silent.__contains__, ids))
        shares.append(known / (known + sum(number == unknown for number in ids)) if known else 0.0)
    tell(shares.count(0.0), len(shares), ("has", "have", f"no token that the model knows: {so}"))
    return shares


def tell(count: int, of: int, words: Words) -> None:
    """Warn that so many of the texts are something; inside ``told_once``, at its end."""
    sums = _SUMS.get()
    if sums is not None:
        before = sums.setdefault(words, [0, 0])
        sums[words] = [before[0] + count, before[1] + of]
    elif count:
        who = "the text" if of == 1 else f"{count:,} of {of:,} texts"
        warnings.warn(f"{who} {words[count > 1]} {words[2]}", stacklevel=5)


@contextmanager
def told_once() -> Iterator[None]:
    """Texts that are answered some at a time are counted together, and warned of when all are answered."""
    token = _SUMS.set({})
    try:
        yield
    finally:
        sums = _SUMS.get() or {}
        _SUMS.reset(token)
        for words, (count, of) in sums.items():
            tell(count, of, words)
