"""Find the task of data, and the columns that hold its inputs and labels."""

from itertools import islice
from pathlib import Path

from headway.data.formats.aligned import SOURCE, TARGET, are_sides
from headway.data.formats.tags import tagged
from headway.data.images.pictures import Pictures
from headway.data.open.column_names import LABEL_NAMES, SURE_LABEL_NAMES, TEXT_NAMES
from headway.data.open.columns import Column
from headway.data.open.detect_pairs import called_like_sides, detect_scored_pairs, detect_translation
from headway.data.open.detected import Detected
from headway.data.open.recognised import Looked, judged_pair, losses, refuse, tagged_columns, unread_lists
from headway.data.records.corpus import Corpus
from headway.data.records.dialogues import Dialogues, check_column
from headway.data.records.rows import missing_column
from headway.data.records.table import Table
from headway.errors import InputError
from headway.io.quantities import counted

IMAGES = "image_classification"
DIALOGUE = "dialogue"
TAGS = "token_classification"
TASKS = (
    *("language_modeling", "classification", IMAGES, "masked_lm", "embedding", "translation", "summarize"),
    *(DIALOGUE, TAGS),
)
"""The values of --task.  Summarising is detected as "translation", and dialogue as "language_modeling"."""

TO_TEXT = ("translation", "summarize")
NO_TURNS = (
    '--task dialogue needs a .jsonl whose lines have "messages", or a table with the columns instruction and output or '
    "prompt and completion; name others with --text-column (the prompt) and --second-column (the reply)."
)
"""The end of the message where no conversations are found."""
LINES = 1 << 17
"""Characters at the start of a file that detection reads."""
OR_PAIRS = ", or use --task translation for pairs"
"""Another way to use a table in which several columns could be the text."""


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
    if isinstance(source, Pictures):
        return _detect_pictures(source, text_column or label_column or second_column, task)
    if task == IMAGES:
        raise InputError(
            f"{source.name}: holds no pictures; {IMAGES} needs a folder with a folder of pictures for each class, or "
            "an .npz file of images and labels."
        )
    if task == DIALOGUE and not isinstance(source, Dialogues):
        raise InputError(f"{source.name}: holds no conversations; {NO_TURNS}")
    if isinstance(source, Table) and source.paired is not None:
        return _detect_aligned(source, task)
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
    columns = source.judged()
    looked = Looked(columns=columns, values=source.values, text=text_column, label=label_column)
    if second_column is None and task in (None, TAGS) and (tags := _detect_tags(source, looked, task)):
        return tags
    if task is None and second_column is None:
        refuse(source.name, looked)
    if task == "embedding":
        return detect_scored_pairs(source, columns, text_column, second_column, label_column)
    if task in TO_TEXT or (task is None and _mean_sides(columns, text_column, label_column, second_column)):
        if label_column is not None:
            raise InputError("translation has no label: name the two texts with --text-column and --second-column.")
        return detect_translation(source.name, columns, text_column, second_column, task)
    if second_column is not None:
        raise InputError("--second-column is for pairs of texts: use --task embedding or --task translation.")
    reasons: list[str] = []
    text = text_column or _find_text(source, columns, label_column, reasons, OR_PAIRS, judged_pair(looked))
    if text_column is not None:
        reasons.append(f"column {text!r} is the text, as asked")
    if task in ("language_modeling", "masked_lm"):
        _check_running_text(source, text, text_column)
        what = "language modelling" if task == "language_modeling" else "masked language modelling"
        return Detected(task, text, None, [*reasons, f"task: {what}, as asked"])
    label = label_column or _find_label(source, columns, text, task, reasons)
    if label_column is not None:
        reasons.append(f"column {label!r} is the label, as asked")
    if label is None:
        _check_running_text(source, text, text_column)
        reasons.append("no column looks like a label: language modelling (--label-column to classify)")
        return Detected("language_modeling", text, None, reasons, warnings=unread_lists(looked))
    unread = [repr(column.name) for column in columns if column.text_like and column.name not in (text, label)]
    if unread:
        are = "is not read" if len(unread) == 1 else "are not read"
        reasons.append(f"{' and '.join(unread)} {are}; pairs of texts are for --task embedding or translation")
    reasons.append(
        "a text and a label in every row: classification (--task language_modeling to train on the text only)"
    )
    lost = losses(Looked(columns=columns, values=source.values, text=text, label=label))
    return Detected("classification", text, label, reasons, warnings=lost)


def _detect_tags(source: Table, looked: Looked, task: str | None) -> Detected | None:
    """Texts with tags or spans; None where there are none and none were asked for."""
    if found := tagged_columns(looked):
        text, label, said = found
    elif task is None:
        return None
    elif looked.text is not None and looked.label is not None:
        text, label, said = looked.text, looked.label, f"column {looked.label!r} holds the tags, as asked"
    else:
        raise InputError(
            f"{source.name}: {TAGS} needs a column of lists of tokens and one of as many tags, or one of texts and "
            'one of spans ({"start", "end", "label"}); name them with --text-column and --label-column.'
        )
    why = f"{TAGS}, as asked" if task else f"{TAGS} (--task language_modeling to train on the text only)"
    return Detected(TAGS, text, label, [f"{said}: {why}"])


def refuse_columns(source: Table) -> None:
    """Raise InputError for a table that is recognised as one for a task that does not exist."""
    columns = source.judged()
    refuse(source.name, Looked(columns=columns, values=source.values))


def _mean_sides(columns: list[Column], text: str | None, label: str | None, second: str | None) -> bool:
    """Whether a table holds a text and its translation, by the names of two columns, where no label was named."""
    if label is not None:
        return False
    if text is not None:
        return second is not None and are_sides(text.lower(), second.lower())
    return called_like_sides(columns) is not None


def _check_running_text(source: Table, column: str, asked: str | None) -> None:
    """Raise InputError when a column that nobody named holds conversations that are not read as such."""
    if asked is None:
        check_column(source.path, column, next((value for value in source.values(column) if value.strip()), ""))


def _detect_corpus(source: Corpus, text_column: str | None, label_column: str | None, task: str | None) -> Detected:
    column = source.sources[0].column
    for name in (text_column, label_column):
        if name is not None and column is None:
            raise InputError(f"{source.name}: this is running text without columns; there is no column {name!r}.")
        if name is not None and name != column:
            raise missing_column(source.name, name, [column or ""])
    if task == TAGS and column is None:
        return Detected(TAGS, None, None, [f"a token and its tag on each line: {TAGS}, as asked"])
    if task in ("embedding", TAGS, *TO_TEXT):
        files = "" if task == "embedding" else ", or two files whose lines belong together"
        what = "tags or spans next to its texts" if task == TAGS else f"two columns of texts{files}"
        raise InputError(f"{source.name}: this is running text; {task} needs a table with {what}.")
    if task == "classification" or label_column is not None:
        what = "running text" if column is None else f"a table with one column, {column!r}"
        raise InputError(f"{source.name}: this is {what}; classification needs a column of texts and one of labels.")
    if column is not None and text_column is None:
        check_column(source.paths[0], column, next((text for text, _ in source.chunks()), ""))
    why = "running text" if column is None else f"one column, {column!r}: each row is a document"
    if task == "masked_lm":
        return Detected(task, column, None, [f"{why}: masked language modelling, as asked"])
    if task is None and column is None and (said := _tagged_lines(source)):
        return Detected(TAGS, None, None, [f"{said}: {TAGS} (--task language_modeling to read it as text)"])
    two = " (--task translation to pair them line by line)" if len(source.sources) == 2 and column is None else ""
    return Detected("language_modeling", column, None, [f"{why}: language modelling{two}"])


def _tagged_lines(source: Corpus) -> str | None:
    """How the files show tagged tokens; None where they are running text.  Raises InputError for both together."""
    found = {}
    for one in source.sources:
        text = "".join(islice((piece for document in one.open(None) for piece in document.chunks()), 2))
        name = one.path.name.lower().removesuffix(".gz")
        found[one.path] = tagged(text[:LINES].split("\n"), Path(name).suffix)
    shown = [path for path, said in found.items() if said]
    if shown and len(shown) < len(found):
        other = next(path for path, said in found.items() if not said)
        raise InputError(f"{shown[0]} holds tagged tokens, {other} does not; give inputs of one kind.")
    return found[shown[0]] if shown else None


def _detect_aligned(source: Table, task: str | None) -> Detected:
    """Two files whose lines belong together."""
    why = f"{task}, as asked" if task else "translation (--task language_modeling to read one after the other)"
    reason = f"{source.name}: paired line by line: {why}"
    return Detected("translation", SOURCE, None, [reason], TARGET)


def _detect_pictures(source: Pictures, column: str | None, task: str | None) -> Detected:
    if column is not None:
        raise InputError(f"{source.name}: holds pictures, which have no columns to name.")
    if task not in (None, IMAGES):
        raise InputError(f"{source.name}: holds pictures; they train {IMAGES}, not {task}.")
    low, high = (f"{height} × {width}" for height, width in (min(source.sizes), max(source.sizes)))
    sizes = f"all {low} pixels" if low == high else f"{low} to {high} pixels"
    many = f"{len(source):,} pictures in {len(set(source.labels)):,} classes, {sizes}"
    return Detected(IMAGES, None, None, [f"{source.name}: {many}: image classification"])


def _detect_dialogues(source: Dialogues, column: str | None, task: str | None) -> Detected:
    if column is not None:
        raise InputError(f"{source.name}: holds conversations, which have no columns to name.")
    if task not in (None, "language_modeling", DIALOGUE):
        raise InputError(f"{source.name}: holds conversations; they train a language model, not {task}.")
    reasons = ['every line has "messages": language modelling of conversations, trained on the replies only']
    if source.renamed:
        reasons.append('"conversations" of ShareGPT are read as "messages": human as user, gpt as assistant')
    if source.turns:
        reasons = [f"conversations: {source.turns}; language modelling, trained on the replies only"]
    return Detected("language_modeling", None, None, reasons, chat=True)


def find_text(table: Table) -> str:
    """The column of a table that ``detect`` takes for the text; the only column whatever it holds.

    Raises InputError when none or several could be it.
    """
    if len(table.columns) == 1:
        return table.columns[0]
    return _find_text(table, table.judged(), None, [])


def _find_text(
    table: Table,
    columns: list[Column],
    label_column: str | None,
    reasons: list[str],
    otherwise: str = "",
    pair: tuple[str, str] | None = None,
) -> str:
    """The column of texts: one with a usual name before others, a long one before a short one.

    Of the two of a ``pair`` that is not read as one, the first.  Raises InputError when none or several could be it,
    with ``otherwise``: the other things that can be done then.
    """
    if pair is not None:
        reasons.append(f"column {pair[0]!r} is the first of a pair: taken as the text (--text-column to change)")
        return pair[0]
    others = [column for column in columns if column.name != label_column]
    words = [column for column in others if column.text_like]
    named = [column for column in words if column.key in TEXT_NAMES]
    labels = [
        column for column in words if column.key in (LABEL_NAMES if column.few_if_called_so else SURE_LABEL_NAMES)
    ]
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
        raise InputError(
            f"{table.name}: the columns {found} could each be the text; choose one with --text-column{otherwise}."
        )
    reasons.append(
        f"column {best.name!r} holds texts of {best.mean_length:,.0f} characters on average: "
        "taken as the text (--text-column to change)"
    )
    return best.name


def _is_label(columns: list[Column], name: str) -> bool:
    return next(column.label_like for column in columns if column.name == name)


def _find_label(table: Table, columns: list[Column], text: str, task: str | None, reasons: list[str]) -> str | None:
    """The column of labels, None when nothing looks like one; InputError when several do."""
    others = [column for column in columns if column.name != text]
    sure = [column for column in others if column.key in SURE_LABEL_NAMES]
    named = [column for column in others if column.key in LABEL_NAMES and column.few_if_called_so]
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
                f"{table.name}: no column looks like a label (a few values that repeat); besides the text {text!r}, "
                f"there is: {names}. Name one with --label-column."
            )
        return None
    best = candidates[0]
    reasons.append(
        f"column {best.name!r} has {counted(best.distinct, 'distinct value')} in "
        f"{best.n_rows:,} rows: taken as the label (--label-column to change)"
    )
    return best.name
