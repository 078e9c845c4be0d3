"""A text and its target: two files with aligned lines, or two columns of a table."""

from headway.data.formats.aligned import SOURCE, TARGET, are_sides, is_language, is_target_of
from headway.data.open.columns import Column
from headway.data.open.detected import ALIGNED, TABLE, TEXT, Detected
from headway.errors import InputError
from headway.tasks.data_facts import DataFacts
from headway.tasks.recognise import BY_NAMES, BY_VALUES, Recogniser


class TextPairs(Recogniser):
    """A text and its translation, or any other text that is to be written for it."""

    reads = frozenset({TEXT, TABLE, ALIGNED})

    def columns(self, facts: DataFacts) -> Detected:
        """Columns that are called like the two sides of a text are taken before others."""
        asked = f"{facts.asked}, as asked"
        if facts.shape == ALIGNED:
            why = asked if facts.asked else f"{self.task} (--task language_modeling to read one after the other)"
            return Detected(self.task, SOURCE, None, [f"{facts.name}: paired line by line: {why}"], TARGET)
        if facts.shape == TEXT:
            needs = "a table with two columns of texts, or two files with aligned lines"
            raise facts.no_table(f"{facts.asked} needs {needs}")
        if facts.label is not None:
            raise InputError(f"{self.task} has no label: name the two texts with --text-column and --second-column.")
        sides = called_like_sides(facts.columns) if facts.text is None and facts.second is None else None
        source, target = sides or facts.two_texts(facts.asked or self.task, facts.columns)
        if source == target:
            raise facts.error(f"column {source!r} cannot be source and target at once.")
        why = asked if facts.asked else f"{self.task} (--task language_modeling or classification to change)"
        what = f"column {source!r} is the source and {target!r} the target (--text-column, --second-column to change)"
        return Detected(self.task, source, None, [f"{what}: {why}"], target)


class Translations(TextPairs):
    """Pairs whose columns or files are called like two languages, or like a source and its target."""

    def fit(self, facts: DataFacts) -> int | None:
        if facts.shape == ALIGNED:
            return BY_VALUES
        if facts.shape != TABLE or facts.label is not None:
            return None
        if facts.text is None:
            return BY_NAMES if called_like_sides(facts.columns) else None
        return BY_NAMES if facts.second is not None and are_sides(facts.text.lower(), facts.second.lower()) else None


def called_like_sides(columns: list[Column]) -> tuple[str, str] | None:
    """The source and the target among columns of texts, by their names: two languages, or a name and its counterpart.

    None where that is not clear: where there are several such pairs, where a column is called like a label, and where
    the table has instructions as well as inputs.  A column "id" is not Indonesian.
    """
    if any(column.called("sure label") or column.name.lower() == "instruction" for column in columns):
        return None
    texts = [column.name for column in columns if column.text_like and not column.few]
    languages = [name for name in texts if is_language(name.lower()) and name.lower() != "id"]
    found = [(a, b) for a in texts for b in texts if is_target_of(b.lower(), a.lower())]
    found += [(languages[0], languages[1])] if len(languages) == 2 else []
    return found[0] if len(found) == 1 else None


RECOGNISER = {"translation": Translations("translation"), "text_to_text": TextPairs("text_to_text")}
