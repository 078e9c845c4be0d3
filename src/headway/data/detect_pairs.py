"""Which two columns of a table hold texts that belong together?"""

from headway.data.aligned import is_side
from headway.data.column_names import LABEL_NAMES, SCORE_NAMES, SURE_LABEL_NAMES
from headway.data.columns import Column
from headway.data.detected import Detected
from headway.errors import InputError


def detect_scored_pairs(
    name: str, columns: list[Column], first: str | None, second: str | None, score: str | None
) -> Detected:
    """For embedding: the two columns of texts, and the column of scores if there is one.  Raises InputError."""
    reasons = []
    if score is None:
        scored = [c.name for c in columns if c.numeric and c.key in SCORE_NAMES and c.name not in (first, second)]
        score = scored[0] if len(scored) == 1 else None
        if score is not None:
            reasons.append(f"column {score!r} is taken as the score of each pair (--label-column to change)")
    first, second = _two_texts(name, "embedding", columns, first, second, score)
    if len({first, second, score}) < 3 and not (score is None and first != second):
        raise InputError(f"{name}: the two texts and the score must be three different columns.")
    reasons.append(f"columns {first!r} and {second!r} hold pairs of texts (--text-column, --second-column to change)")
    reasons.append("task: embedding, as asked: " + ("pairs with scores" if score else "pairs that belong together"))
    return Detected("embedding", first, score, reasons, second)


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
    what = f"column {target!r} is what is to be written for {source!r} (--text-column, --second-column to change)"
    return Detected("translation", source, None, [f"{what}: {why}"], target)


def called_like_sides(columns: list[Column]) -> tuple[str, str] | None:
    """The two columns of texts whose names are those of two sides (en and de, source and target), if no others are.

    None too where a column is called like a label.
    """
    if any(column.key in SURE_LABEL_NAMES for column in columns):
        return None
    sides = [column.name for column in columns if is_side(column.name.lower()) and column.text_like and not column.few]
    return (sides[0], sides[1]) if len(sides) == 2 else None


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
