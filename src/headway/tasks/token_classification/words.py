"""Where the words of a text are, and which token is the first of each.

Letters: N tokens.
"""

from collections.abc import Sequence
from functools import cache

from tokenizers import Regex, pre_tokenizers

ALONE = r"\p{Han}\p{Hiragana}\p{Katakana}"
"""Scripts without spaces, of which each character is a word, as BERT's tokenizers cut them."""

Place = tuple[int, int]
"""Characters [start, end) of a text."""


@cache
def _splitter() -> pre_tokenizers.PreTokenizer:
    words = rf"[{ALONE}]|[\w&&[^{ALONE}]]+|[^\w\s]"
    return pre_tokenizers.Split(Regex(words), "removed", invert=True)


def split_words(text: str) -> list[Place]:
    """Runs of letters and digits, and each other character that is not blank: "Mr. Smith" has three."""
    return [place for _, place in _splitter().pre_tokenize_str(text)]


def first_tokens(words: Sequence[Place], places: Sequence[Place]) -> list[tuple[int, int, int]]:
    """(number of its first token, first word, word after the last) of each word, by the characters of tokens (N,).

    Words that begin in one token are read as one.  A word of which the tokenizer keeps nothing has no token and is left
    out.
    """
    found: list[tuple[int, int, int]] = []
    token = 0
    for number, (start, end) in enumerate(words):
        while token < len(places) and places[token][1] <= start:
            token += 1
        if token == len(places) or places[token][0] >= end:
            continue
        if found and found[-1][0] == token:
            found[-1] = (token, found[-1][1], number + 1)
        else:
            found.append((token, number, number + 1))
    return found
