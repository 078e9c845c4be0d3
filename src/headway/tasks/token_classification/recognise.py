"""Texts with tags or spans: files of a token and its tag on each line, and tables of lists or of spans."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from headway.data.formats.tags import SPANS, SURE, TAG, TAGS, TOKENS, listed, spans_of, tagged
from headway.data.open.column_names import TEXT_NAMES
from headway.data.open.columns import Column
from headway.data.open.detected import TABLE, TEXT, Detected
from headway.errors import InputError
from headway.tasks.columns import check_no_second, no_columns
from headway.tasks.given import Given
from headway.tasks.recognise import BY_VALUES, Recogniser

CALLED = frozenset((*TEXT_NAMES, *TOKENS))
"""Names of columns of texts, and of lists of tokens."""
LINES = 1 << 17
"""Characters at the start of a file that are looked at."""


class TaggedTexts(Recogniser):
    """Lines of a token and its tag, lists of tokens and of tags, texts and spans."""

    def fit(self, given: Given) -> int | None:
        if given.shape == TEXT:
            fits = given.only_column is None and given.once(tagged_lines) is not None
        else:
            fits = given.shape == TABLE and given.second is None and given.once(tagged_columns) is not None
        return BY_VALUES if fits else None

    def columns(self, given: Given) -> Detected:
        if given.shape == TEXT:
            return self._lines(given)
        check_no_second(given)
        if found := given.once(tagged_columns):
            text, label, said = found
        elif given.text is not None and given.label is not None:
            text, label, said = given.text, given.label, f"column {given.label!r} holds the tags, as asked"
        else:
            raise InputError(
                f"{given.name}: {self.task} needs a column of lists of tokens and one of as many tags, or one of texts "
                'and one of spans ({"start", "end", "label"}); name them with --text-column and --label-column.'
            )
        as_text = f"{self.task} (--task language_modeling to train on the text only)"
        return Detected(self.task, text, label, [f"{said}: {f'{self.task}, as asked' if given.asked else as_text}"])

    def _lines(self, given: Given) -> Detected:
        if given.only_column is not None:
            raise no_columns(given, "tags or spans next to its texts")
        why = f"a token and its tag on each line: {self.task}, as asked"
        if given.asked is None:
            why = f"{given.once(tagged_lines)}: {self.task} (--task language_modeling to read it as text)"
        return Detected(self.task, None, None, [why])


def tagged_lines(given: Given) -> str | None:
    """How the files show tagged tokens; None where they are running text.  Raises InputError for both together."""
    found = {}
    for one in given.corpus.sources:
        text = "".join(islice((piece for document in one.open(None) for piece in document.chunks()), 2))
        name = one.path.name.lower().removesuffix(".gz")
        found[one.path] = tagged(text[:LINES].split("\n"), Path(name).suffix)
    shown = [path for path, said in found.items() if said]
    if shown and len(shown) < len(found):
        other = next(path for path, said in found.items() if not said)
        raise InputError(f"{shown[0]} holds tagged tokens, {other} does not; give inputs of one kind.")
    return found[shown[0]] if shown else None


def tagged_columns(given: Given) -> tuple[str, str, str] | None:
    """(column of texts or lists of tokens, column of spans or lists of tags, what shows it); None where there is none.

    A list of tags is as long as the list of tokens in the same row.  Of a wide table only the few columns are compared
    that are called so, or whose first rows hold lists of tags.
    """
    first = next(iter(given.table.chunks()), None)
    if first is None:
        return None
    texts = [one for one in given.columns if given.text == one.name or (not given.text and one.key in CALLED)]
    labels = [
        one
        for one in given.columns
        if given.label == one.name or (not given.label and _may_be_tags(one, first.columns[one.name]))
    ]
    for tags in labels if texts else ():
        for text in texts:
            if text is not tags and (said := _lists_of_tags(given, text, tags) or _spans(given, text, tags)):
                return text.name, tags.name, said
    return None


def _lists_of_tags(given: Given, text: Column, tags: Column) -> str | None:
    """Lists named like tags next to lists named like tokens; or lists that hold only tags."""
    named = text.key in TOKENS and TAGS.search(tags.key) is not None
    if not named and (text.key not in CALLED or not _hold_tags(given.values(tags.name))):
        return None
    if named and not any(listed(value) for value in given.values(tags.name)):
        return None
    lists = ([_parts(value) for value in given.values(column.name)] for column in (text, tags))
    pairs = list(zip(*lists, strict=True))
    fit = sum(len(a) == len(b) > 0 for a, b in pairs)
    if fit < SURE * len(pairs) and not (named and _are_meant_as_tags(given, text, tags, 2 * fit >= len(pairs))):
        return None
    many = "tags" if fit < len(pairs) else "as many tags"
    return f"columns {text.name!r} and {tags.name!r} hold lists of tokens and of {many}"


def _are_meant_as_tags(given: Given, text: Column, tags: Column, half_fit: bool) -> bool:
    """Whether lists named like tokens and tags are such although many differ in length; reading names the first row.

    They are where the task was named, where half of the rows fit, and where the lists hold tags.  Other lists can be
    several labels of a text.
    """
    for column in (text, tags):
        are_lists = [listed(value) is not None for value in given.values(column.name) if value.strip()]
        if sum(are_lists) < SURE * len(are_lists):
            return False
    return given.asked is not None or half_fit or _hold_tags(given.values(tags.name))


def _parts(value: str) -> list[str]:
    found = listed(value)
    return value.split() if found is None else found


def _may_be_tags(column: Column, first: Iterable[str]) -> bool:
    """Whether a column is called like tags or spans, or begins with lists of tags, some cells blank."""
    if TAGS.search(column.key) or column.key in SPANS:
        return True
    lists = (_parts(value.strip()) for value in first if value.strip())
    return column.mean_length > 0 and all(parts and all(map(TAG.fullmatch, parts)) for parts in lists)


def _hold_tags(values: Iterable[str]) -> bool:
    """Whether all cells are lists of tags, and some are those of entities."""
    several = named = False
    for parts in (_parts(value.strip()) for value in values if value.strip()):
        if not parts or not all(TAG.fullmatch(part) for part in parts):
            return False
        several, named = several or len(parts) > 1, named or any("-" in part for part in parts)
    return several and named


def _spans(given: Given, text: Column, spans: Column) -> str | None:
    """Lists of spans in the rows of texts."""
    named = (given.text or text.key in TEXT_NAMES) and (given.label or spans.key in SPANS)
    if not named or text.numeric or not text.mean_length:
        return None
    if not next((value for value in given.values(spans.name) if value.strip()), "").startswith("["):
        return None
    cells = [spans_of(value) for value in given.values(spans.name)]
    if cells.count(None) > (1 - SURE) * len(cells) or not any(cells):
        return None
    return f"column {spans.name!r} holds spans of the text in {text.name!r}, with a label each"


RECOGNISER = TaggedTexts("token_classification")
