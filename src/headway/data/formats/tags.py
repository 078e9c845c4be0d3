"""Tagged tokens: a word and its tag on each line, a blank line after each sentence; and the entities that tags make."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

TAG = re.compile(r"O|[BIESLUM]-[A-Za-z0-9_][^\s,;|]*")
"""A tag of the schemes IOB, IOB2, BIOES and BILOU; O is outside of every name."""
UNTYPED = re.compile(r"[BIESLUM]-")
"""A prefix of these schemes without a type."""
NAME = re.compile(r"O|[A-Z][A-Z_-]{2,19}")
"""A tag of the scheme IO, as lines of a token and a tag have it: PER, LOC, ORG, and O for the most."""
_PARTS = "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X _"
WORD_CLASSES = frozenset(_PARTS.split())
"""The parts of speech of Universal Dependencies, as CoNLL-U writes them."""
NUMBER = re.compile(r"\d+(?:[-.]\d+)?")
"""What stands before each token in CoNLL-U: its number, 1-2 for two that are written together, 1.1 for one left out."""
ENDINGS = (".conll", ".conllu", ".conll03", ".iob", ".iob2", ".bio", ".bioes")
"""Endings of files of tagged tokens."""
TAGS = re.compile("(?:tags?|labels?)$")
"""Finds the names of columns of lists of tags."""
LOOKED_AT = 2000
"""Lines."""
LEAST = 5
"""Fewer lines are never recognised."""
SURE = 0.95
"""The share of lines that have as many fields as the usual one, and a tag in the same place."""
SEPARATORS = (("tab", "\t"), ("blank", r"[ \t]+"), ("comma", ","))
"""The separators between the fields of a line, by name."""


@dataclass(frozen=True)
class Layout:
    """Where in each line a token and its tag are."""

    separator: str
    """a regular expression"""
    width: int
    """how many fields a line has"""
    token: int
    tag: int
    words: str = ""
    """what shows that these are tagged tokens"""

    def fields(self, line: str) -> list[str]:
        """The fields of a line."""
        return re.split(self.separator, line.strip("\r\n").strip(" "))

    def problem(self, fields: Sequence[str]) -> str | None:
        """What is wrong with a line of these fields; None where nothing is."""
        wanted = "expected a token and its tag on each line, and a blank line after each sentence."
        if len(fields) != self.width:
            have = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
            return f"{have}, where other lines have {self.width}; {wanted}"
        if not fields[self.token].strip():
            return f"the tag {fields[self.tag]!r} has no token; {wanted}"
        if not fields[self.tag].strip():
            return f"the token {fields[self.token]!r} has no tag; write O for none."
        return f"{problem}." if (problem := untyped([fields[self.tag]])) else None


def untyped(tags: Sequence[str]) -> str | None:
    """What is wrong where a tag has a prefix and no type; None where none has."""
    tag = next(filter(UNTYPED.fullmatch, map(str.strip, tags)), None)
    return None if tag is None else f"the tag {tag!r} has no type; write one such as {tag}PER"


def tagged(lines: Sequence[str], ending: str = "") -> str | None:
    """The evidence that these lines are tagged tokens, in words; None where they are not."""
    columns = layout(lines, ending)
    return None if columns is None else columns.words


def layout(lines: Sequence[str], ending: str = "") -> Layout | None:
    """Where token and tag are in lines that surely have both; None for others.

    A file with an ending for tagged tokens needs no tags, only the same number of fields in each line.
    """
    words = _token_lines(lines)
    if len(words) < LEAST:
        return None
    for name, separator in SEPARATORS:
        rows = [re.split(separator, line.strip(" ")) for line in words]
        width, count = Counter(map(len, rows)).most_common(1)[0]
        if width < 2 or count < SURE * len(rows):
            continue
        whole = [row for row in rows if len(row) == width]
        token = int(width > 2 and all(NUMBER.fullmatch(row[0]) for row in whole))
        if (at := _tag_column(whole)) is not None:
            tags = Counter(row[at] for row in whole).most_common(4)
            named = ", ".join(tag for tag, _ in tags)
            evidence = f"{count:,} of {len(rows):,} lines have a token and a tag ({named}), separated by a {name}"
            return Layout(separator, width, token if at != token else 0, at, evidence)
        if ending in ENDINGS:
            at = 3 if width == 10 and token else width - 1
            evidence = f"the name ends in {ending}, and {count:,} of {len(rows):,} lines have {width} fields"
            return Layout(separator, width, token, at, evidence)
    return None


def usual_layout(lines: Sequence[str]) -> Layout | None:
    """The token first and the tag last, in lines that are said to have both; None where they have one field."""
    words = _token_lines(lines)
    for _, separator in SEPARATORS[:2]:
        widths = Counter(len(re.split(separator, line.strip(" "))) for line in words)
        if widths and (width := widths.most_common(1)[0][0]) > 1:
            return Layout(separator, width, 0, width - 1)
    return None


def is_comment(line: str, fields: Sequence[str], columns: Layout) -> bool:
    """Whether a line is a comment (# text = ...) rather than the token "#"."""
    return line.startswith("#") and not (
        len(fields) == columns.width and (TAG.fullmatch(fields[columns.tag]) or NAME.fullmatch(fields[columns.tag]))
    )


def _token_lines(lines: Sequence[str]) -> list[str]:
    """The first lines, without blank lines and comments."""
    stripped = [line.strip("\r\n") for line in lines[:LOOKED_AT]]
    return [line for line in stripped if line.strip() and not line.startswith(("-DOCSTART-", "# "))]


def listed(value: str) -> list[str] | None:
    """The parts of a list as JSON or Python writes it; None for anything else."""
    if not (value.startswith("[") and value.endswith("]")):
        return None
    try:
        values = json.loads(value)
    except (ValueError, RecursionError):
        if re.fullmatch(r"\[\s*(?:'[^']*'\s*(?:,\s*'[^']*'\s*)*)?\]", value) is None:
            return None
        values = re.findall("'([^']*)'", value)
    return [str(part) for part in values]


Span = tuple[int, int, str]
"""(first character, character after the last, label)."""


def spans_of(value: str) -> list[Span] | None:
    """The spans of a cell, [{"start": 0, "end": 4, "label": "PER"}] or [[0, 4, "PER"]]; None for anything else.

    An empty cell has none, and so has an empty list.
    """
    try:
        values = json.loads(value or "[]")
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, list):
        return None
    spans: list[Span] = []
    for one in values:
        parts = [one.get("start"), one.get("end"), one.get("label")] if isinstance(one, dict) else one
        if not isinstance(parts, list) or [*map(type, parts)] != [int, int, str] or not parts[2].strip():
            return None
        spans.append((parts[0], parts[1], parts[2].strip()))
    return spans


def are_tagged(line: str) -> bool:
    """Whether a line, which could be a header, holds a token and a tag."""
    fields = re.split("[\t ,;|]+", line.strip())
    return line.startswith("-DOCSTART-") or (len(fields) > 1 and TAG.fullmatch(fields[-1]) is not None)


def _tag_column(rows: Sequence[Sequence[str]]) -> int | None:
    """Which field of each line is a tag, the last one first; the first field is the token."""
    width = len(rows[0])
    for at in range(width - 1, 0, -1):
        values = Counter(row[at] for row in rows)
        names = Counter({value: count for value, count in values.items() if NAME.fullmatch(value)})
        sure = names.total() >= max(LEAST, SURE * len(rows)) and len(names) > 1
        if are_tags(values) or (sure and names.most_common(1)[0][0] == "O"):  # kinds of names without a prefix
            return at
    for at in range(1, width):
        if sum(row[at] in WORD_CLASSES for row in rows) >= SURE * len(rows) and len({row[at] for row in rows}) > 2:
            return at
    return None


def are_tags(values: Counter[str]) -> bool:
    """Whether nearly all are tags, O among them, and that of a name too; of values with how often each occurs."""
    fit = Counter({value: count for value, count in values.items() if TAG.fullmatch(value)})
    return fit.total() >= max(LEAST, SURE * values.total()) and 0 < fit["O"] < fit.total()


OUTSIDE = "O"
PREFIXED = re.compile(r"([BIESLUM])-(.+)")
SAME = {"L": "E", "U": "S", "M": "I"}
"""Prefixes of BILOU and BMES, and those of BIOES that mean the same."""
NO_TYPE = "_"
"""The type of an entity whose tags are a prefix alone, as ``seqeval`` names it."""
Entity = tuple[str, int, int]
"""(type, first word, word after the last)."""


def parts(tag: str, *, whole: bool = False) -> tuple[str, str]:
    """(one of B I E S O, type) of a tag.

    A tag without a prefix is I of its type; S with ``whole``, where each word is an entity of its own.
    """
    if tag == OUTSIDE:
        return OUTSIDE, ""
    if match := PREFIXED.fullmatch(tag):
        return SAME.get(match[1], match[1]), match[2]
    if tag in ("B", "I", "E", "S"):
        return tag, NO_TYPE
    return "S" if whole else "I", tag


def entities(tags: Sequence[str], *, whole: bool = False) -> list[Entity]:
    """The entities of a sentence in order, as ``seqeval.metrics.sequence_labeling.get_entities`` finds them.

    That is the rule of the CoNLL-2000 evaluation script: an entity begins at a B or S, after an E or S, after O, and
    where the type changes (Nakayama 2018).
    """
    result: list[Entity] = []
    before, kind, start = OUTSIDE, "", 0
    for at, tag in enumerate([*tags, OUTSIDE]):
        prefix, its = parts(tag, whole=whole)
        new = prefix in "BS" or before in "ESO" or its != kind
        if before != OUTSIDE and (new or prefix == OUTSIDE):
            result.append((kind, start, at))
        if prefix != OUTSIDE and new:
            start = at
        before, kind = prefix, its
    return result


def iob2(tags: Sequence[str]) -> list[str]:
    """The same entities in IOB2: the first word of each B-, the others I-, all else O."""
    result = [OUTSIDE] * len(tags)
    for kind, start, end in entities(tags):
        result[start:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
    return result


def names_words(tags: Iterable[str]) -> bool:
    """Whether tags are those of words and not of entities (parts of speech): none is O, and none has a prefix."""
    return all(tag != OUTSIDE and PREFIXED.fullmatch(tag) is None for tag in tags)


def labels_for(tags: Iterable[str]) -> list[str]:
    """The labels of a model: O, then B- and I- of each type; of words' own tags, those in alphabetical order."""
    known = set(tags)
    if names_words(known):
        return sorted(known)
    kinds = sorted({parts(tag)[1] for tag in known} - {""})
    return [OUTSIDE, *(f"{prefix}-{kind}" for kind in kinds for prefix in "BI")]


def in_labels(tags: Sequence[str], labels: Iterable[str]) -> list[str]:
    """Tags in IOB2 by the labels of a model of another scheme: I-PER or PER where it has no B-PER."""
    known = set(labels)

    def named(tag: str) -> str:
        kind = parts(tag)[1]
        return next((one for one in (tag, f"I-{kind}", kind) if one in known), tag)

    return [named(tag) for tag in tags]
