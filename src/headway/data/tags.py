"""Tagged tokens: a word and its tag on each line, a blank line after each sentence (CoNLL, IOB)."""

import re
from collections import Counter
from collections.abc import Sequence

TAG = re.compile(r"O|[BIESLUM]-[A-Za-z0-9_][^\s,;|]*")
"""A tag of the schemes IOB, IOB2, BIOES and BILOU; O is outside of every name."""
NAME = re.compile(r"O|[A-Z][A-Z_-]{2,19}")
"""A tag of the scheme IO, as lines of a token and a tag have it: PER, LOC, ORG, and O for the most."""
WORD_CLASSES = frozenset(
    [
        *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT"),
        *("SCONJ", "SYM", "VERB", "X", "_"),
    ]
)
"""The parts of speech of Universal Dependencies, as CoNLL-U writes them."""
ENDINGS = (".conll", ".conllu", ".conll03", ".iob", ".iob2", ".bio", ".bioes")
"""What files of tagged tokens are called."""
TOKENS, TAGS = ("tokens", "words"), re.compile("(?:tags?|labels?)$")
"""What columns of lists are called: of tokens, and of a tag for each."""
LOOKED_AT = 2000
"""Lines."""
LEAST = 5
"""Of fewer lines nothing is said."""
SURE = 0.95
"""The share of lines that have as many fields as the usual one, and a tag in the same place."""


def tagged(lines: Sequence[str], ending: str = "") -> str | None:
    """How these lines show tagged tokens, in words; None where they do not.

    A file that is called like one needs no tags, only as many fields in each line.
    """
    found = [line.strip("\r\n") for line in lines[:LOOKED_AT]]
    words = [line for line in found if line.strip() and not line.startswith(("-DOCSTART-", "# "))]
    if len(words) < LEAST:
        return None
    for name, separator in (("tab", "\t"), ("blank", r"[ \t]+"), ("comma", ",")):
        rows = [re.split(separator, line.strip(" ")) for line in words]
        width, count = Counter(map(len, rows)).most_common(1)[0]
        if width < 2 or count < SURE * len(rows):
            continue
        whole = [row for row in rows if len(row) == width]
        if (at := _tag_column(whole)) is not None:
            tags = Counter(row[at] for row in whole).most_common(4)
            named = ", ".join(tag for tag, _ in tags)
            return f"{count:,} of {len(rows):,} lines have a token and a tag ({named}), separated by a {name}"
        if ending in ENDINGS:
            return f"the name ends in {ending}, and {count:,} of {len(rows):,} lines have {width} fields"
    return None


def tagged_lists(names: Sequence[str]) -> list[str]:
    """Those of columns of lists that are called like tokens and their tags; none where one of the two is missing."""
    tokens = [name for name in names if name.casefold() in TOKENS]
    tags = [name for name in names if name not in tokens and TAGS.search(name.casefold())]
    return [*tokens, *tags] if tokens and tags else []


def are_tagged(line: str) -> bool:
    """Whether a line, which could be a header, is itself that of a token and a tag."""
    fields = re.split("[\t ,;|]+", line.strip())
    return line.startswith("-DOCSTART-") or (len(fields) > 1 and TAG.fullmatch(fields[-1]) is not None)


def _tag_column(rows: Sequence[Sequence[str]]) -> int | None:
    """Which field of each line is a tag, the last one first; the first field is the token."""
    width = len(rows[0])
    for at in range(width - 1, 0, -1):
        values = [row[at] for row in rows]
        if are_tags(Counter(values)) or _are_names(values):
            return at
    for at in range(1, width):
        if sum(row[at] in WORD_CLASSES for row in rows) >= SURE * len(rows) and len({row[at] for row in rows}) > 2:
            return at
    return None


def _are_names(values: Sequence[str]) -> bool:
    """Whether nearly all are kinds of names without a prefix, O the most frequent."""
    fit = Counter(value for value in values if NAME.fullmatch(value))
    return fit.total() >= max(LEAST, SURE * len(values)) and len(fit) > 1 and fit.most_common(1)[0][0] == "O"


def are_tags(values: Counter[str]) -> bool:
    """Whether nearly all are tags, O among them, and that of a name too; of values with how often each occurs."""
    fit = Counter({value: count for value, count in values.items() if TAG.fullmatch(value)})
    return fit.total() >= max(LEAST, SURE * values.total()) and 0 < fit["O"] < fit.total()
