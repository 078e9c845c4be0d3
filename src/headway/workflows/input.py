"""Read the user's files and find their task."""

import shlex
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.data.formats.aligned import are_files_of_lines, count_lines, read_aligned, share_a_name, sides_of
from headway.data.images.folder import are_images
from headway.data.images.image_table import ImageTable
from headway.data.open.columns import ALIGNED, COLUMNS, TABLE, TEXT, WITHOUT_COLUMNS, Detected
from headway.data.open.files import kind
from headway.data.open.in_memory import table_corpus
from headway.data.open.read import LINES, holds_labels, input_paths, read, text_corpus
from headway.data.records.corpus import Corpus
from headway.data.records.dialogues import Dialogues, as_dialogues, holds_messages, turns_of
from headway.data.records.rows import left_out, missing_column
from headway.data.records.table import Table
from headway.data.stream.streamed import LARGE, Shard, Streamed, fetched, local_shard, remote_shards, sample_table
from headway.errors import InputError
from headway.hub.download import dataset_id
from headway.tasks.data_facts import DataFacts
from headway.tasks.recognise import BY_VALUES
from headway.tasks.registry import NAMES, named, recogniser
from headway.tasks.unsupported import check_accepted, refuse
from headway.training.base import CHAT, TO_TEXT, talks
from headway.training.option_fields import flag
from headway.training.options import TrainOptions

NEARLY = 0.01
"""Two files could be the two sides of one text if their numbers of lines differ by at most this fraction."""


def read_input(
    inputs: Sequence[Any], options: TrainOptions, known: Mapping[str, str | None] | None = None, *, chat: bool = False
) -> tuple[Corpus | Table, Detected]:
    """Read the files and find their task.  Raises InputError for anything that cannot be used.

    ``chat``: a table of prompts and replies is read as conversations, as with ``--task dialogue`` or from a model with
    a chat template.  ``known`` are the columns of a run's training data, by the names of ``COLUMNS``: they are the
    default if the table has them.
    """
    columns, task = {name: options.value(name) for name in COLUMNS}, options.data.task
    reading: dict[str, Any] = {name: options.value(name) for name in ("encoding", "delimiter", "on_bad_row")}
    source: Corpus | Table
    if inputs and isinstance(inputs[0], Table):
        source = _held(inputs[0], options)
    elif options.data.stream:
        return _streamed(inputs, task, columns)
    else:
        inputs = fetched(inputs)
        if are_aligned(inputs, task):
            return _aligned(inputs, options)
        if task is None and are_files_of_lines(inputs) and not are_images(inputs):
            _check_one_text(inputs, options.data.encoding)
        as_text = task is not None and recogniser(named(task)).running_text
        source = _large_text(inputs, task, columns) or read(inputs, as_text=as_text, **reading)
    if isinstance(source, Table) and not isinstance(source, Dialogues | ImageTable):
        source, columns = _conversations(source, options, columns, chat)
    if known and isinstance(source, Table):
        columns |= _as_known(source, columns, known)
    own = source.columns if isinstance(source, Table) else []
    if isinstance(source, Table) and not isinstance(source, Dialogues | ImageTable):
        source = source.joined(columns["text_column"])
        source = source if (weights := options.for_tasks.weight_column) is None else source.without(weights)
    detected = detect(source, task=None if isinstance(source, Dialogues) and chat else task, **columns)
    if isinstance(source, Table) and not isinstance(source, Dialogues) and recogniser(detected.task).running_text:
        column = detected.text_column or ""
        if column not in own or (source.folders and column != LINES):
            raise InputError(f"{source.name}: {detected.task} reads one column as text; name one with --text-column.")
        source = table_corpus(source, column) if source.held else text_corpus(source, column, **reading)
    return source, replace(detected, warnings=[*detected.warnings, *rows_left_out(source)])


def _held(table: Table, options: TrainOptions) -> Corpus | Table:
    """Data in memory; a single column of texts is running text."""
    for name in ("stream", "encoding", "delimiter"):
        if options.value(name):
            raise InputError(f"{table.name}: this is already in memory; --{flag(name)} is for files.")
    is_table = len(table.columns) > 1 or holds_messages(table)
    return table if is_table else table_corpus(table, table.columns[0])


def _aligned(inputs: Sequence[Any], options: TrainOptions) -> tuple[Table, Detected]:
    """Two files whose lines belong together, and their task."""
    first, second = inputs
    for name in COLUMNS:
        if options.value(name) is not None:
            raise InputError(f"{first}: it has lines and no columns; leave out --{flag(name)}.")
    otherwise = "" if options.data.task else " (use --task language_modeling if they are parts of one text)"
    table = read_aligned(first, second, encoding=options.data.encoding, otherwise=otherwise)
    return table, detect(table, task=options.data.task)


def rows_left_out(source: Corpus | Table) -> list[str]:
    """A line about the malformed rows of a source that were skipped, if any."""
    if isinstance(source, ImageTable) or not source.skipped:
        return []  # images have their own line
    return [left_out(source.name, source.skipped)]


def known_columns(facts: Mapping[str, Any]) -> dict[str, str | None]:
    """The columns of a run's training data, by its headway.json."""
    data = facts.get("data", {})
    return {**{name: data.get(name) for name in COLUMNS}} | (
        {"label_column": ",".join(data["label_columns"])} if data.get("label_columns") else {}
    )


def _as_known(
    source: Table, columns: Mapping[str, str | None], known: Mapping[str, str | None]
) -> dict[str, str | None]:
    """The known columns of a table that are not named; the columns of pairs only if all are there."""
    there = {
        name: column
        for name, column in known.items()
        if column is not None and all(one in source.columns for one in DataFacts(source, label=column).labels)
    }
    if known.get("second_column") is not None and (
        any(columns.values()) or len(there) < sum(map(bool, known.values()))
    ):
        return {}
    return {name: column for name, column in there.items() if columns[name] is None and column not in columns.values()}


def _conversations(
    source: Table, options: TrainOptions, columns: dict[str, str | None], chat: bool
) -> tuple[Table, dict[str, str | None]]:
    """A table of prompts and replies as conversations, if it is one, and the columns that are still named.

    Raises InputError, which says what is needed, if a table can be nothing else and no chat model is named.
    """
    if holds_messages(source):
        return as_dialogues(source, None, options.data.on_bad_row), columns
    task = options.data.task
    asked = chat or (task is not None and recogniser(named(task)).wants_conversations(task))
    if not asked and (task is not None or any(columns.values())):
        return source, columns
    turns = turns_of(source.columns, columns["text_column"], columns["second_column"], asked=True)
    if turns is None or not (asked or options.fine_tuning.from_model or turns_of(source.columns)):
        return source, columns
    kind = None if asked or options.fine_tuning.from_model is None else talks(options.fine_tuning.from_model)
    if asked or kind == CHAT:
        if task is None and not chat:
            refuse(DataFacts(source))
        unread = {**dict.fromkeys(COLUMNS), "label_column": columns["label_column"]}  # which conversations do not have
        return as_dialogues(source, turns, options.data.on_bad_row), unread
    if kind == TO_TEXT and turns.input is None:
        return source, columns
    if turns_of(source.columns) is None:
        return source, columns
    refuse(DataFacts(source))
    model = options.fine_tuning.from_model
    base = f"{model} has no chat template" if model else "no chat model is named"
    raise InputError(
        f"{source.name}: these are conversations ({turns.words}), but {base}. Name a model with a chat template with "
        "--from, or use --task dialogue to train on them with the default template; --task text_to_text learns to "
        f"write {turns.reply!r} for {turns.prompt!r}, --task language_modeling reads one column as text."
    )


def _streamed(
    inputs: Sequence[str | Path], task: str | None, columns: dict[str, str | None]
) -> tuple[Corpus | Table, Detected]:
    """Parquet files as running text that is read as needed; only footers and a sample are read, to find the column."""
    shards: list[Shard] = []
    for place in inputs:
        if (wanted := dataset_id(place)) is not None:
            shards += remote_shards(wanted)
            continue
        for path in input_paths([place]):
            if kind(path) != "parquet":
                raise InputError(
                    f"{path}: --stream reads .parquet files only; leave it out, or convert the texts to .parquet."
                )
            shards.append(local_shard(path))
    for name, count in Counter(shard.name for shard in shards).items():
        if count > 1:
            raise InputError(f"{name}: this file was given twice; name each file once.")
    sample = sample_table(shards)
    if holds_messages(sample) or (task is None and not any(columns.values()) and turns_of(sample.columns)):
        raise InputError(f"{sample.name}: these are conversations; --stream reads running text. Leave it out.")
    if len(sample.columns) == 1:
        return (corpus := Streamed(shards, sample.columns[0])), detect(corpus, task=task, **columns)
    task = task or next(name for name in NAMES if recogniser(name).running_text)
    detected = detect(sample, task=task, **columns)
    return Streamed(shards, detected.text_column or "") if recogniser(detected.task).running_text else sample, detected


def _large_text(inputs: Sequence[str | Path], task: str | None, columns: dict[str, str | None]) -> Table | None:
    """A sample of large Parquet files if it shows that they hold running text; otherwise None.

    So the whole table is not read into memory to find that one column is to be streamed.
    """
    if are_images(inputs):
        return None
    paths = input_paths(inputs)
    if not all(kind(path) == "parquet" for path in paths):
        return None
    shards = [local_shard(path) for path in paths]
    if len(shards[0].columns) == 1 or sum(shard.n_bytes for shard in shards) < LARGE:
        return None
    sample = sample_table(shards)
    asked = task is None or recogniser(named(task)).wants_conversations(task)
    turns = turns_of(sample.columns, columns["text_column"], columns["second_column"], asked=True)
    if holds_messages(sample) or (asked and turns):
        return None
    return sample if recogniser(detect(sample, task=task, **columns).task).running_text else None


def without_columns(options: TrainOptions) -> TrainOptions:
    return options.but(text_column=None, label_column=None, second_column=None)


def are_aligned(inputs: Sequence[str | Path], task: str | None) -> bool:
    """Whether these are two aligned files: each line belongs to the same line of the other."""
    if task is None:
        return sides_of(inputs) is not None
    return ALIGNED in recogniser(named(task)).reads and are_files_of_lines(inputs)


def _check_one_text(inputs: Sequence[str | Path], encoding: str | None) -> None:
    """Raise InputError if two files that are not aligned by their names could still be the two sides of one text.

    They could be if their names differ only in the ending, and if they have nearly as many lines.
    """
    fewer, more = sorted(counts := [count_lines(path, encoding) for path in inputs])
    alike = share_a_name(inputs) or more - fewer <= NEARLY * more
    if fewer > 1 and alike and not holds_labels(Path(inputs[0]), encoding):
        (first, second), (one, other) = inputs, counts
        raise InputError(
            f"{first} has {one:,} lines, {second} {other:,}. If their lines correspond (a text and its translation), "
            "use --task translation; if they are parts of one text, use --task language_modeling."
        )


def validation_input(
    validation: Sequence[str | Path], options: TrainOptions, detected: Detected
) -> Corpus | Table | None:
    """The validation files, read for the task, if any were named."""
    if not validation:
        return None
    options = options.but(task=detected.task, stream=False)
    if are_aligned(validation, detected.task):  # the columns were named for the training table
        options = without_columns(options)
    source, _ = read_input(validation, options, chat=detected.chat)
    for line in rows_left_out(source):
        warnings.warn(line, stacklevel=2)
    return source


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
