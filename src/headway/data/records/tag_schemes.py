"""Tags and the entities that they make: IOB1, IOB2, BIOES, BILOU and IO in, IOB2 out.

Entities are found by the rule of ``seqeval`` (Nakayama 2018) in its default mode, which is that of the CoNLL-2000
evaluation script: an entity begins at a B or S, after an E or S, after O, and where the type changes.
"""

import re
from collections.abc import Iterable, Sequence

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
    if found := PREFIXED.fullmatch(tag):
        return SAME.get(found[1], found[1]), found[2]
    if tag in ("B", "I", "E", "S"):
        return tag, NO_TYPE
    return "S" if whole else "I", tag


def entities(tags: Sequence[str], *, whole: bool = False) -> list[Entity]:
    """The entities of a sentence in order, as ``seqeval.metrics.sequence_labeling.get_entities`` finds them."""
    found: list[Entity] = []
    before, kind, start = OUTSIDE, "", 0
    for at, tag in enumerate([*tags, OUTSIDE]):
        prefix, its = parts(tag, whole=whole)
        new = prefix in "BS" or before in "ESO" or its != kind
        if before != OUTSIDE and (new or prefix == OUTSIDE):
            found.append((kind, start, at))
        if prefix != OUTSIDE and new:
            start = at
        before, kind = prefix, its
    return found


def iob2(tags: Sequence[str]) -> list[str]:
    """The same entities in IOB2: the first word of each B-, the others I-, all else O."""
    found = [OUTSIDE] * len(tags)
    for kind, start, end in entities(tags):
        found[start:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
    return found


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
