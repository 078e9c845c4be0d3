"""Find the two columns of a table that hold pairs of texts."""

from math import isnan

from headway.data.formats.aligned import is_language, is_target_of
from headway.data.open.column_names import LABEL_NAMES, SCORE_NAMES, SURE_LABEL_NAMES
from headway.data.open.columns import Column, number
from headway.data.open.detected import Detected
from headway.data.records.labels import MISSING
from headway.data.records.rows import shorten
from headway.data.records.table import Table
from headway.errors import InputError

NO_NUMBERS = MISSING | {"na", "inf", "-inf"}
"""Values in place of a missing number, in lower case."""


def detect_scored_pairs(
    table: Table, columns: list[Column], first: str | None, second: str | None, score: str | None
) -> Detected:
    """For embedding: the two columns of texts, and the column of scores if there is one.

    Raises InputError, also where another column could hold scores that are not read: pairs that do not belong together
    would be trained as though they did.  Naming both columns of texts says that they all do.
    """
    reasons, both_named = [], first is not None and second is not None
    if score is None:
        scored = [c.name for c in columns if c.name not in (first, second) and _holds_scores(table, c)]
        score = scored[0] if len(scored) == 1 else None
        if score is not None:
            reasons.append(f"column {score!r} is taken as the score of each pair (--label-column to change)")
    among = _without_few(columns, first, second) if score is None else columns
    first, second = _two_texts(table.name, "embedding", among, first, second, score)
    if len({first, second, score}) < 3 and not (score is None and first != second):
        raise InputError(f"{table.name}: the two texts and the score must be three different columns.")
    reasons.append(f"columns {first!r} and {second!r} hold pairs of texts (--text-column, --second-column to change)")
    others = [] if score is not None else [c for c in columns if c.name not in (first, second) and _like_scores(c)]
    if others and not both_named:
        raise _unread(table, others)
    for column in others:
        reasons.append(f"column {column.name!r} is not read: every pair counts as a match")
    reasons.append("task: embedding, as asked: " + ("pairs with scores" if score else "matching pairs"))
    return Detected("embedding", first, score, reasons, second)


def _holds_scores(table: Table, column: Column) -> bool:
    """Whether a column is called like a score and holds numbers, in most rows at least; the others are refused later.

    What stands for a number that is not there, such as nan, counts as one.
    """
    if column.numeric or column.key not in SCORE_NAMES:
        return column.numeric and column.key in SCORE_NAMES
    written = [value.strip() for value in table.values(column.name) if value.strip()]
    numbers = [value for value in written if value.casefold() in NO_NUMBERS or not isnan(number(value))]
    return 2 * len(numbers) > len(written)


def _like_scores(column: Column) -> bool:
    """Whether a column could be meant to say how well the texts of each pair go together."""
    return column.label_like or (column.distinct > 0 and column.key in LABEL_NAMES | SCORE_NAMES)


def _without_few(columns: list[Column], first: str | None, second: str | None) -> list[Column]:
    """The columns without those of a few values, if the others are as many texts as are wanted."""
    rest = [column for column in columns if not column.few]
    texts = [column for column in rest if column.text_like and column.name not in (first, second)]
    return rest if len(texts) == [first, second].count(None) else columns


def _unread(table: Table, columns: list[Column]) -> InputError:
    """The error for columns that could hold scores and would not be read."""
    alone = "use --text-column and --second-column to count every pair as a match"
    for column in columns:
        for row, value in enumerate(table.values(column.name)):
            if value.strip() and isnan(number(value)):
                return InputError(
                    f"{table.name}: column {column.name!r} looks like the score of each pair, but holds "
                    f"{shorten(value.strip())} ({table.place(row)}). Scores must be numbers (for example 0 and 1); "
                    f"{alone}."
                )
    names = " or ".join(repr(column.name) for column in columns)
    return InputError(
        f"{table.name}: column {names} could be the score of each pair: name it with --label-column, or {alone}."
    )


def detect_translation(
    name: str, columns: list[Column], source: str | None, target: str | None, task: str | None
) -> Detected:
    """For translation, and for every other way from a text to a text: the column of each.  Raises InputError.

    Columns that are called like the two sides of a text are taken before others.
    """
    if source is None and target is None and (sides := called_like_sides(columns)):
        source, target = sides
    source, target = _two_texts(name, task or "translation", columns, source, target, None)
    if source == target:
        raise InputError(f"{name}: column {source!r} cannot be source and target at once.")
    why = f"{task}, as asked" if task else "translation (--task language_modeling or classification to change)"
    what = f"column {source!r} is the source and {target!r} the target (--text-column, --second-column to change)"
    return Detected("translation", source, None, [f"{what}: {why}"], target)


def called_like_sides(columns: list[Column]) -> tuple[str, str] | None:
    """The source and the target among columns of texts, by their names: two languages, or a name and its counterpart.

    None where that is not clear: where there are several such pairs, where a column is called like a label, and where
    the table has instructions as well as inputs.  A column "id" is not Indonesian.
    """
    names = {column.name.lower() for column in columns}
    if any(column.key in SURE_LABEL_NAMES for column in columns) or "instruction" in names:
        return None
    texts = [column.name for column in columns if column.text_like and not column.few]
    languages = [name for name in texts if is_language(name.lower()) and name.lower() != "id"]
    found = [(a, b) for a in texts for b in texts if is_target_of(b.lower(), a.lower())]
    found += [(languages[0], languages[1])] if len(languages) == 2 else []
    return found[0] if len(found) == 1 else None


def _two_texts(
    name: str, task: str, columns: list[Column], first: str | None, second: str | None, score: str | None
) -> tuple[str, str]:
    """The columns that are not named yet, in their order in the file.  Raises InputError unless they are clear."""
    named = (first, second, score)
    texts = [c.name for c in columns if c.text_like and c.name not in named and not (c.few and c.key in LABEL_NAMES)]
    wanted = [first, second].count(None)
    if len(texts) < wanted or (len(texts) > wanted and wanted):
        found = ", ".join(repr(text) for text in texts) or "none"
        raise InputError(
            f"{name}: {task} needs two columns of texts; found {found}. "
            "Name them with --text-column and --second-column."
        )
    first = texts.pop(0) if first is None else first
    second = texts.pop(0) if second is None else second
    return first, second
