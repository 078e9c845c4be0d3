"""Find the task of data, and the columns that hold its inputs and labels: every task is asked for its own."""

from dataclasses import replace

from headway.data.open.detected import TABLE, TEXT, WITHOUT_COLUMNS, Detected
from headway.data.records.corpus import Corpus
from headway.data.records.rows import missing_column
from headway.data.records.table import Table
from headway.errors import InputError
from headway.tasks.given import Given
from headway.tasks.recognise import BY_VALUES
from headway.tasks.registry import NAMES, named, recogniser
from headway.tasks.unsupported import check_accepted, refuse


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
    given = Given(source, text_column, label_column, second_column, task)
    chosen = None if task is None else named(task)
    if chosen is not None:
        recogniser(chosen).check(given)
    _check_named(given)
    if chosen is not None and given.shape not in recogniser(chosen).reads:
        able = (name for name in NAMES if given.shape in recogniser(name).reads)
        trained = " or ".join(recogniser(name).trains or name for name in able)
        raise InputError(f"{given.name}: holds {given.shape}, which are data for {trained}, not for {task}.")
    if given.shape == TABLE:
        check_accepted(given)
    best = chosen or _best(given)
    if given.shape == TABLE and len(given.labels) > 1 and not recogniser(best).several_labels:
        raise InputError(f"--label-column names {len(given.labels)} columns; {best} reads one.")
    detected = recogniser(best).columns(given)
    unread = _unread(given, detected) if given.shape == TABLE else []
    return replace(detected, reasons=[*detected.reasons, *unread])


def _best(given: Given) -> str:
    """The task that data fit best, the first one where several fit as well.

    Raises InputError for data that would be trained for the wrong task.
    """
    fits = {name: fit for name in NAMES if (fit := recogniser(name).fit(given)) is not None}
    best = max(fits, key=lambda name: fits[name])
    if given.shape == TABLE and given.second is None and fits[best] < BY_VALUES:
        refuse(given)
    return best


def _unread(given: Given, detected: Detected) -> list[str]:
    """A reason that names the columns of texts that the task does not read, other than those it names itself."""
    read = (detected.text_column, detected.label_column, detected.second_column, *detected.label_columns)
    known = {*read, *" ".join(detected.reasons).split("'")}
    texts = [column.name for column in given.columns if column.text_like or column.nested]
    names = [repr(name) for name in texts if name not in known]
    texts_too = any(column.text_like and not column.few and column.name not in known for column in given.columns)
    pairs = "; pairs of texts are for --task embedding or translation" * (texts_too and not detected.second_column)
    return [f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} not read{pairs}"] if names else []


def _check_named(given: Given) -> None:
    """Raise InputError where a column was named that is not there."""
    labels = given.labels if given.shape == TABLE else (given.label,)
    named = [name for name in (given.text, *labels, given.second) if name is not None]
    if given.shape in WITHOUT_COLUMNS:
        if named:
            raise InputError(f"{given.name}: holds {given.shape}, which have no columns to name.")
        return
    if given.shape == TEXT and named and given.only_column is None:
        raise InputError(
            f"{given.name}: this is running text and has no column {named[0]!r}; "
            "leave out that option, or give a table."
        )
    there = given.table.columns if given.shape == TABLE else [given.only_column or ""]
    for name in named:
        if name not in there:
            raise missing_column(given.name, name, there)
    if given.shape == TABLE and given.text is not None and given.text in given.labels:
        raise InputError(f"{given.name}: column {given.text!r} cannot be the text and the label at once.")
