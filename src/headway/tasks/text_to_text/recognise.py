"""A text and its target: two files with aligned lines, or two columns of a table."""

from headway.data.formats.aligned import SOURCE, TARGET, TARGET_OF, are_sides, is_language, is_target_of
from headway.data.open.column_names import SURE_LABEL_NAMES
from headway.data.open.columns import Column
from headway.data.open.detected import ALIGNED, TABLE, TEXT, Detected
from headway.errors import InputError
from headway.tasks.columns import no_columns, two_texts
from headway.tasks.given import Given
from headway.tasks.recognise import BY_NAMES, BY_VALUES, Recogniser


class TextPairs(Recogniser):
    """A text and its translation, or any other text that is to be written for it."""

    reads = frozenset({TEXT, TABLE, ALIGNED})

    def columns(self, given: Given) -> Detected:
        """Columns that are called like the two sides of a text are taken before others."""
        asked = f"{given.asked}, as asked"
        if given.shape == ALIGNED:
            why = asked if given.asked else f"{self.task} (--task language_modeling to read one after the other)"
            return Detected(self.task, SOURCE, None, [f"{given.name}: paired line by line: {why}"], TARGET)
        if given.shape == TEXT:
            raise no_columns(given, "two columns of texts, or two files with aligned lines")
        if given.label is not None:
            raise InputError(f"{self.task} has no label: name the two texts with --text-column and --second-column.")
        sides = called_like_sides(given.columns) if given.text is None and given.second is None else None
        source, target = sides or two_texts(given, given.asked or self.task, given.columns)
        if source == target:
            raise InputError(f"{given.name}: column {source!r} cannot be source and target at once.")
        why = asked if given.asked else f"{self.task} (--task language_modeling or classification to change)"
        what = f"column {source!r} is the source and {target!r} the target (--text-column, --second-column to change)"
        return Detected(self.task, source, None, [f"{what}: {why}"], target)


class Translations(TextPairs):
    """Pairs whose columns or files are called like two languages, or like a source and its target."""

    def fit(self, given: Given) -> int | None:
        if given.shape == ALIGNED:
            return BY_VALUES
        if given.shape != TABLE or given.label is not None:
            return None
        if given.text is None:
            return BY_NAMES if called_like_sides(given.columns) else None
        return BY_NAMES if given.second is not None and are_sides(given.text.lower(), given.second.lower()) else None


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
    sources = [name for name in texts if name.lower() in TARGET_OF]
    found = [(a, b) for a in sources for b in texts if is_target_of(b.lower(), a.lower())]
    found += [(languages[0], languages[1])] if len(languages) == 2 else []
    return found[0] if len(found) == 1 else None


RECOGNISER = {"translation": Translations("translation"), "text_to_text": TextPairs("text_to_text")}
