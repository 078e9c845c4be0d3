"""Texts with a tag for each word, from CoNLL files and from tables of lists or of spans, checked before training."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from headway.data.formats.tags import LOOKED_AT, Layout, is_comment, layout, listed, spans_of, usual_layout
from headway.data.open.detected import Detected
from headway.data.records.corpus import Corpus, Source
from headway.data.records.rows import SKIP, BadRows, check_skipped, counted, shorten
from headway.data.records.table import Table
from headway.errors import InputError
from headway.tasks.token_classification.schemes import OUTSIDE, iob2, names_words
from headway.tasks.token_classification.words import Place, split_words


@dataclass(frozen=True)
class Sentence:
    """A text, where its words are, and a tag for each of them."""

    text: str
    words: list[Place]
    tags: list[str]
    place: Callable[[int], str]
    """file and line of a word, by its number"""


@dataclass
class Tagged:
    """The sentences of a source in order."""

    name: str
    sentences: list[Sentence]
    warnings: list[str] = field(default_factory=list)
    """One line each, for a person."""

    @property
    def tags(self) -> Counter[str]:
        """How often each tag occurs."""
        return Counter(tag for one in self.sentences for tag in one.tags)

    @property
    def whole(self) -> bool:
        """Whether the tags are those of words, such as parts of speech, and not of entities."""
        return names_words(self.tags)

    def in_iob2(self, *, whole: bool) -> "Tagged":
        """The same with tags in IOB2; those of words (``whole``) stay."""
        if whole:
            return self
        kept = [replace(one, tags=iob2(one.tags)) for one in self.sentences]
        return Tagged(self.name, kept, self.warnings)

    def check_labels(self, labels: Sequence[str], whose: str) -> None:
        """Raise InputError naming file and line for a tag that is none of ``labels``, which are those of ``whose``."""
        known = set(labels)
        for one in self.sentences:
            for number, tag in enumerate(one.tags):
                if tag not in known:
                    shown = ", ".join(labels[:20]) + ", ..." * (len(labels) > 20)
                    raise InputError(f"{one.place(number)}: the tag {tag!r} is not one of {whose}: {shown}.")


def read_tagged(source: Corpus | Table, found: Detected, on_bad_row: str) -> Tagged:
    """The sentences of what was read.  Raises InputError, naming file and line, for what cannot be used as it is."""
    if isinstance(source, Corpus):
        tagged = _of_files(source, on_bad_row)
    else:
        tagged = _of_table(source, found.text_column or "", found.label_column or "", on_bad_row)
    if not tagged.sentences:
        raise InputError(f"{source.name}: there is no sentence with tags here.")
    return tagged


def _of_files(corpus: Corpus, on_bad_row: str) -> Tagged:
    sentences: list[Sentence] = []
    warnings = []
    for source in corpus.sources:
        bad = BadRows(source.path, on_bad_row)
        before = len(sentences)
        sentences += _conll(source, bad)
        bad.check(len(sentences) - before)
        if bad.skipped:
            warnings.append(f"{source.path}: {counted(len(bad.skipped), 'sentence')} with malformed lines left out")
    return Tagged(corpus.name, sentences, warnings)


def _conll(source: Source, bad: BadRows) -> Iterator[Sentence]:
    """A token and its tag on each line, a blank line after each sentence; tokens are joined by a space."""
    path = source.path
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    columns: Layout | None = None
    words: list[str] = []
    tags: list[str] = []
    numbers: list[int] = []
    wrong: tuple[int, str] | None = None
    for number, line in enumerate((*_lines(source), ""), start=1):
        blank = not line.strip() or line.startswith("-DOCSTART-")
        if not blank:
            columns = columns or _layout(source, ending)
            fields = columns.fields(line)
            if is_comment(line, fields, columns):
                continue
            if ending == ".conllu" and not fields[0].isdigit():
                continue  # 1-2 and 1.1: words that are written together, and those that are left out
            if (said := columns.problem(fields)) is not None:
                wrong = wrong or (number, said)
            else:
                words.append(fields[columns.token])
                tags.append(fields[columns.tag])
                numbers.append(number)
            continue
        if wrong is not None:
            bad.add(*wrong)
        elif words:
            yield _joined(words, tags, path, numbers)
        words, tags, numbers, wrong = [], [], [], None


def _lines(source: Source) -> Iterator[str]:
    """The lines of a file without their ends."""
    for document in source.open(None):
        rest = ""
        for piece in document.chunks():
            *whole, rest = (rest + piece).split("\n")
            yield from (line.removesuffix("\r") for line in whole)
        yield rest.removesuffix("\r")


def _layout(source: Source, ending: str) -> Layout:
    """Where in each line token and tag are.  Raises InputError where no line has both."""
    lines = [line for line, _ in zip(_lines(source), range(LOOKED_AT), strict=False)]
    found = layout(lines, ending) or usual_layout(lines)
    if found is None:
        raise InputError(
            f"{source.path}: no token with its tag on a line, separated by a blank or a tab (Anna B-PER); expected "
            "that, and a blank line after each sentence."
        )
    return found


def _joined(words: Sequence[str], tags: list[str], path: Path, numbers: list[int]) -> Sentence:
    places: list[Place] = []
    start = 0
    for word in words:
        places.append((start, start + len(word)))
        start += len(word) + 1
    return Sentence(" ".join(words), places, tags, lambda at: f"{path}, line {numbers[at]}")


def _of_table(table: Table, text_column: str, label_column: str, on_bad_row: str) -> Tagged:
    """Rows of tokens and as many tags, or of a text and its spans."""
    sentences: list[Sentence] = []
    skipped: list[str] = []
    widened = 0
    have_spans = any(spans_of(cell) for cell in table.column(label_column))
    rows = zip(table.column(text_column), table.column(label_column), strict=True)
    for index, (text, cell) in enumerate(rows):
        if not text.strip() and not cell.strip():
            continue
        try:
            if have_spans:
                made, wide = _of_spans(text, cell, label_column)
                widened += wide
            else:
                made = _of_lists(text, cell, text_column, label_column)
        except ValueError as error:
            if on_bad_row != "skip":
                raise InputError(f"{_where(table, index)}: {error}. ({SKIP} leaves such rows out.)") from None
            skipped.append(table.place(index))
            continue
        if made.words:
            sentences.append(replace(made, place=partial(_where, table, index)))
    check_skipped(table.name, len(skipped), len(sentences), "malformed")
    warnings = []
    if skipped:
        shown = ", ".join(skipped[:3]) + ", ..." * (len(skipped) > 3)
        warnings.append(f"{counted(len(skipped), 'malformed row')} left out ({shown})")
    if widened:
        warnings.append(f"{counted(widened, 'span')} that begin or end inside a word: widened to whole words")
    return Tagged(table.name, sentences, warnings)


def _where(table: Table, index: int, number: int = 0) -> str:
    """File and line of a row, and of each word in it."""
    return table.place(index) if len(table.paths) > 1 else f"{table.path}, {table.place(index)}"


def _of_lists(text: str, cell: str, text_column: str, label_column: str) -> Sentence:
    """Raises ValueError for lists that do not fit each other."""
    words, tags = (found if (found := listed(value)) is not None else value.split() for value in (text, cell))
    if not words:
        raise ValueError(f"{len(tags)} tags in column {label_column!r}, but no text in column {text_column!r}")
    if len(words) != len(tags):
        raise ValueError(
            f"{counted(len(words), 'token')} in column {text_column!r}, but {counted(len(tags), 'tag')} in column "
            f"{label_column!r}; expected one for each"
        )
    if numbers := [tag for tag in tags if tag.lstrip("-").isdigit()]:
        raise ValueError(
            f"the tag {numbers[0]!r} in column {label_column!r} is a number; write the names of the tags (O, B-PER), "
            "which the page of the data set lists in this order"
        )
    if any(not tag.strip() for tag in tags):
        raise ValueError(f"an empty tag in column {label_column!r}; write O for a word outside of every entity")
    kept = [(word, tag) for word, tag in zip(words, tags, strict=True) if word.strip()]
    return _joined([word for word, _ in kept], [tag for _, tag in kept], Path(), [0] * len(kept))


def _of_spans(text: str, cell: str, label_column: str) -> tuple[Sentence, int]:
    """A text with its spans, and how many of these were widened to whole words.

    Raises ValueError for what is no list of spans, and for a span that lies outside the text or crosses another.
    """
    if (spans := spans_of(cell)) is None:
        example = '[{"start": 0, "end": 4, "label": "PER"}]'
        raise ValueError(f"column {label_column!r} holds {shorten(cell)}; expected spans such as {example}")
    words = split_words(text)
    tags = [OUTSIDE] * len(words)
    widened, reached = 0, 0
    for start, end, label in sorted(spans, key=lambda span: (span[0], span[1])):
        if not 0 <= start < end <= len(text):
            raise ValueError(f"the span {start} to {end} ({label}) lies outside the text of {len(text)} characters")
        if start < reached:
            raise ValueError(f"the span {start} to {end} ({label}) crosses the one before, which ends at {reached}")
        reached = end
        inside = [number for number, (first, last) in enumerate(words) if first < end and start < last]
        if not inside:
            continue  # blank space alone
        if any(tags[number] != OUTSIDE for number in inside):
            raise ValueError(f"the span {start} to {end} ({label}) begins in a word in which another one ends")
        cut = text[start:end]
        exact = (start + len(cut) - len(cut.lstrip()), end - len(cut) + len(cut.rstrip()))
        widened += (words[inside[0]][0], words[inside[-1]][1]) != exact
        for number in inside:
            tags[number] = f"{'B' if number == inside[0] else 'I'}-{label}"
    return Sentence(text, words, tags, str), widened
