"""Labels that differ only in typing ("Positive", "positive", "postive"): finding and joining them."""

import re
import unicodedata
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from headway.data.records.rows import shorten, some
from headway.errors import InputError
from headway.io.quantities import counted
from headway.io.strict_json import parse_object, read_text

MISSING = frozenset(["", "nan", "null", "<na>", "#n/a", "n/a"])
"""Values that mean a missing label, in lower case; "NA" too, but only in capitals."""
ALL = "all"
"""For --merge-labels: join whatever differs only in typing."""
INVISIBLE = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")
"""Characters that nobody sees in a label."""
LETTERS = 5
"""A label of fewer letters is near to too many words."""
RARE = 10
"""So many rows of a label are no slip, unless the other label has TIMES as many."""
TIMES = 10
SHOWN = 5
"""Labels that a line names, of each class and classes."""


def typing_key(label: str) -> str:
    """What labels share that differ only in case, blank space and how their letters are encoded."""
    seen = unicodedata.normalize("NFC", INVISIBLE.sub("", label))
    return " ".join(unicodedata.normalize("NFC", seen.casefold()).split())


def groups(counts: Mapping[str, int]) -> dict[str, list[str]]:
    """The labels that would be one class: what each class would be called, and the others, the most frequent first.

    A class is called as most of its rows have it.  Near spellings, one letter apart, belong to a class that has more
    rows; never where digits differ, where there are fewer than five letters, or where both are frequent.
    """
    same: dict[str, list[str]] = {}
    for label in sorted(counts, key=lambda label: (-counts[label], label)):
        same.setdefault(typing_key(label), []).append(label)
    rows = {key: sum(counts[label] for label in members) for key, members in same.items()}
    joined = _near_spellings(rows)
    classes: dict[str, list[str]] = {}
    for key, members in same.items():
        meant = same[joined.get(key, key)][0]
        classes.setdefault(meant, []).extend(label for label in members if label != meant)
    return {meant: others for meant, others in classes.items() if others}


def _near_spellings(rows: Mapping[str, int]) -> dict[str, str]:
    """For each rare key that is a near spelling of one more frequent key, and of no second, that key."""
    able = [key for key in rows if sum(letter.isalpha() for letter in key) >= LETTERS and len(key) <= 100]
    forms = {key: {key, *(key[:at] + key[at + 1 :] for at in range(1, len(key)))} for key in able}
    """each key, and it without one letter, for each but the first: keys one edit apart share such a form"""
    spelt: dict[str, list[str]] = {}
    for key in able:
        for form in forms[key]:
            spelt.setdefault(form, []).append(key)
    nearest: dict[str, str] = {}
    for key in able:
        others, count = {other for form in forms[key] for other in spelt[form] if other != key}, rows[key]
        more = (other for other in others if 2 * count <= rows[other] and (count < RARE or TIMES * count < rows[other]))
        near = [other for other in more if _one_apart(key, other)]
        if len(near) == 1:
            nearest[key] = near[0]
    return {key: other for key, other in nearest.items() if other not in nearest}


def _one_apart(one: str, other: str) -> bool:
    """Whether one letter is missing, added, another, or changed places with the next; never the first, and no digit."""
    if one[0] != other[0] or re.sub(r"\D", "", one) != re.sub(r"\D", "", other):
        return False
    short, long = sorted((one, other), key=len)
    at = next((i for i, letter in enumerate(short) if letter != long[i]), len(short))
    if len(long) > len(short):
        return short[at:] == long[at + 1 :]
    swapped = short[:at] + short[at : at + 2][::-1] + short[at + 2 :]
    return short[at + 1 :] == long[at + 1 :] or swapped == long


def composed(label: str) -> str:
    """A label in NFC: letters with accents are the same, however they are written."""
    return unicodedata.normalize("NFC", label)


def apart(label: str, known: Sequence[str]) -> str:
    """The code points by which a label differs from a known one that may look the same; "" where there is none."""
    for other in known:
        pairs = [pair for pair in zip(label, other, strict=False) if pair[0] != pair[1]]
        unseen = [f"U+{ord(one):04X}" for one in INVISIBLE.findall(label + other)]
        if len(label) == len(other) >= 3 * len(pairs) > 0 and not any(map(str.isascii, map("".join, pairs))):
            points = ", ".join(f"U+{ord(one):04X} and not U+{ord(two):04X}" for one, two in pairs[:SHOWN])
            return f" (it has {points} of {other!r})"
        if unseen and INVISIBLE.sub("", label) == INVISIBLE.sub("", other):
            return f" (it differs from {other!r} by {', '.join(unseen[:SHOWN])})"
    return ""


def suggestion(counts: Mapping[str, int]) -> list[str]:
    """One line that says which labels would be one class, if any."""
    joined = groups(counts)
    if not joined:
        return []
    after = len(counts) - sum(map(len, joined.values()))
    named = {meant: [f"{shorten(one)} ({counts[one]:,})" for one in others] for meant, others in joined.items()}
    shown = "; ".join(f"{meant!r} for {some(others, SHOWN)}" for meant, others in list(named.items())[:SHOWN])
    more = f"; and {len(joined) - SHOWN:,} more" if len(joined) > SHOWN else ""
    return [
        f"labels that differ only in typing: {len(counts):,} classes, which would be {after:,} with --merge-labels all:"
        f" {shown}{more} (or name a file of pairs, found and meant)"
    ]


def value_of(label: str) -> Hashable:
    """What is equal for labels that are one value written in two ways: 1 and 1.0, true and True."""
    if (word := label.casefold()) in ("true", "false"):
        return word
    number = re.fullmatch(r"-?\d{1,15}(\.\d{1,15})?", label)
    return composed(label) if number is None else Decimal(label)


@dataclass(frozen=True)
class Merging:
    """How labels are read and joined, as a run records it."""

    pairs: dict[str, str] = field(default_factory=dict)
    """the label that is meant by each that was found"""
    by_typing: bool = False
    """whether a label that was never seen is one that differs from it only in typing"""
    as_text: bool = False
    """whether a label is what is written, so that NA is a label, and blank space around it is a part of it"""

    def __call__(self, label: str, known: Mapping[str, str]) -> str:
        """The label that is meant; ``known`` are those that are meant by their keys."""
        meant = self.pairs.get(label)
        return meant or (known.get(typing_key(label), label) if self.by_typing else label)

    def is_missing(self, cell: str) -> bool:
        """Whether a cell means that there is no label."""
        label = cell.strip()
        is_word = label.casefold() in MISSING or label == "NA"
        return not label or (is_word and not self.as_text and label not in self.pairs)

    def merged(self, labels: Sequence[str], classes: Sequence[str] = ()) -> list[str]:
        """The labels after joining; ``classes`` are those of the run."""
        ours = {composed(one): one for one in classes} | {one: one for one in classes}
        if not self.as_text:
            labels = [label.strip() for label in labels]
            same = {value_of(one): one for one in classes}
            ours = {label: same[value_of(label)] for label in labels if value_of(label) in same} | ours
        labels = [ours.get(label) or ours.get(composed(label), composed(label)) for label in labels]
        if not (classes or self.pairs or self.by_typing):
            return labels
        known = {typing_key(label): label for label in (*self.pairs.values(), *classes)}
        known |= {typing_key(label): meant for label, meant in self.pairs.items()}
        meant = {label: self(label, known) for label in set(labels)} | {label: label for label in classes}
        return [meant[label] for label in labels]

    def plain(self) -> dict[str, Any]:
        """As headway.json keeps it."""
        return {"pairs": self.pairs, "by_typing": self.by_typing}


def merging(asked: str | None, counts: Mapping[str, int], as_text: bool = False) -> Merging | None:
    """What ``--merge-labels`` asks for, given the rows of each label.  Raises InputError for a file without pairs."""
    plain = Merging(as_text=as_text)
    if asked is None:
        return plain if as_text else None
    if asked == ALL:
        counts = {label: count for label, count in counts.items() if not plain.is_missing(label)}
        return Merging({other: meant for meant, others in groups(counts).items() for other in others}, True, as_text)
    pairs = {composed(label): composed(wanted) for label, wanted in read_pairs(asked).items()}
    if not set(pairs) & set(counts):
        raise InputError(
            f"--merge-labels {asked}: none of the labels found in it, such as {shorten(next(iter(pairs)))}, is a label "
            f"here; there are {', '.join(map(repr, list(counts)[:SHOWN]))}."
        )
    return Merging(pairs, as_text=as_text)


def recorded(facts: Mapping[str, Any]) -> Merging | None:
    """How the labels of a run were read and joined, by its headway.json."""
    data, options = facts.get("data"), facts.get("options")
    as_text = isinstance(options, dict) and options.get("labels_as_text") is True
    kept = data.get("merged_labels") if isinstance(data, dict) else None
    if not isinstance(kept, dict) or not isinstance(kept.get("pairs"), dict):
        return merging(None, {}, as_text)
    pairs = {label: meant for label, meant in kept["pairs"].items() if isinstance(meant, str)}
    return Merging(pairs, bool(kept.get("by_typing")), as_text)


def as_measured(
    facts: Mapping[str, Any], asked: str | None, as_text: bool, counts: Mapping[str, int], classes: Sequence[str]
) -> Merging:
    """How the labels to measure are read: as the run recorded, then as the options ask; a class stays itself."""
    before = recorded(facts) or Merging()
    often = dict.fromkeys(classes, 1 + 2 * TIMES * sum(counts.values()))  # every group is called as its class
    more = merging(asked, {**counts, **often}, as_text) or Merging()
    return Merging({**before.pairs, **more.pairs}, before.by_typing or more.by_typing, as_text)


def read_pairs(place: str | Path) -> dict[str, str]:
    """Pairs of a .csv or .tsv with the columns "found" and "meant", or of a .json object.  Raises InputError."""
    from headway.data.open.read import read  # which reads labels too
    from headway.data.records.table import Table

    path = Path(place)

    def wrong(what: str) -> InputError:
        return InputError(f"--merge-labels {path}: {what}")

    pairs: list[Any]
    if path.name.lower().endswith(".json"):
        value = parse_object(f'{{"pairs": {read_text(path)}}}', str(path))["pairs"]
        pairs = value if isinstance(value, list) else [*value.items()] if isinstance(value, dict) else [value]
        pairs = [(one.get("found"), one.get("meant")) if isinstance(one, dict) else one for one in pairs]
        if not all(isinstance(one, list | tuple) and len(one) == 2 and isinstance(one[0], str) for one in pairs):
            example = '[{"found": "postive", "meant": "positive"}]'
            raise wrong(f'expected pairs such as {{"postive": "positive"}} or {example}.')
    else:
        source = read([path])
        if not isinstance(source, Table) or set(source.columns) != {"found", "meant"}:
            columns = ", ".join(source.columns) if isinstance(source, Table) else "one column"
            table = "a table with the columns found and meant, or one JSON object"
            raise wrong(f'expected "all", or a .csv, .tsv or .json of pairs: {table}; there is {columns}.')
        pairs = [(row["found"], row["meant"]) for row in source]
    kept: dict[str, str] = {}
    for label, meant in pairs:
        if not isinstance(meant, str) or not meant.strip() or not label.strip():
            raise wrong(f"{shorten(label)} needs the label that it means, as text.")
        if kept.setdefault(label.strip(), meant.strip()) != meant.strip():
            raise wrong(f"{shorten(label)} stands for two labels; keep one of the pairs.")
    for label, meant in kept.items():
        if (last := kept.get(meant, meant)) != meant:
            raise wrong(f"{shorten(label)} means {meant!r}, which means {last!r}; name the last one in both pairs.")
    if not kept:
        raise wrong("there are no pairs in this file.")
    return kept


def said(merging: Merging, counts: Counter[str]) -> str:
    """A line about what was joined, ``counts`` being those before."""
    joined = [label for label, _ in counts.most_common() if merging.pairs.get(label, label) != label]
    words = [f"{shorten(label)} ({counts[label]:,}) as {merging.pairs[label]!r}" for label in joined]
    return f"labels joined in {counted(sum(counts[label] for label in joined), 'row')}: {some(words, SHOWN) or 'none'}"
