"""Sentences as rows of ids with a target for the first token of each word."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.data.batches.batching import IGNORED
from headway.runtime.windows import frame
from headway.tasks.token_classification.objective import Counts
from headway.tasks.token_classification.sentences import Sentence
from headway.tasks.token_classification.words import first_tokens
from headway.text.tokenizer import Tokenizer

Places = list[tuple[list[int], list[tuple[int, int]]]]
"""Of each text its ids, and the characters that each is of."""


@dataclass
class Rows:
    """Ids and targets of each row, as long as each other; a long sentence has several rows."""

    ids: list[list[int]]
    targets: list[list[int]]
    words: list[list[str]]
    """those of each row that have a target"""
    lost: int = 0
    """words of which the tokenizer keeps nothing"""
    cut: int = 0
    """sentences of several rows"""


@dataclass
class _Row:
    ids: list[int]
    targets: list[int] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


def encoded(
    sentences: Sequence[Sentence], found: Places, tokenizer: Tokenizer, labels: Sequence[str], longest: int
) -> Rows:
    """Rows of at most ``longest`` tokens, ``found`` being what the tokenizer makes of each text (``encode_places``).

    The first token of a word has its tag as target, every other token none.  A long sentence is cut between words,
    where it can be not in an entity; so every word is in one row.
    """
    front, back = frame(tokenizer)
    room = max(1, longest - len(front) - len(back))
    number = {label: i for i, label in enumerate(labels)}
    rows: list[_Row] = []
    lost = cut = 0
    for sentence, (ids, places) in zip(sentences, found, strict=True):
        firsts = first_tokens(sentence.words, places)
        lost += len(sentence.words) - sum(end - start for _, start, end in firsts)
        if not firsts:
            continue
        targets = [IGNORED] * len(ids)
        names: dict[int, str] = {}
        for token, start, end in firsts:
            targets[token] = number[sentence.tags[start]]
            names[token] = sentence.text[sentence.words[start][0] : sentence.words[end - 1][1]]
        inside = [token for token, start, _ in firsts if sentence.tags[start].startswith("I-")]
        pieces = _pieces(len(ids), [token for token, _, _ in firsts], set(inside), room)
        cut += len(pieces) > 1
        for start, end in pieces:
            kept = [names[token] for token in range(start, end) if token in names]
            if not kept:
                continue  # the rest of one long word
            around = [IGNORED] * len(front), [IGNORED] * len(back)
            rows.append(_Row([*front, *ids[start:end], *back], [*around[0], *targets[start:end], *around[1]], kept))
    return Rows([row.ids for row in rows], [row.targets for row in rows], [row.words for row in rows], lost, cut)


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
        counts: dict[str, Counter[int]] = {}
        usual: Counter[int] = Counter()
        for words, targets in zip(rows.words, rows.targets, strict=True):
            for word, tag in zip(words, (tag for tag in targets if tag != IGNORED), strict=True):
                counts.setdefault(word, Counter())[tag] += 1
                usual[tag] += 1
        self.tags = {word: _first(tags) for word, tags in counts.items()}
        self.usual = _first(usual)

    def measured(self, rows: Rows, labels: Sequence[str]) -> tuple[dict[str, Any], list[tuple[int, int]]]:
        """(its line among the baselines, what each row came to, as ``TokenClassification.evaluate`` gives it)."""
        counts, units = Counts(labels), []
        for words, targets in zip(rows.words, rows.targets, strict=True):
            wanted = [tag for tag in targets if tag != IGNORED]
            units.append(counts.add(wanted, [self.tags.get(word, self.usual) for word in words]))
        found = {key: value for key, value in counts.metrics().items() if isinstance(value, float)}
        return {"name": self.name, **found}, units


def _first(tags: Counter[int]) -> int:
    """The most frequent tag, of several the first."""
    return min(tags, key=lambda tag: (-tags[tag], tag))
