"""Whether two columns are written in two languages: by their scripts, and by their most frequent short words."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from itertools import islice

ROWS = 2_000
"""The rows of each column that are looked at."""
SHORT, FREQUENT = 4, 20
"""The most letters of a short word, and how many of the most frequent ones are compared."""
LEAST, OFTEN = 30, 0.05
"""Short words, and the share of all words that the frequent ones need, before they tell a language."""
ALIKE = 0.25
"""The share of frequent short words in common from which two columns can be in one language (English and German 0.12,
English of two kinds 0.36 to 0.94)."""


def two_languages(first: Iterable[str], second: Iterable[str]) -> str:
    """What shows that two columns are in two languages; "" where that is not clear.

    Most letters of one are of another script than those of the other, or hardly any of the most frequent short words
    of one is among those of the other.
    """
    texts = [" ".join(islice(column, ROWS)).casefold() for column in (first, second)]
    scripts = [_script(text) for text in texts]
    if scripts[0] != scripts[1]:
        return f"{scripts[0]} and {scripts[1]} letters" if all(scripts) else ""
    one, other = map(_frequent, texts)
    if not one or not other or sum(min(one[word], other[word]) for word in one.keys() & other.keys()) >= ALIKE:
        return ""
    return "other frequent words in each: " + "; ".join(", ".join(list(words)[:3]) for words in (one, other))


def _frequent(text: str) -> dict[str, float]:
    """The most frequent short words, each with its share of them; empty where there are too few."""
    words = re.findall(r"[^\W\d_]+", text)
    short = Counter(word for word in words if len(word) <= SHORT)
    most = short.most_common(FREQUENT)
    total = sum(count for _, count in most)
    if short.total() < LEAST or total < OFTEN * len(words):
        return {}
    return {word: count / total for word, count in most}


def _script(text: str) -> str:
    """The script of most letters, by the first word of their Unicode names; "" without letters."""
    scripts: Counter[str] = Counter()
    for letter, count in Counter(text).items():
        if letter.isalpha():
            scripts[unicodedata.name(letter, "unnamed").partition(" ")[0].title()] += count
    return scripts.most_common(1)[0][0] if scripts else ""
