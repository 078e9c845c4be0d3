"""A text and its target: two files with aligned lines, or two columns of a table."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from itertools import islice

from headway.data.formats.aligned import SOURCE, TARGET, are_sides, is_language, is_target_of, sides_of
from headway.data.open.columns import ALIGNED, TABLE, TEXT, Column, Detected
from headway.errors import InputError
from headway.tasks.data_facts import DataFacts
from headway.tasks.recognise import BY_NAMES, BY_VALUES, Recogniser

ROWS = 2_000
"""The rows of each column that are looked at."""
SHORT, FREQUENT = 4, 20
"""The most letters of a short word, and how many of the most frequent ones are compared."""
LEAST, OFTEN = 30, 0.05
"""Short words, and the share of all words that the frequent ones need, before they tell a language."""
ALIKE = 0.25
"""The share of frequent short words in common from which two columns can be in one language (English and German 0.12,
English of two kinds 0.36 to 0.94)."""


class TextPairs(Recogniser):
    """A text and its translation, or any other text that is to be written for it."""

    reads = frozenset({TEXT, TABLE, ALIGNED})

    def columns(self, facts: DataFacts) -> Detected:
        """Columns that are called like the two sides of a text are taken before others."""
        if facts.shape == ALIGNED:
            other = self._otherwise(facts, SOURCE, TARGET, "--task language_modeling to read one after the other")
            return Detected(self.task, SOURCE, None, [f"{facts.source.name}: paired line by line{other}"], TARGET)
        if facts.shape == TEXT:
            needs = "a table with two columns of texts, or two files with aligned lines"
            raise facts.no_table(f"{facts.asked} needs {needs}")
        if facts.label is not None:
            raise InputError(f"{self.task} has no label: name the two texts with --text-column and --second-column.")
        sides = called_like_sides(facts.columns) if facts.text is None and facts.second is None else None
        source, target = sides or facts.two_texts(facts.asked or self.task, facts.columns)
        if source == target:
            raise facts.error(f"column {source!r} cannot be source and target at once.")
        other = self._otherwise(facts, source, target, "--task language_modeling or classification to change")
        what = f"column {source!r} is the source and {target!r} the target (--text-column, --second-column to change)"
        return Detected(self.task, source, None, [what + other], target)

    def _otherwise(self, facts: DataFacts, source: str, target: str, change: str) -> str:
        """What of two texts leads to the task, and the option that changes it.

        Raises InputError where no task is named and their names are those of a source and its target, but not of two
        languages, and their texts do not show two.
        """
        if facts.asked is not None:
            return f": {facts.asked}, as asked"
        names = (source, target) if facts.shape == TABLE else sides_of((facts.source.path, facts.source.paired or ""))
        if names and all(is_language(name.lower()) for name in names):
            return f": {self.task} ({change})"
        if shown := two_languages(facts.source.values(source), facts.source.values(target)):
            return f", in two languages ({shown}): {self.task} ({change})"
        near = f", --task embedding finds the {target!r} that belongs to a {source!r}" * (facts.shape == TABLE)
        raise facts.error(
            f"{source!r} and {target!r} are a text and what follows from it, and not clearly in two languages. Which "
            f"is meant? --task text_to_text writes the {target!r} of a {source!r}, --task translation writes it too "
            f"and measures BLEU{near}."
        )


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
    sides = [(a, b) for a in texts for b in texts if is_target_of(b.lower(), a.lower())]
    sides += [(languages[0], languages[1])] if len(languages) == 2 else []
    return sides[0] if len(sides) == 1 else None


def two_languages(first: Iterable[str], second: Iterable[str]) -> str:
    """What shows that two columns are in two languages, by scripts and frequent short words; "" where it is not clear.

    Most letters of one are of another script than those of the other, or hardly any of the most frequent short words
    of one is among those of the other.
    """
    texts = [" ".join(islice(column, ROWS)).casefold() for column in (first, second)]
    scripts = [_script(text) for text in texts]
    if scripts[0] != scripts[1]:
        return f"{scripts[0]} and {scripts[1]} letters" if all(scripts) else ""
    one, other = map(_frequent, texts)
    if not one or not other or sum(min(one[word], other[word]) for word in one.keys() & other.keys()) >= ALIKE:
        return ""
    return "other frequent words in each: " + "; ".join(", ".join(list(words)[:3]) for words in (one, other))


def _frequent(text: str) -> dict[str, float]:
    """The most frequent short words, each with its share of them; empty where there are too few."""
    words = re.findall(r"[^\W\d_]+", text)
    short = Counter(word for word in words if len(word) <= SHORT)
    most = short.most_common(FREQUENT)
    total = sum(count for _, count in most)
    if short.total() < LEAST or total < OFTEN * len(words):
        return {}
    return {word: count / total for word, count in most}


def _script(text: str) -> str:
    """The script of most letters, by the first word of their Unicode names; "" without letters."""
    scripts: Counter[str] = Counter()
    for letter, count in Counter(text).items():
        if letter.isalpha():
            scripts[unicodedata.name(letter, "unnamed").partition(" ")[0].title()] += count
    return scripts.most_common(1)[0][0] if scripts else ""


RECOGNISER = {"translation": Translations("translation"), "text_to_text": TextPairs("text_to_text")}
