"""What is this data for, and which columns hold it?"""

import re
import statistics
from dataclasses import dataclass

from headway.data.column_names import LABEL_NAMES, SCORE_NAMES, SURE_LABEL_NAMES, TEXT_NAMES
from headway.data.corpus import Corpus
from headway.data.dialogues import Dialogues
from headway.data.rows import missing_column
from headway.data.table import Table
from headway.errors import InputError

TASKS = ("language_modeling", "classification", "masked_lm", "embedding")

MOST_LABELS = 100
"""A column with more distinct values is a label only when it is named."""

LABEL_CHARACTERS = 40
"""A label is short: its average length in characters is at most this."""


@dataclass(frozen=True)
class Detected:
    """What was found; `reasons` are lines for a person, each with the option that would change it."""

    task: str
    text_column: str | None
    label_column: str | None
    reasons: list[str]
    second_column: str | None = None
    """The other text of each pair (embedding)."""


@dataclass(frozen=True)
class _Column:
    """What counts when a column is judged."""

    name: str
    distinct: int
    mean_length: float
    numeric: bool
    n_rows: int

    @property
    def key(self) -> str:
        return re.sub(r"[\W_]+", "", self.name.casefold())

    @property
    def few(self) -> bool:
        """Few distinct, short values that repeat, if only one."""
        few = 1 <= self.distinct <= min(MOST_LABELS, max(2, self.n_rows // 2))
        counted = self.numeric and self.distinct > 20  # ids, years, amounts
        return few and not counted and self.mean_length <= LABEL_CHARACTERS

    @property
    def label_like(self) -> bool:
        """Few values, and more than one."""
        return self.few and self.distinct > 1

    @property
    def text_like(self) -> bool:
        """Words, most of them different from row to row."""
        return not self.numeric and self.mean_length > 0 and self.distinct > 1


def detect(
    source: Corpus | Table,
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    second_column: str | None = None,
    task: str | None = None,
) -> Detected:
    """Find the task and the columns of what was read, or check those the user named.

    Raises InputError when a named column is not there, when the task does not fit, and when the columns leave a choice.
    """
    if task is not None and task not in TASKS:
        raise InputError(f"there is no task {task!r}; expected one of {', '.join(TASKS)}.")
    if isinstance(source, Corpus):
        return _detect_corpus(source, text_column, label_column, task)
    if isinstance(source, Dialogues):
        return _detect_dialogues(source, text_column or label_column or second_column, task)
    for name in (text_column, label_column, second_column):
        if name is not None and name not in source.columns:
            raise missing_column(source.name, name, source.columns)
    if text_column is not None and text_column == label_column:
        raise InputError(f"{source.name}: column {text_column!r} cannot be the text and the label at once.")
    if task in ("language_modeling", "masked_lm") and label_column is not None:
        raise InputError("a language model has no label; leave out --label-column, or use --task classification.")
    columns = [_judge(source, name) for name in source.columns if name]
    if task == "embedding":
        return detect_pairs(source.name, columns, text_column, second_column, label_column)
    if second_column is not None:
        raise InputError("--second-column is for pairs of texts: use --task embedding.")
    reasons: list[str] = []
    text = text_column or _find_text(source, columns, label_column, reasons)
    if text_column is not None:
        reasons.append(f"column {text!r} is the text, as asked")
    if task in ("language_modeling", "masked_lm"):
        what = "language modelling" if task == "language_modeling" else "masked language modelling"
        return Detected(task, text, None, [*reasons, f"task: {what}, as asked"])
    label = label_column or _find_label(source, columns, text, task, reasons)
    if label_column is not None:
        reasons.append(f"column {label!r} is the label, as asked")
    if label is None:
        reasons.append("no column looks like a label: language modelling (--label-column to classify)")
        return Detected("language_modeling", text, None, reasons)
    unread = [repr(column.name) for column in columns if column.text_like and column.name not in (text, label)]
    if unread:
        are = "is not read" if len(unread) == 1 else "are not read"
        reasons.append(f"{' and '.join(unread)} {are}; pairs of texts that belong together are for --task embedding")
    reasons.append("a text and a label in every row: classification (--task language_modeling to learn the text alone)")
    return Detected("classification", text, label, reasons)


def detect_pairs(
    name: str, columns: list[_Column], first: str | None, second: str | None, score: str | None
) -> Detected:
    """The two columns of texts, in their order in the file, and the column of scores if there is one."""
    reasons = []
    if score is None:
        scored = [c.name for c in columns if c.numeric and c.key in SCORE_NAMES and c.name not in (first, second)]
        score = scored[0] if len(scored) == 1 else None
        if score is not None:
            reasons.append(f"column {score!r} is taken as the score of each pair (--label-column to change)")
    named = (first, second, score)
    texts = [c.name for c in columns if c.text_like and c.name not in named and not (c.few and c.key in LABEL_NAMES)]
    wanted = [first, second].count(None)
    if len(texts) < wanted or (len(texts) > wanted and wanted):
        found = ", ".join(repr(text) for text in texts) or "none"
        raise InputError(
            f"{name}: embedding needs two columns of texts; found {found}. "
            "Name them with --text-column and --second-column."
        )
    first = texts.pop(0) if first is None else first
    second = texts.pop(0) if second is None else second
    if len({first, second, score}) < 3 and not (score is None and first != second):
        raise InputError(f"{name}: the two texts and the score must be three different columns.")
    reasons.append(f"columns {first!r} and {second!r} hold pairs of texts (--text-column, --second-column to change)")
    reasons.append("task: embedding, as asked: " + ("pairs with scores" if score else "pairs that belong together"))
    return Detected("embedding", first, score, reasons, second)


def _detect_corpus(source: Corpus, text_column: str | None, label_column: str | None, task: str | None) -> Detected:
    column = source.sources[0].column
    for name in (text_column, label_column):
        if name is not None and column is None:
            raise InputError(f"{source.name}: this is running text without columns; there is no column {name!r}.")
        if name is not None and name != column:
            raise missing_column(source.name, name, [column or ""])
    if task == "embedding":
        raise InputError(f"{source.name}: this is running text; embedding needs a table with two columns of texts.")
    if task == "classification" or label_column is not None:
        what = "running text" if column is None else f"a table with one column, {column!r}"
        raise InputError(f"{source.name}: this is {what}; classification needs a column of texts and one of labels.")
    why = "running text" if column is None else f"one column, {column!r}: each row is a document"
    if task == "masked_lm":
        return Detected(task, column, None, [f"{why}: masked language modelling, as asked"])
    return Detected("language_modeling", column, None, [f"{why}: language modelling"])


def _detect_dialogues(source: Dialogues, column: str | None, task: str | None) -> Detected:
    if column is not None:
        raise InputError(f"{source.name}: holds conversations, which are read as they are; name no column.")
    if task not in (None, "language_modeling"):
        raise InputError(f"{source.name}: holds conversations; they train a language model, not {task}.")
    why = 'every line has "messages": language modelling of conversations, trained on the replies alone'
    return Detected("language_modeling", None, None, [why])


def find_text(table: Table) -> str:
    """The column of a table that ``detect`` takes for the text; the only column whatever it holds.

    Raises InputError when none or several could be it.
    """
    if len(table.columns) == 1:
        return table.columns[0]
    return _find_text(table, [_judge(table, name) for name in table.columns if name], None, [])


def _judge(table: Table, name: str) -> _Column:
    values = [value.strip() for value in table.column(name)]
    filled = [value for value in values if value]
    numeric = bool(filled) and all(re.fullmatch(r"[-+]?[\d.,]*\d([eE][-+]?\d+)?", value) for value in filled)
    mean = statistics.fmean(map(len, filled)) if filled else 0.0
    return _Column(name, len(set(filled)), mean, numeric, len(values))


def _find_text(table: Table, columns: list[_Column], label_column: str | None, reasons: list[str]) -> str:
    """The column of texts: one with a usual name before others, a long one before a short one."""
    others = [column for column in columns if column.name != label_column]
    words = [column for column in others if column.text_like]
    named = [column for column in words if column.key in TEXT_NAMES]
    labels = [column for column in words if column.key in (LABEL_NAMES if column.few else SURE_LABEL_NAMES)]
    unnamed = [column for column in words if column not in labels] or words
    candidates = sorted(named or unnamed, key=lambda column: column.mean_length, reverse=True)
    if not candidates:
        raise InputError(
            f"{table.name}: no column holds texts; found: {', '.join(table.columns)}. Name one with --text-column."
        )
    best = candidates[0]
    rivals = [column.name for column in candidates[1:] if column.mean_length > 0.5 * best.mean_length]
    rivals = [name for name in rivals if not _is_label(columns, name)]
    if rivals:
        found = " and ".join(repr(name) for name in [best.name, *rivals])
        raise InputError(f"{table.name}: the columns {found} could each be the text; choose one with --text-column.")
    reasons.append(
        f"column {best.name!r} holds texts of {best.mean_length:,.0f} characters on average: "
        "taken as the text (--text-column to change)"
    )
    return best.name


def _is_label(columns: list[_Column], name: str) -> bool:
    return next(column.label_like for column in columns if column.name == name)


def _find_label(table: Table, columns: list[_Column], text: str, task: str | None, reasons: list[str]) -> str | None:
    """The column of labels, None when nothing looks like one; InputError when several do."""
    others = [column for column in columns if column.name != text]
    sure = [column for column in others if column.key in SURE_LABEL_NAMES]
    named = [column for column in others if column.key in LABEL_NAMES and column.few]
    like = [column for column in others if column.label_like]
    candidates = sure or named or like
    if len(candidates) > 1:
        found = ", ".join(repr(column.name) for column in candidates)
        raise InputError(
            f"{table.name}: several columns could be the label: {found}. Choose one with --label-column, "
            "or use --task language_modeling."
        )
    if not candidates:
        if task == "classification":
            names = ", ".join(column.name for column in others) or "none"
            raise InputError(
                f"{table.name}: no column looks like a label (a few values that repeat); beside the text {text!r} "
                f"there is: {names}. Name one with --label-column."
            )
        return None
    best = candidates[0]
    reasons.append(
        f"column {best.name!r} has {best.distinct:,} distinct value{'s' * (best.distinct != 1)} in "
        f"{best.n_rows:,} rows: taken as the label (--label-column to change)"
    )
    return best.name
