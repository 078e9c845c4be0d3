"""Where the words of a text are, and which token is the first of each.

Letters: N tokens.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from tokenizers import Regex, pre_tokenizers

from headway.errors import InputError

if TYPE_CHECKING:
    from headway.data.records.tagged import Sentence

ALONE = r"\p{Han}\p{Hiragana}\p{Katakana}"
"""Scripts without spaces, of which each character is a word, as BERT's tokenizers cut them."""
STOPS = (".", ",")
"""Marks that stand alone only in texts whose words were split before."""
MOST_KNOWN, LONGEST_KNOWN = 2000, 40
"""Words that a run stores, and the characters of a word that is learnt from."""
Place = tuple[int, int]
"""Characters [start, end) of a text."""


def joined(words: Sequence[str]) -> tuple[str, list[Place]]:
    """Words as a text with a blank between any two, and where they are in it."""
    ends = list(accumulate(len(word) + 1 for word in words))
    return " ".join(words), [(end - 1 - len(word), end - 1) for word, end in zip(words, ends, strict=True)]


@dataclass(frozen=True)
class Words:
    """How texts are split into words, as those of the training data are (``learnt``)."""

    begin: str = ""
    """marks with which words begin: @ and # in @anna and #rome"""
    inside: str = ""
    """marks inside words: O'Brien, e-mail, 3.5"""
    end: str = ""
    """marks with which words end: % in 10%"""
    run: int = 1
    """the most characters of scripts without spaces that a word has"""
    known: tuple[str, ...] = ()
    """words that stay whole although these rules cut them: U.S., Mr."""

    @classmethod
    def of(cls, record: dict[str, Any]) -> "Words":
        """Those of ``data.words`` in headway.json.  Raises InputError."""
        known, most = record.get("known", []), record.get("run", 1)
        marks = {name: record.get(name, "") for name in ("begin", "inside", "end")}
        texts = isinstance(known, list) and all(isinstance(text, str) for text in (*known, *marks.values()))
        if not texts or type(most) is not int or not 1 <= most <= LONGEST_KNOWN:
            raise InputError("headway.json: data.words does not say how texts are split into words.")
        return cls(**marks, run=most, known=tuple(known))

    @property
    def record(self) -> dict[str, Any]:
        """The entry of headway.json; empty where nothing differs from a run without it."""
        return {} if self == Words() else {**asdict(self), "known": list(self.known)}

    @cached_property
    def _splitter(self) -> pre_tokenizers.PreTokenizer:
        letters = rf"[\w&&[^{ALONE}]]+"
        begin, inside, end = (f"[{re.escape(some)}]" if some else "" for some in (self.begin, self.inside, self.end))
        ways = [
            *([rf"(?<!\w)(?:{'|'.join(map(re.escape, self.known))})(?!\S*\w)"] if self.known else []),
            f"{begin and begin + '*'}{letters}{inside and f'(?:{inside}+{letters})*'}{end and end + '*'}",
            rf"(?<![{ALONE}])[{ALONE}]{{1,{self.run}}}(?![{ALONE}])",
            rf"[{ALONE}]|[^\w\s]",
        ]
        return pre_tokenizers.Split(Regex("|".join(ways)), "removed", invert=True)

    def split(self, text: str) -> list[Place]:
        """The words of a text; without rules, "Mr. Smith" has three.

        A text in which most full stops and commas stand alone was split before: its words are those between blanks.
        """
        words = [place for _, place in self._splitter.pre_tokenize_str(text)]
        if self == Words():
            return words
        whole = [match.span() for match in re.finditer(r"\S+", text)]
        stops = [place for place in words if text[slice(*place)] in STOPS]
        return whole if 2 * len({*stops} & {*whole}) > len(stops) else words

    def unlike(self, sentences: "Iterable[Sentence]") -> tuple[int, int]:
        """(how many words of sentences are split otherwise in their text, how many words there are)."""
        both = [(set(one.words), set(self.split(one.text))) for one in sentences]
        return sum(len(words - own) for words, own in both), sum(len(words) for words, _ in both)


PLAIN = Words()


def learnt(sentences: "Iterable[Sentence]") -> Words:
    """The rules by which the words of sentences are found in their text.

    A mark begins or ends words where it does so more often than it stands alone; it is inside of words if it ever is.
    """
    counts = Counter(one.text[start:end] for one in sentences for start, end in one.words)
    words = {word: times for word, times in counts.items() if len(word) <= LONGEST_KNOWN and len(word.split()) == 1}
    begin, inside, end, runs = (Counter[Any]() for _ in range(4))
    for word, times in words.items():
        first, core, last = re.findall(r"^(\W*)(.*?)(\W*)$", word)[0]
        for where, part in ((begin, first), (inside, re.sub(r"\w", "", core)), (end, last)) if core else ():
            where.update(dict.fromkeys(part, times))
        if word.isalnum() and len(PLAIN.split(2 * word)) == 2 * len(word):
            runs[len(word)] += times
    bound = ["".join(sorted(mark for mark in where if where[mark] > words.get(mark, 0))) for where in (begin, end)]
    run = max(runs) if runs.total() > 2 * runs[1] else 1
    splitter = Words(bound[0], "".join(sorted(inside)), bound[1], run)
    known = []
    for word in sorted(words, key=lambda word: (-words[word], word)):
        parts = [word[slice(*place)] for place in splitter.split(word)]
        if len(parts) > 1 and (counts[max(parts, key=len)] < words[word] or not re.search(r"\w", word)):
            known.append(word)
    return replace(splitter, known=tuple(sorted(known[:MOST_KNOWN], key=len, reverse=True)))


def first_tokens(words: Sequence[Place], places: Sequence[Place]) -> list[tuple[int, int, int]]:
    """(number of its first token, first word, word after the last) of each word, by the characters of tokens (N,).

    Words that begin in one token are read as one.  A word of which the tokenizer keeps nothing has no token and is left
    out.
    """
    firsts, token = list[tuple[int, int, int]](), 0
    for number, (start, end) in enumerate(words):
        while token < len(places) and places[token][1] <= start:
            token += 1
        if token == len(places) or places[token][0] >= end:
            continue
        if firsts and firsts[-1][0] == token:
            firsts[-1] = (token, firsts[-1][1], number + 1)
        else:
            firsts.append((token, number, number + 1))
    return firsts
