"""Sentences as rows of ids with a target for the first token of each word."""

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import tee
from typing import Any

import numpy as np

from headway.data.batches.batching import IGNORED, TargetKind
from headway.data.batches.cache import cache_key
from headway.data.batches.encoded import EncodedRows, encoded_rows
from headway.data.batches.examples import Examples
from headway.data.records.tagged import Tagged
from headway.data.records.words import first_tokens
from headway.errors import InputError
from headway.io.cache_directory import cache_directory
from headway.runtime.windows import frame
from headway.tasks.token_classification.objective import Counts
from headway.text.tokenizer import Tokenizer

MOST_WORDS = 1 << 18
"""Distinct words whose tags the baseline counts at a time."""


def nothing_kept(name: str) -> InputError:
    """The error for texts of which the tokenizer keeps nothing: such as control characters alone, for WordPiece."""
    return InputError(
        f"{name}: the tokenizer drops all characters of these texts. Train a new model with --tokenizer bpe, which "
        "keeps every character, or name another base model with --from."
    )


@dataclass(frozen=True)
class Rows:
    """Sentences as rows of ids, with a target at the first token of each word and ``IGNORED`` at all others.

    Every third row is one of ids, the next one of their targets plus 1, and the next one of the number of lost words
    and, for each target, a number of its word.
    """

    rows: EncodedRows
    key: str
    around: int
    """how many special tokens there are around each sentence"""

    @property
    def ids(self) -> EncodedRows:
        """The ids of each row."""
        return self.rows.column(0, 3)

    @property
    def lengths(self) -> np.ndarray:
        """The ids of each row, int64 (N,)."""
        return self.ids.lengths

    @property
    def targets(self) -> EncodedRows:
        """As many targets."""
        return self.rows.column(1, 3, below=IGNORED)

    @property
    def examples(self) -> Examples:
        """Each with its targets."""
        return Examples(self.ids, self.targets, TargetKind.TOKEN)

    @property
    def words(self) -> np.ndarray:
        """How many words of each row have a target, int64 (N,)."""
        return self.rows.column(2, 3).lengths - 1

    @property
    def lost(self) -> int:
        """How many words have no target, since the tokenizer keeps nothing of them."""
        return sum(words[0] for words in self.rows.column(2, 3))

    def too_long(self, longest: int) -> np.ndarray:
        """Which rows have more tokens than that, bool (N,)."""
        return (self.ids.lengths - self.around > _room(longest, self.around)) & (self.words > 0)

    def cut(self, longest: int | None, tokenizer: Tokenizer, labels: Sequence[str]) -> "Rows":
        """The same in rows of at most ``longest`` tokens, if that is given, without those that have no target.

        A long sentence is split between words, outside entities if possible; so every word is in one row.
        """
        longest = longest or int(self.ids.lengths.max(initial=1))
        if bool((self.words > 0).all()) and not self.too_long(longest).any():
            return self
        return _stored(_cut(self, longest, tokenizer, labels), cache_key(self.key, longest), self.around)

    def triples(self) -> Iterator[tuple[list[int], list[int], list[int]]]:
        """Of each row the ids, the targets plus 1, and the numbers of the words after how many are lost."""
        rows = iter(self.rows)
        return zip(rows, rows, rows, strict=True)


def encoded(tagged: Tagged, tokenizer: Tokenizer, labels: Sequence[str]) -> Rows:
    """The sentences as they are, however long.  The first token of a word has its tag as target."""
    key = cache_key(tagged.key, tokenizer.to_json(), list(labels), "tags")
    front, back = frame(tokenizer)
    return _stored(_encoded(tagged, tokenizer, labels), key, len(front) + len(back))


def _stored(rows: Iterator[list[int]], key: str, around: int) -> Rows:
    return Rows(encoded_rows(rows, vocab_size=1 << 32, key=key, directory=cache_directory()), key, around)


def _encoded(tagged: Tagged, tokenizer: Tokenizer, labels: Sequence[str]) -> Iterator[list[int]]:
    """Three rows for each sentence."""
    front, back = frame(tokenizer)
    number = {label: i for i, label in enumerate(labels, start=1)}
    sentences, same = tee(tagged)
    for sentence, (ids, places) in zip(sentences, tokenizer.encode_places(one.text for one in same), strict=True):
        firsts = first_tokens(sentence.words, places)
        targets, words = [0] * len(ids), [len(sentence.words)]
        for token, start, end in firsts:
            targets[token] = number[sentence.tags[start]]
            words[0] -= end - start
            words.append(zlib.crc32(sentence.text[sentence.words[start][0] : sentence.words[end - 1][1]].encode()))
        yield [*front, *ids, *back]
        yield [*(0 for _ in front), *targets, *(0 for _ in back)]
        yield words


def _room(longest: int, around: int) -> int:
    return max(1, longest - around)


def _cut(rows: Rows, longest: int, tokenizer: Tokenizer, labels: Sequence[str]) -> Iterator[list[int]]:
    """Three rows for each part of a sentence."""
    front, back = frame(tokenizer)
    begins = {number for number, label in enumerate(labels, start=1) if not label.startswith("I-")}
    for ids, targets, (lost, *words) in rows.triples():
        firsts = [token for token, target in enumerate(targets[len(front) :]) if target]
        inside = {token for token in firsts if targets[token + len(front)] not in begins}
        for start, end in _pieces(len(ids) - rows.around, firsts, inside, _room(longest, rows.around)):
            kept = [word for token, word in zip(firsts, words, strict=True) if start <= token < end]
            if not kept:
                continue  # no word, or the rest of one long word
            part = slice(start + len(front), end + len(front))
            yield [*front, *ids[part], *back]
            yield [*(0 for _ in front), *targets[part], *(0 for _ in back)]
            yield [lost, *kept]
            lost = 0


def _pieces(length: int, firsts: Sequence[int], inside: set[int], room: int) -> list[tuple[int, int]]:
    """[start, end) of parts of at most ``room`` tokens that begin with words, outside of entities where possible."""
    found, start = [], 0
    while length - start > room:
        words = [token for token in firsts if start < token <= start + room]
        best = [token for token in words if token not in inside] or words
        end = best[-1] if best else start + room
        found.append((start, end))
        start = end
    return [*found, (start, length)]


class WordTags:
    """The baseline: the most frequent tag of each word in training; of unknown words, the most frequent tag."""

    name = "most frequent tag of each word"

    def __init__(self, rows: Rows):
        counts: dict[int, Counter[int]] = {}
        usual: Counter[int] = Counter()
        for _, targets, (_, *words) in rows.triples():
            tags = [tag - 1 for tag in targets if tag]
            usual.update(tags)
            for word, tag in zip(words, tags, strict=True):
                counts.setdefault(word, Counter())[tag] += 1
            if len(counts) > MOST_WORDS:  # the rarest are forgotten, whatever the order of the sentences
                usual_first = sorted(counts, key=lambda word: counts[word].total(), reverse=True)
                counts = {word: counts[word] for word in usual_first[: MOST_WORDS // 2]}
        self.tags = {word: _first(tags) for word, tags in counts.items()}
        self.usual = _first(usual)

    def measured(self, rows: Rows, labels: Sequence[str]) -> tuple[dict[str, Any], np.ndarray]:
        """(its line among the baselines, the result of each row as ``TokenClassification.evaluate`` gives it)."""
        counts = Counts(labels)
        each = (
            counts.add([tag - 1 for tag in targets if tag], [self.tags.get(word, self.usual) for word in words])
            for _, targets, (_, *words) in rows.triples()
        )
        units = np.fromiter(each, np.dtype((np.float64, 2)), len(rows.ids))
        found = {key: value for key, value in counts.metrics().items() if isinstance(value, float)}
        return {"name": self.name, **found}, units


def _first(tags: Counter[int]) -> int:
    """The most frequent tag, of several the first."""
    return min(tags, key=lambda tag: (-tags[tag], tag))
