"""What a model is asked: inputs as a list in their order, and how much of each it reads and knows."""

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from typing import Any
from unicodedata import combining

import numpy as np

from headway.data.batches.encoded import cut_row
from headway.errors import InputError, shown
from headway.hub.sentence_transformers import sequence_length
from headway.io.quantities import counted
from headway.text.backend import RustBackend
from headway.text.stream_decoder import StreamDecoder
from headway.text.tokenizer import Pair, Tokenizer
from headway.training.options import TrainOptions

WITHOUT_ORDER = (Mapping, set, frozenset, bytes, bytearray, memoryview)
"""What Python iterates over although it is not several inputs in order."""
Words = tuple[str, str, str]
"""A verb of one text, of several, and what follows."""
MOST_CHECKED, CHARACTERS, SHOWN = 10_000, 10_000, 12
"""Texts whose characters are looked at, how many of each, and those that a line names."""
_SUMS: ContextVar[dict[Words, list[int]] | None] = ContextVar("sums", default=None)


def as_list(inputs: Any, is_one: Callable[[Any], bool], expected: str) -> tuple[list[Any], bool]:
    """The inputs as a list, and whether there was one input rather than several.

    Several inputs are a list, a tuple, a pandas or polars Series, an array, a column of a data set, a generator, or any
    other iterable with an order.  A frame, a table or a data set is refused, whatever its columns: choose one of them,
    ``frame["text"]``.  Raises InputError for those and for anything else, such as a dict, a set, bytes or None.
    """
    if is_one(inputs):
        return [inputs], True
    what = type(inputs).__name__
    columns = getattr(inputs, "column_names", None) or getattr(inputs, "columns", None)
    if columns is not None:
        names = list(map(str, columns)) or ["text"]
        column = "'text'" if "text" in names else repr(names[0]) if len(names) == 1 else "NAME"
        raise InputError(
            f"the input is {what} with the columns {', '.join(names)}; expected {expected}, or several of them. "
            f"Pass one column: frame[{column}]."
        )
    if isinstance(inputs, WITHOUT_ORDER) or not isinstance(inputs, Iterable) or getattr(inputs, "ndim", 1) == 0:
        raise InputError(
            f"the input is {what} ({shown(inputs)}); expected {expected}, or several in a list, Series or generator."
        )
    return list(inputs), False


def text_list(texts: Any, name: str = "text") -> tuple[list[str], bool]:
    """``as_list`` of texts.  Raises InputError, with its position from 0, for an element that is no text."""
    values, alone = as_list(texts, lambda value: isinstance(value, str), f"a {name}")
    for number, text in enumerate(values):
        if not isinstance(text, str):
            raise InputError(f"{name} {number} is {type(text).__name__}; expected a text, not {shown(text)}.")
    return values, alone


def pair_list(pairs: Any) -> tuple[list[tuple[str, str]], bool]:
    """``as_list`` of pairs of texts, each a tuple or a list of two; one pair alone is a tuple.

    Raises InputError, with its position from 0, for an element that is no such pair.
    """
    values, alone = as_list(pairs, lambda value: isinstance(value, tuple) and is_pair(value), "a pair of texts")
    for number, value in enumerate(values):
        if not is_pair(value):
            raise InputError(f"input {number} is {shown(value)}; expected two texts: (first, second).")
    return [tuple(value) for value in values], alone


def is_pair(value: Any) -> bool:
    """Whether this is a tuple or a list of two texts."""
    return isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(text, str) for text in value)


def usual_longest(lengths: Sequence[int] | np.ndarray, most: int) -> int:
    """A length in tokens that holds nearly all: 1.5 × the 99th percentile, a multiple of 16, from 32 to ``most``."""
    return int(min(most, max(32, -(-1.5 * np.percentile(lengths, 99) // 16) * 16)))


def checked_length(options: TrainOptions, most: int) -> int:
    """How many tokens a base reads: ``most``.  Raises InputError when --length asks for more."""
    if options.data.length is not None and options.data.length > most:
        raise InputError(
            f"--length is {options.data.length:,}, but {options.fine_tuning.from_model} reads {most:,} tokens at most."
        )
    return most


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
    return cut_rows(tokenizer, tokenizer.encode_batch(texts, special=True), longest)


def cut_rows(tokenizer: Tokenizer, rows: Sequence[list[int]], longest: int) -> list[list[int]]:
    """The first ``longest`` ids of each row, with the token that ends it; it warns of rows that are longer."""
    ends = tokenizer.special_ids
    rest = f"longer than {longest:,} tokens: only the beginning is read; train with a larger --length to read more"
    tell(sum(len(row) > longest for row in rows), len(rows), ("is", "are", rest))
    return [cut_row(row, longest, ends) if len(row) > longest else row for row in rows]


def cut_pairs(tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]], longest: int) -> list[Pair]:
    """Each pair of texts as one row of at most ``longest`` ids, the longer text cut; it warns of that."""
    whole = list(tokenizer.encode_pairs(pairs))
    cut = sum(len(pair.ids) > longest for pair in whole)
    rest = f"longer than {longest:,} tokens: their beginnings are read; train with a larger --length to read more"
    tell(cut, len(whole), ("is", "are", rest))
    return list(tokenizer.encode_pairs(pairs, longest)) if cut else whole


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


def lost_characters(texts: Iterable[str], tokenizer: Tokenizer) -> str:
    """A line about the characters of the first texts that a tokenizer cannot represent; "" where there are none.

    They are unknown alone and stand in no token; a word that is unknown, though its letters are not, is no such case.
    """
    found = [set(text[:CHARACTERS]) for text in islice(texts, MOST_CHECKED)]
    counts = Counter(one for characters in found for one in characters if not one.isspace() and not combining(one))
    known, unknown, nothing = sorted(counts), tokenizer.unknown, tokenizer.encode_batch(["", " "])
    encoded = zip(known, tokenizer.encode_batch(known), strict=True)
    lost = {one for one, ids in encoded if ids in nothing or (unknown in ids and unknown != tokenizer.end_of_text)}
    if lost:
        written = set("".join(text for at, text in enumerate(tokenizer.tokens) if at not in tokenizer.special_ids))
        as_read = tokenizer.backend.words if isinstance(tokenizer.backend, RustBackend) else list
        lost = {one for one in lost if not (read := set("".join(as_read(one)))) or not read <= written}
    if not lost:
        return ""
    named = [
        f"{one if one.isprintable() else ''} U+{ord(one):04X}".strip() for one, _ in counts.most_common() if one in lost
    ]
    shown = ", ".join(named[:SHOWN]) + ", ..." * (len(named) > SHOWN)
    rows = f"{sum(not lost.isdisjoint(one) for one in found):,} of the first {len(found):,} texts"
    return (
        f"the model's tokenizer cannot represent {counted(len(lost), 'character')} ({shown}), in {rows}: they are lost"
    )


def tell_lost(texts: Sequence[str], tokenizer: Tokenizer) -> None:
    """Warn of ``lost_characters``; inside ``told_once`` whoever has all the texts does."""
    if _SUMS.get() is None and (line := lost_characters(texts, tokenizer)):
        warnings.warn(line, stacklevel=_to_the_caller())


def tell(count: int, of: int, words: Words) -> None:
    """Warn that so many of the texts are something; inside ``told_once``, at its end."""
    sums = _SUMS.get()
    if sums is not None:
        before = sums.setdefault(words, [0, 0])
        sums[words] = [before[0] + count, before[1] + of]
    elif count:
        who = "the text" if of == 1 else f"{count:,} of {of:,} texts"
        warnings.warn(f"{who} {words[count > 1]} {words[2]}", stacklevel=_to_the_caller())


def _to_the_caller() -> int:
    """The ``stacklevel`` by which the caller of this function warns the line that called Headway."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("headway", "contextlib")):
        frame, level = frame.f_back, level + 1
    return level


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


@dataclass(frozen=True)
class Prompt:
    """Ids that a model continues, and how ids become text again."""

    ids: list[int]
    ends: frozenset[int]
    """the ids that end the continuation"""
    tokenizer: Tokenizer
    rows: int
    """of the model's table"""

    def __post_init__(self) -> None:
        if not self.ids:
            raise InputError("there is nothing to continue: the prompt has no tokens.")

    @property
    def forbidden(self) -> list[int]:
        """The ids that may not be chosen: special tokens that do not end the text, and ids without a token."""
        tokenizer = self.tokenizer
        return sorted((tokenizer.special_ids | tokenizer.without_token(self.rows)).difference(self.ends))

    @property
    def text(self) -> StreamDecoder:
        """A decoder for the ids that continue it."""
        return self.tokenizer.stream(self.ids)
