"""Texts with tags or spans: files of a token and its tag on each line, and tables of lists or of spans."""

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from headway.data.formats.tags import SURE, TAG, TAGS, listed, spans_of, tagged
from headway.data.open.columns import TABLE, TEXT, Column, Detected
from headway.errors import InputError
from headway.tasks.data_facts import DataFacts
from headway.tasks.recognise import BY_VALUES, Recogniser

LINES = 1 << 17
"""Characters at the start of a file that are looked at."""


class TaggedTexts(Recogniser):
    """Lines of a token and its tag, lists of tokens and of tags, texts and spans."""

    def fit(self, facts: DataFacts) -> int | None:
        if facts.shape == TEXT:
            fits = facts.only_column is None and facts.cached(tagged_lines) is not None
        else:
            fits = facts.shape == TABLE and facts.second is None and facts.cached(tagged_columns) is not None
        return BY_VALUES if fits else None

    def columns(self, facts: DataFacts) -> Detected:
        if facts.shape == TEXT and facts.only_column is not None:
            raise facts.no_table(f"{facts.asked} needs a table with tags or spans next to its texts")
        facts.check_no_second()
        text, label = facts.text, facts.label
        if facts.shape == TEXT:
            text, label = None, None
            shown = "a token and its tag on each line" if facts.asked else facts.cached(tagged_lines)
        elif found := facts.cached(tagged_columns):
            text, label, shown = found
        elif text is not None and label is not None:
            shown = f"column {label!r} holds the tags, as asked"
        else:
            raise facts.error(
                f"{self.task} needs a column of lists of tokens and one of as many tags, or one of texts and one of "
                'spans ({"start", "end", "label"}); name them with --text-column and --label-column.'
            )
        otherwise = "read it as text" if facts.shape == TEXT else "train on the text only"
        why = ", as asked" if facts.asked else f" (--task language_modeling to {otherwise})"
        return Detected(self.task, text, label, [f"{shown}: {self.task}{why}"])


def tagged_lines(facts: DataFacts) -> str | None:
    """How the files show tagged tokens; None where they are running text.  Raises InputError for both together."""
    found = {}
    for one in facts.source.sources:
        text = "".join(islice((piece for document in one.open(None) for piece in document), 2))
        name = one.path.name.lower().removesuffix(".gz")
        found[one.path] = tagged(text[:LINES].split("\n"), Path(name).suffix)
    shown = [path for path, said in found.items() if said]
    others = [path for path in found if path not in shown]
    if shown and others:
        raise InputError(f"{shown[0]} holds tagged tokens, {others[0]} does not; give inputs of one kind.")
    return found[shown[0]] if shown else None


def tagged_columns(facts: DataFacts) -> tuple[str, str, str] | None:
    """(column of texts or lists of tokens, column of spans or lists of tags, what shows it); None where there is none.

    A list of tags is as long as the list of tokens in the same row.  Of a wide table only the few columns are compared
    that are called so, or whose first rows hold lists of tags.
    """
    first = next(iter(facts.source.chunks()), None)
    if first is None:
        return None
    texts = [one for one in facts.columns if (one.name == facts.text if facts.text else one.called("text", "tokens"))]
    labels = [
        one
        for one in facts.columns
        if (one.name == facts.label if facts.label else _may_be_tags(one, first.columns[one.name]))
    ]
    for tags in labels if texts else ():
        for text in texts:
            if text is not tags and (said := _lists_of_tags(facts, text, tags) or _spans(facts, text, tags)):
                return text.name, tags.name, said
    return None


def _lists_of_tags(facts: DataFacts, text: Column, tags: Column) -> str | None:
    """Lists named like tags next to lists named like tokens; or lists that hold only tags."""
    named = text.called("tokens") and TAGS.search(tags.key) is not None
    values = facts.source.values(tags.name)
    if not (any(map(listed, values)) if named else text.called("text", "tokens") and _hold_tags(values)):
        return None
    lists = ([_parts(value) for value in facts.source.values(column.name)] for column in (text, tags))
    pairs = list(zip(*lists, strict=True))
    fit = sum(len(a) == len(b) > 0 for a, b in pairs)
    if fit < SURE * len(pairs) and not (named and _are_meant_as_tags(facts, text, tags, 2 * fit >= len(pairs))):
        return None
    many = "tags" if fit < len(pairs) else "as many tags"
    return f"columns {text.name!r} and {tags.name!r} hold lists of tokens and of {many}"


def _are_meant_as_tags(facts: DataFacts, text: Column, tags: Column, half_fit: bool) -> bool:
    """Whether lists named like tokens and tags are such although many differ in length; reading names the first row.

    They are where the task was named, where half of the rows fit, and where the lists hold tags.  Other lists can be
    several labels of a text.
    """
    for column in (text, tags):
        are_lists = [listed(value) is not None for value in facts.source.values(column.name) if value.strip()]
        if sum(are_lists) < SURE * len(are_lists):
            return False
    return facts.asked is not None or half_fit or _hold_tags(facts.source.values(tags.name))


def _parts(value: str) -> list[str]:
    parts = listed(value)
    return value.split() if parts is None else parts


def _may_be_tags(column: Column, first: Iterable[str]) -> bool:
    """Whether a column is called like tags or spans, or begins with lists of tags, some cells blank."""
    if TAGS.search(column.key) or column.called("spans"):
        return True
    return column.mean_length > 0 and all(_are_tags(_parts(value.strip())) for value in first if value.strip())


def _are_tags(parts: Sequence[str]) -> bool:
    return len(parts) > 0 and all(map(TAG.fullmatch, parts))


def _hold_tags(values: Iterable[str]) -> bool:
    """Whether all cells are lists of tags, and some are those of entities."""
    several = named = False
    for parts in (_parts(value.strip()) for value in values if value.strip()):
        if not _are_tags(parts):
            return False
        several, named = several or len(parts) > 1, named or any("-" in part for part in parts)
    return several and named


def _spans(facts: DataFacts, text: Column, spans: Column) -> str | None:
    """Lists of spans in the rows of texts."""
    named = (facts.text or text.called("text")) and (facts.label or spans.called("spans"))
    if not named or text.numeric or not text.mean_length or not facts.first(spans.name).startswith("["):
        return None
    cells = [spans_of(value) for value in facts.source.values(spans.name)]
    if cells.count(None) > (1 - SURE) * len(cells) or not any(cells):
        return None
    return f"column {spans.name!r} holds spans of the text in {text.name!r}, with a label each"


RECOGNISER = TaggedTexts("token_classification")
