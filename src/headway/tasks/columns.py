"""The columns of texts and of labels in a table, by rules that tasks share."""

from headway.data.open.column_names import LABEL_NAMES, SURE_LABEL_NAMES, TEXT_NAMES
from headway.data.open.columns import Column
from headway.data.records.rows import some
from headway.errors import InputError
from headway.io.quantities import counted
from headway.tasks.given import Given
from headway.tasks.unsupported import judged_pair

OR_PAIRS = ", or use --task translation for pairs"
"""Another way to use a table in which several columns could be the text."""


def likely_texts(given: Given) -> list[Column]:
    """The column of texts, and after it those that could as well be it; none where no column holds texts.

    A column with a usual name comes before others, a long one before a short one.
    """
    others = [column for column in given.columns if column.name != given.label]
    words = [column for column in others if column.text_like]
    named = [column for column in words if column.key in TEXT_NAMES]
    unnamed = [
        column for column in words if column.key not in (LABEL_NAMES if column.few_if_called_so else SURE_LABEL_NAMES)
    ]
    nested = any(column.nested for column in others)  # which hold the texts rather than a label does
    found = sorted(named or unnamed or ([] if nested else words), key=lambda column: column.mean_length, reverse=True)
    return found[:1] + [
        column for column in found[1:] if column.mean_length > 0.5 * found[0].mean_length and not column.label_like
    ]


def likely_labels(given: Given, text: str) -> list[Column]:
    """The columns that could be the label."""
    others = [column for column in given.columns if column.name != text]
    sure = [column for column in others if column.key in SURE_LABEL_NAMES]
    named = [column for column in others if column.key in LABEL_NAMES and column.few_if_called_so]
    return sure or named or [column for column in others if column.label_like]


def check_no_second(given: Given) -> None:
    """Raise InputError where a second text was named for a task without one."""
    if given.second is not None:
        raise InputError("--second-column is for pairs of texts: use --task embedding or --task translation.")


def only_text(given: Given, otherwise: str = "") -> Column:
    """The column that the texts are in; the only column whatever it holds.

    Raises InputError when none or several could be it, with ``otherwise``: the other things that can be done then.
    """
    found = likely_texts(given) if len(given.columns) > 1 else given.columns
    if not found:
        columns = some(given.table.columns)
        raise InputError(f"{given.name}: no column holds texts; found: {columns}. Name one with --text-column.")
    if len(found) > 1:
        names = " and ".join(repr(column.name) for column in found[:20])
        raise InputError(
            f"{given.name}: the columns {names} could each be the text; choose one with --text-column{otherwise}."
        )
    return found[0]


def find_text(given: Given, reasons: list[str]) -> str:
    """The column of texts: the one that was named, or the first of a pair that is not read as one, or the likely one.

    Raises InputError when none or several could be it, and where a second text was named.
    """
    check_no_second(given)
    if given.text is not None:
        reasons.append(f"column {given.text!r} is the text, as asked")
        return given.text
    if pair := judged_pair(given):
        reasons.append(f"column {pair[0]!r} is the first of a pair: taken as the text (--text-column to change)")
        return pair[0]
    best = only_text(given, OR_PAIRS)
    empty = [column.name for column in given.columns if column.key in TEXT_NAMES and not column.mean_length]
    if best.key in LABEL_NAMES and empty:
        raise InputError(f"{given.name}: column {empty[0]!r} is empty; name the column of texts with --text-column.")
    reasons.append(
        f"column {best.name!r} holds texts of {best.mean_length:,.0f} characters on average: "
        "taken as the text (--text-column to change)"
    )
    return best.name


def find_label(given: Given, text: str, reasons: list[str]) -> str | None:
    """The column of labels; None where nothing looks like one.  Raises InputError when several could be it."""
    if given.label is not None:
        reasons.append(f"column {given.label!r} is the label, as asked")
        return given.label
    found = likely_labels(given, text)
    if len(found) > 1:
        names = some([repr(column.name) for column in found])
        raise InputError(
            f"{given.name}: several columns could be the label: {names}. Choose one with --label-column, "
            "or use --task language_modeling."
        )
    for best in found:
        reasons.append(
            f"column {best.name!r} has {counted(best.distinct, 'distinct value')} in "
            f"{best.n_rows:,} rows: taken as the label (--label-column to change)"
        )
    return found[0].name if found else None


def two_texts(given: Given, task: str, columns: list[Column], score: str | None = None) -> tuple[str, str]:
    """The two columns of texts of a task's pairs: those that were named, the others in their order in the file.

    Raises InputError unless they are clear.
    """
    first, second = given.text, given.second
    named = (first, second, score)
    texts = [c.name for c in columns if c.text_like and c.name not in named and not (c.few and c.key in LABEL_NAMES)]
    wanted = [first, second].count(None)
    if len(texts) < wanted or (len(texts) > wanted and wanted):
        found = some([repr(text) for text in texts]) or "none"
        raise InputError(
            f"{given.name}: {task} needs two columns of texts; found {found}. "
            "Name them with --text-column and --second-column."
        )
    first = texts.pop(0) if first is None else first
    second = texts.pop(0) if second is None else second
    return first, second


def no_columns(given: Given, needed: str) -> InputError:
    """The error for running text where a task needs a table, with what it needs there."""
    return InputError(f"{given.name}: this is running text; {given.asked} needs a table with {needed}.")


def no_labels(given: Given) -> InputError:
    """The error for running text where labels are needed."""
    column = given.only_column
    what = "running text" if column is None else f"a table with one column, {column!r}"
    return InputError(f"{given.name}: this is {what}; classification needs a column of texts and one of labels.")
