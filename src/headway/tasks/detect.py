"""Find the task of data, and the columns that hold its inputs and labels: every task is asked for its own."""

import shlex
from dataclasses import replace

from headway.data.open.detected import TABLE, TEXT, WITHOUT_COLUMNS, Detected
from headway.data.records.corpus import Corpus
from headway.data.records.rows import missing_column
from headway.data.records.table import Table
from headway.errors import InputError
from headway.tasks.data_facts import DataFacts
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

    Raises InputError when a named column is not there, when the task does not fit, when the columns leave a choice, and
    for data that would be trained for the wrong task.
    """
    facts = DataFacts(source, text_column, label_column, second_column, task)
    chosen = None if task is None else named(task)
    if chosen is not None:
        recogniser(chosen).check(facts)
    _check_named(facts)
    if chosen is not None and facts.shape not in recogniser(chosen).reads:
        able = (recogniser(name) for name in NAMES if facts.shape in recogniser(name).reads)
        trained = " or ".join(one.trains or one.task for one in able)
        raise facts.error(f"holds {facts.shape}, which are data for {trained}, not for {task}.")
    if facts.shape == TABLE:
        check_accepted(facts)
    best = chosen
    if best is None:
        fits = {name: fit for name in NAMES if (fit := recogniser(name).fit(facts)) is not None}
        best = max(fits, key=lambda name: fits[name])  # the first one where several fit as well
        if facts.shape == TABLE and facts.second is None and fits[best] < BY_VALUES:
            refuse(facts)
    if len(facts.labels) > 1 and not recogniser(best).several_labels:
        raise InputError(f"--label-column names {len(facts.labels)} columns; {best} reads one.")
    detected = recogniser(best).columns(facts)
    unread = _unread(facts, detected) if facts.shape == TABLE else []
    return replace(detected, reasons=[*detected.reasons, *unread])


def _unread(facts: DataFacts, detected: Detected) -> list[str]:
    """A reason that names the columns of texts that the task does not read, other than those it names itself."""
    read = (detected.text_column, detected.label_column, detected.second_column, *detected.label_columns)
    known = {*read, *" ".join(detected.reasons).split("'")}
    unread = [column for column in facts.columns if column.name not in known]
    names = [repr(column.name) for column in unread if (column.text_like and not column.dates) or column.nested]
    texts = [column.name for column in unread if column.text_like and not column.few and not column.dates]
    more = ""
    if texts and not detected.second_column and detected.text_column and not recogniser(detected.task).running_text:
        both = " ".join(f"--text-column {shlex.quote(name)}" for name in (texts[0], detected.text_column))
        more = f" ({both} reads both as one; pairs of texts are for --task embedding or text_to_text)"
    return [f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} not read{more}"] if names else []


def _check_named(facts: DataFacts) -> None:
    """Raise InputError where a column was named that is not there."""
    named = [name for name in (facts.text, *facts.labels, facts.second) if name is not None]
    if facts.shape in WITHOUT_COLUMNS and named:
        raise facts.error(f"holds {facts.shape}, which have no columns to name.")
    if facts.shape == TEXT and named and facts.only_column is None:
        raise facts.error(
            f"this is running text and has no column {named[0]!r}; leave out that option, or give a table."
        )
    for name in named:
        if name not in facts.names:
            raise missing_column(facts.source.name, name, facts.names)
    if facts.shape == TABLE and facts.text is not None and facts.text in facts.labels:
        raise facts.error(f"column {facts.text!r} cannot be the text and the label at once.")
