"""Rows of texts as ids of a run's tokenizer, in the cache on disk where they are many, and a model measured on them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, tee
from typing import Any, ClassVar

import numpy as np

from headway.data.batches.batching import IGNORED, Examples, TargetKind, border
from headway.data.batches.cache import cache_key
from headway.data.batches.encoded import EncodedRows, encoded_rows
from headway.data.records.labels import Labelled
from headway.data.records.text_pairs import TextPairs
from headway.errors import InputError
from headway.models.adapt.vocabulary import resize_vocabulary
from headway.tasks.inputs import lost_characters
from headway.tasks.task import TaskInputs
from headway.text.chat import with_chat
from headway.text.extend import extend, merged_from
from headway.text.tokenizer import Tokenizer
from headway.training.evaluation.comparison import in_order
from headway.training.objective import Objective


@dataclass(frozen=True)
class EncodedTexts:
    """The texts of some rows, and their ids."""

    texts: Labelled
    tokenizer: Tokenizer
    ids: EncodedRows
    borders: np.ndarray | None = None
    """int64 (N,), where a row is two texts: the place at which the second begins"""

    @property
    def lengths(self) -> np.ndarray:
        """The ids of each row, int64 (N,)."""
        return self.ids.lengths

    def cut(self, longest: int) -> "EncodedTexts":
        """The same with at most so many ids in a row; of two texts the longer one loses its end."""
        if self.borders is None:
            return replace(self, ids=self.ids.cut(longest, self.tokenizer.special_ids))
        return self if self.lengths.max() <= longest else encoded_texts(self.texts, self.tokenizer, longest)

    def examples(self, targets: np.ndarray) -> Examples:
        """The rows with a target each, (N,) or (N, C)."""
        return Examples(self.ids, targets, TargetKind.ROW, borders=self.borders, weights=self.texts.weights)


def encoded_texts(rows: Labelled, tokenizer: Tokenizer, longest: int | None = None) -> EncodedTexts:
    """The ids of the texts, with the special tokens around them; a text of none is the id 0.

    Two texts are one row, of at most ``longest`` ids.
    """
    if len(rows.columns) == 1:
        ids = _stored(tokenizer.encode_each(rows, special=True), tokenizer, rows.fingerprint)
        return EncodedTexts(rows, tokenizer, ids)
    turns = chain.from_iterable((pair.ids, pair.segments) for pair in tokenizer.encode_pairs(rows.cells, longest))
    stored = _stored(turns, tokenizer, cache_key(rows.fingerprint, "two texts", longest))
    borders = np.fromiter(map(border, stored.column(1, 2)), np.int64, len(rows))
    return EncodedTexts(rows, tokenizer, stored.column(0, 2), borders)


def _stored(rows: Iterator[list[int]], tokenizer: Tokenizer, key: str) -> EncodedRows:
    size = max(tokenizer.vocab_size, tokenizer.target.vocab_size)
    return encoded_rows(
        (ids or [0] for ids in rows), vocab_size=size, key=cache_key(key, tokenizer.fingerprint, "rows")
    )


def measured_rows(pipe: Any, objective: Objective, examples: Examples, results: list[np.ndarray]) -> dict[str, Any]:
    """The metrics of a pipeline's model on examples; ``results`` receives the result of each, in their order."""
    each: list[np.ndarray] = []
    most = pipe.runtime.tokens
    metrics = objective.evaluate(pipe.model, pipe.runtime.batches(examples.batches(most)), each)
    results.append(in_order(each, np.concatenate(examples.order(most))))
    return metrics


@dataclass(frozen=True)
class EncodedTargets:
    """Rows of ids with a target for each id, ``IGNORED`` where nothing is wanted."""

    rows: EncodedRows
    """in turn the ids, their targets plus 1, and what else a subclass has of each: ``columns`` in all"""
    key: str
    columns: ClassVar[int] = 2

    @property
    def ids(self) -> EncodedRows:
        """The ids of each row."""
        return self.rows.column(0, self.columns)

    @property
    def lengths(self) -> np.ndarray:
        """The ids of each row, int64 (N,)."""
        return self.ids.lengths

    @property
    def targets(self) -> EncodedRows:
        """As many targets."""
        return self.rows.column(1, self.columns, below=IGNORED)

    @property
    def examples(self) -> Examples:
        """Each with its targets."""
        return Examples(self.ids, self.targets, TargetKind.TOKEN)


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs of texts, and the ids of both sides."""

    texts: TextPairs
    first: EncodedRows
    second: EncodedRows

    @property
    def examples(self) -> Examples:
        """The second texts as what is wanted of the first."""
        return Examples(self.first, self.second, TargetKind.SEQUENCE)

    def scored(self, scores: np.ndarray) -> Examples:
        """The pairs with a score each."""
        return Examples(self.first, scores, TargetKind.PAIR, self.second)

    @property
    def lengths(self) -> np.ndarray:
        """The ids of the longer side of each pair, int64 (N,)."""
        return np.maximum(self.first.lengths, self.second.lengths)

    def __len__(self) -> int:
        return len(self.texts)

    def cut(self, longest: int, ends: frozenset[int]) -> "EncodedPairs":
        """The same pairs, with at most so many ids on a side."""
        return EncodedPairs(self.texts, self.first.cut(longest, ends), self.second.cut(longest, ends))

    def fitting(self, longest: int) -> "EncodedPairs":
        """Those pairs that have at most so many ids on both sides."""
        fit = self.lengths <= longest
        rows = np.flatnonzero(fit)
        return self if fit.all() else EncodedPairs(self.texts.part(rows), self.first.part(rows), self.second.part(rows))


def encoded_pairs(pairs: TextPairs, tokenizer: Tokenizer) -> EncodedPairs:
    """The ids of both texts of every pair, with the special tokens around them; of the second as a target."""
    one, other = tee(pairs)
    first = tokenizer.encode_each((text for text, _ in one), special=True)
    second = tokenizer.target.encode_each((text for _, text in other), special=True)
    rows = _stored(chain.from_iterable(zip(first, second, strict=True)), tokenizer, pairs.fingerprint)
    return EncodedPairs(pairs, *sides_of(rows))


def sides_of(rows: EncodedRows) -> tuple[EncodedRows, EncodedRows]:
    """First and second rows, of rows that are both in turn."""
    return rows.column(0, 2), rows.column(1, 2)


def tokenizer_for(
    given: TaskInputs,
    texts: Iterable[str],
    new: Callable[[], Tokenizer],
    *,
    chat: bool = False,
    out_of: int | None = None,
) -> tuple[Tokenizer, dict[str, Any]]:
    """The tokenizer for a run, and what to record of how it was made.

    It is that of the resumed run, or the base's with ``--extend-vocab`` new tokens, or a ``new`` one.  ``texts`` are
    those of the training part, of ``out_of`` characters where they are no list; ``chat`` gives one without a chat
    template the usual one.  The base's model grows with it: each new row as ``resize_vocabulary`` says.  Raises
    InputError for a tokenizer that cannot be grown.
    """
    base, wanted = given.base, given.options.fine_tuning.extend_vocab
    if base is None:
        return given.tokenizer or new(), {}
    tokenizer, facts = given.tokenizer or base.tokenizer, dict[str, Any]()
    if given.tokenizer is None and wanted is not None:
        try:
            grown = extend(tokenizer, texts, wanted, out_of=out_of)
        except InputError as error:
            raise InputError(f"--extend-vocab: {base.path}: {error}") from None
        tokenizer, before, after = grown.tokenizer, grown.tokens_per_word_before, grown.tokens_per_word_after
        given.progress.say(
            f"learnt {len(grown.added):,} new tokens: {before:.3f} tokens per word before, {after:.3f} after "
            "(--extend-vocab to change)"
        )
        facts = {"added_tokens": len(grown.added), "tokens_per_word_before": before, "tokens_per_word_after": after}
    if chat and given.tokenizer is None:
        tokenizer = with_chat(tokenizer)
    texts = () if facts and isinstance(texts, Iterator) else texts  # an iterator is used up by now
    if line := lost_characters(texts, tokenizer):
        given.progress.warn(line)
    if rows := merged_from(base.tokenizer, tokenizer):
        resize_vocabulary(base.model, max(base.config.vocab_size, tokenizer.vocab_size), rows)
    return tokenizer, facts
