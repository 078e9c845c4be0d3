"""Texts with a tag for each word, from CoNLL files and from tables of lists or of spans, checked before training."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain, islice
from pathlib import Path

import numpy as np

from headway.data.batches.cache import cache_key
from headway.data.formats.tags import (
    LOOKED_AT,
    OUTSIDE,
    Layout,
    Span,
    in_labels,
    iob2,
    is_comment,
    layout,
    listed,
    names_words,
    spans_of,
    untyped,
    usual_layout,
)
from headway.data.open.columns import Detected
from headway.data.open.files import split_lines
from headway.data.records.corpus import Corpus, Source
from headway.data.records.label_typing import composed
from headway.data.records.repeats import text_hashes
from headway.data.records.rows import ROWS, SKIP, BadRows, check_skipped, counted, shorten
from headway.data.records.split import RowView
from headway.data.records.table import Table
from headway.data.records.text_rows import FIRST, Growing
from headway.data.records.words import PLAIN, Place, joined
from headway.errors import InputError


@dataclass(frozen=True)
class Sentence:
    """A text, where its words are, and a tag for each of them."""

    text: str
    words: list[Place]
    tags: list[str]
    place: Callable[[int], str]
    """file and line of a word, by its number"""


@dataclass(frozen=True)
class Tagged(RowView):
    """The sentences of a source in order, read again whenever they are asked for; only numbers about them are held."""

    name: str
    stream: Callable[[], Iterator[Sentence]]
    """Reads the sentences as they are written."""
    of_all: str
    """A key for all sentences of the source."""
    whole: bool
    """Whether tags are those of words, such as parts of speech, and not of entities; these are brought to IOB2."""
    names: dict[str, str]
    """What the tags are called, of those in IOB2 or of words."""
    tags: Counter[str]
    """How often each tag occurs in all sentences."""
    characters: np.ndarray
    """The characters of each text, int32 (N,)."""
    words: np.ndarray
    """The words of each text, int32 (N,)."""

    def __iter__(self) -> Iterator[Sentence]:
        at = 0
        for number, one in enumerate(self.stream() if len(self) else ()):
            if number == self.index[at]:
                tags = one.tags if self.whole else iob2(one.tags)
                yield replace(one, tags=[self.names[tag] for tag in tags])
                if (at := at + 1) == len(self):
                    return

    @property
    def key(self) -> str:
        """A key for the sentences."""
        return cache_key(self.of_all, self.index_key)

    @property
    def strata(self) -> np.ndarray:
        """The number of the rarest tag of each sentence."""
        place = {tag: at for at, tag in enumerate(sorted(self.tags))}
        rarest = (min(set(one.tags), key=lambda tag: (self.tags[tag], tag)) for one in self)
        return np.fromiter((place[tag] for tag in rarest), np.int32, len(self))

    def check_labels(self, labels: Sequence[str], whose: str) -> None:
        """Raise InputError naming file and line for a tag that is none of ``labels``, which are those of ``whose``."""
        if strange := set(self.tags) - set(labels):
            shown = ", ".join(labels[:20]) + ", ..." * (len(labels) > 20)
            places = (one.place(at) for one in self for at, tag in enumerate(one.tags) if tag in strange)
            tags = (tag for one in self for tag in one.tags if tag in strange)
            raise InputError(f"{next(places)}: the tag {next(tags)!r} is not one of {whose}: {shown}.")


def read_tagged(
    source: Corpus | Table, found: Detected, on_bad_row: str, *, whole: bool | None = None, labels: Sequence[str] = ()
) -> Tagged:
    """The sentences of what was read, in IOB2, or with the tags that a model of some ``labels`` has for them.

    ``whole`` says whether tags are those of single words; None detects it.  Raises InputError, naming file and line,
    for what cannot be used as it is.
    """
    stream = sentences(source, found, on_bad_row)
    written, counts, warnings = Counter[str](), Counter[str](), list[str]()
    growing = Growing(hashes="q", characters="i", words="i")
    rows = stream(warnings)
    while part := list(islice(rows, ROWS)):
        for one in part:
            written.update(one.tags)
            counts.update(iob2(one.tags))
        texts = [one.text for one in part]
        growing.add(hashes=text_hashes(texts), characters=[*map(len, texts)], words=[len(one.words) for one in part])
    arrays = growing.arrays()
    if not len(arrays["hashes"]):
        raise InputError(f"{source.name}: there is no sentence with tags here.")
    whole = names_words(written) if whole is None else whole
    before = written if whole else counts
    names = dict(zip(before, in_labels(list(map(composed, before)), labels), strict=True))
    tags: Counter[str] = Counter()
    for tag, count in before.items():
        tags[names[tag]] += count
    reading = (source.reading, found.text_column, found.label_column) if isinstance(source, Table) else ()
    sizes = [int(arrays[name].sum(dtype=np.int64)) for name in ("characters", "words")]
    key = cache_key(source.fingerprint, *reading, on_bad_row, *sizes, list(written.items()))
    known = {**arrays, "index": np.arange(len(arrays["hashes"])), "warnings": warnings}
    return Tagged(source.name, partial(stream, []), key, whole, names, tags, **known)


def sentences(source: Corpus | Table, detected: Detected, on_bad_row: str) -> Callable[[list[str]], Iterator[Sentence]]:
    """What reads the sentences of a source as they are written, and adds its warnings to a list when it has ended.

    Raises InputError, as reading does.
    """
    if isinstance(source, Corpus):
        return partial(_of_files, source, on_bad_row)
    columns = detected.text_column or "", detected.label_column or ""
    have_spans = any(map(spans_of, source.values(columns[1])))
    source.check_column(columns[0])
    return partial(_of_table, source, columns, have_spans, on_bad_row)


def _of_files(corpus: Corpus, on_bad_row: str, warnings: list[str]) -> Iterator[Sentence]:
    for source in corpus.sources:
        bad, kept = BadRows(source.path, on_bad_row), 0
        for one in _conll(source, bad):
            kept += 1
            yield one
        bad.check(kept)
        if bad.skipped:
            warnings.append(f"{source.path}: {counted(len(bad.skipped), 'sentence')} with malformed lines left out")


def _conll(source: Source, bad: BadRows) -> Iterator[Sentence]:
    """A token and its tag on each line, a blank line after each sentence; tokens are joined by a space."""
    path = source.path
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    columns: Layout | None = None
    wrong: tuple[int, str] | None = None
    words, tags, numbers = list[str](), list[str](), list[int]()
    for number, line in enumerate(chain(_lines(source), [""]), start=1):
        blank = not line.strip() or line.startswith("-DOCSTART-")
        if not blank:
            columns = columns or _layout(source, ending)
            fields = columns.fields(line)
            if is_comment(line, fields, columns):
                continue
            if ending == ".conllu" and not fields[0].isdigit():
                continue  # 1-2 and 1.1: words that are written together, and those that are left out
            if (problem := columns.problem(fields)) is not None:
                wrong = wrong or (number, problem)
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
    pieces = chain.from_iterable(source.open(None))  # of its one document
    return chain.from_iterable(split_lines(pieces, source.path))


def _layout(source: Source, ending: str) -> Layout:
    """Where in each line token and tag are.  Raises InputError where no line has both."""
    lines = [*islice(_lines(source), LOOKED_AT)]
    columns = layout(lines, ending) or usual_layout(lines)
    if columns is None:
        raise InputError(
            f"{source.path}: no token with its tag on a line, separated by a blank or a tab (Anna B-PER); expected "
            "that, and a blank line after each sentence."
        )
    return columns


def _joined(words: Sequence[str], tags: list[str], path: Path, numbers: list[int]) -> Sentence:
    return Sentence(*joined(words), tags, lambda at: f"{path}, line {numbers[at]}")


def _of_table(
    table: Table, columns: tuple[str, str], have_spans: bool, on_bad_row: str, warnings: list[str]
) -> Iterator[Sentence]:
    """Rows of tokens and as many tags, or of a text and its spans."""
    skipped, widened, spans, kept = list[int](), list[int](), 0, 0
    for index, (text, cell) in enumerate(table.cells(columns, np.arange(len(table)))):
        if not text.strip() and not cell.strip():
            continue
        try:
            made, wide = _of_spans(text, cell, columns[1]) if have_spans else (_of_lists(text, cell, *columns), 0)
        except ValueError as error:
            if on_bad_row != "skip":
                raise InputError(f"{_where(table, index)}: {error}. ({SKIP} leaves such rows out.)") from None
            skipped.append(index)
            continue
        spans, widened = spans + wide, [*widened, index] if wide and len(widened) < FIRST else widened
        if made.words:
            kept += 1
            yield replace(made, place=partial(_where, table, index))
    check_skipped(table.name, len(skipped), kept, "malformed")
    if skipped:
        shown = ", ".join(map(table.place, skipped[:3])) + ", ..." * (len(skipped) > 3)
        warnings.append(f"{counted(len(skipped), 'malformed row')} left out ({shown})")
    if widened:
        words = f"{counted(spans, 'span')} that begin or end inside a word: widened to whole words"
        warnings.append(f"{words} ({table.places(widened)})")


def _where(table: Table, index: int, number: int = 0) -> str:
    """File and line of a row, and of each word in it."""
    return table.place(index) if len(table.paths) > 1 else f"{table.path}, {table.place(index)}"


def _of_lists(text: str, cell: str, text_column: str, label_column: str) -> Sentence:
    """Raises ValueError for lists that do not fit each other."""
    words, tags = (parts if (parts := listed(value)) is not None else value.split() for value in (text, cell))
    if not words:
        many = counted(len(tags), "tag")
        raise ValueError(f"{many} in column {label_column!r}, but no text in column {text_column!r}")
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
    if problem := untyped(tags):
        raise ValueError(f"{problem}, in column {label_column!r}")
    kept = [(word, tag) for word, tag in zip(words, tags, strict=True) if word.strip()]
    return _joined([word for word, _ in kept], [tag for _, tag in kept], Path(), [0] * len(kept))


def _of_spans(text: str, cell: str, label_column: str) -> tuple[Sentence, int]:
    """A text with its spans, and how many of these were widened to whole words.

    Raises ValueError for what is no list of spans, for a span that lies outside the text, has only blank space or
    crosses another, and for spans that fit the words of the text only when they are counted in UTF-16.
    """
    if (spans := spans_of(cell)) is None:
        example = '[{"start": 0, "end": 4, "label": "PER"}]'
        raise ValueError(f"column {label_column!r} holds {shorten(cell)}; expected spans such as {example}")
    words, problem = PLAIN.split(text), ""
    try:
        tags, widened = _tags_of(spans, text, words)
    except ValueError as error:
        tags, widened, problem = [], 1, str(error)
    if widened and (hint := _utf16_hint(spans, text, words)):
        problem = f"{problem or 'a span begins or ends inside a word'}; {hint}"
    if problem:
        raise ValueError(problem)
    return Sentence(text, words, tags, str), widened


def _utf16_hint(spans: Sequence[Span], text: str, words: Sequence[Place]) -> str:
    """What to do about spans that fit the words only if they are counted in UTF-16; nothing for any others."""
    position = {unit: at for at, unit in enumerate(accumulate((1 + (one > "\uffff") for one in text), initial=0))}
    try:
        counted_so = [(position[start], position[end], label) for start, end, label in spans]
        if counted_so == [*spans] or _tags_of(counted_so, text, words)[1]:
            return ""
    except (KeyError, ValueError):
        return ""
    start, end, label = next(one for one, other in zip(counted_so, spans, strict=True) if one != other)
    return (
        f"counted in UTF-16, as JavaScript and Java do, all spans fit ({label} is {shorten(text[start:end])}). Here a "
        "character beyond U+FFFF, such as an emoji, counts as one: convert the spans"
    )


def _tags_of(spans: Sequence[Span], text: str, words: Sequence[Place]) -> tuple[list[str], int]:
    """The tag of each word, and how many spans were widened.  Raises ValueError for spans that are no words."""
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
            raise ValueError(f"the span {start} to {end} ({label}) has only blank space")
        if any(tags[number] != OUTSIDE for number in inside):
            raise ValueError(f"the span {start} to {end} ({label}) begins in a word in which another one ends")
        cut = text[start:end]
        exact = (start + len(cut) - len(cut.lstrip()), end - len(cut) + len(cut.rstrip()))
        widened += (words[inside[0]][0], words[inside[-1]][1]) != exact
        for number in inside:
            tags[number] = f"{'B' if number == inside[0] else 'I'}-{label}"
    return tags, widened
