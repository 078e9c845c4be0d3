"""Running text: documents streamed from disk, never all in memory, split by their last characters."""

import functools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from headway.data.open.files import LONGEST_LINE, Tally, cut_point, fingerprint_of, pieces
from headway.errors import InputError

FEW = 10
"""A line of at most so many characters is left out where lines are inputs."""
Document = Iterator[str]
"""One document, a file or one row of a table: pieces of about 1 MB, cut after a line where there is one."""


@dataclass(frozen=True)
class Source:
    """One file of a corpus.

    `open(tally)` reads its documents, and counts what it reads in the tally when given; a document must be read before
    the next is asked.
    """

    path: Path
    open: Callable[[Tally | None], Iterator[Document]]
    column: str | None = None
    """The column the documents are from, where the file is a table."""
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """(place, reason) of each malformed row that was left out, once the source was read with a tally."""


@dataclass(frozen=True)
class Facts:
    """What one pass over a corpus finds."""

    n_characters: int
    n_documents: int
    n_empty: int
    fingerprint: str


class Corpus:
    """Running text from one or more files, read again in bounded memory each time it is needed.

    Line ends are kept exactly as they are in the files ("\\r\\n" stays "\\r\\n"); only a byte order mark is dropped.
    Documents that are empty or blank are left out and counted in `n_empty`.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = tuple(sources)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files, in reading order."""
        return tuple(source.path for source in self.sources)

    @property
    def name(self) -> str:
        """The files in a few words, for messages."""
        more = len(self.sources) - 1
        return f"{self.sources[0].path}" + (f" and {more} more" if more else "")

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """(place, reason) of each malformed row that was left out, once everything was read (``facts``)."""
        return [one for source in self.sources for one in source.skipped]

    def documents(self) -> Iterator[Document]:
        """Every document in order, the empty ones too."""
        return (document for source in self.sources for document in source.open(None))

    def chunks(self) -> Iterator[tuple[str, bool]]:
        """Pairs (text of about 1 MB at most, whether it ends its document), without empty documents."""
        return (chunk for document in self.documents() for chunk in _flagged(document))

    @functools.cached_property
    def facts(self) -> Facts:
        """Counts and fingerprint, by reading everything once; raises InputError where a file cannot be read as text."""
        n_characters = n_documents = n_empty = 0
        digests = []
        for source in self.sources:
            tally = Tally()
            for document in source.open(tally):
                length = sum(len(text) for text, _ in _flagged(document))
                n_characters += length
                n_documents += length > 0
                n_empty += length == 0
            digests.append(tally.digest)
        return Facts(n_characters, n_documents, n_empty, fingerprint_of(digests))

    @property
    def n_characters(self) -> int:
        """Characters in all documents."""
        return self.facts.n_characters

    @property
    def n_documents(self) -> int:
        """Documents that are not blank."""
        return self.facts.n_documents

    @property
    def n_empty(self) -> int:
        """Blank documents, which are left out."""
        return self.facts.n_empty

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the content in hexadecimal; for one file, of its unpacked bytes."""
        return self.facts.fingerprint


def _flagged(document: Document) -> Iterator[tuple[str, bool]]:
    """The chunks of a document with its end marked; nothing for a blank document.

    Blank text at the start is held back until something else comes; past 1 MB it counts as text.
    """
    held, blank = "", True
    for text in document:
        if held and not blank:
            yield held, False
            held = ""
        held += text
        blank = blank and len(held) <= 1 << 20 and not text.strip()
    if not blank:
        yield held, True


def file_source(path: Path, encoding: str | None) -> Source:
    """A text file as the one document of its source."""
    return Source(path, lambda tally: iter([file_chunks(path, encoding, tally)]))


def row_documents(texts: Iterable[str], tally: Tally | None = None) -> Iterator[Document]:
    """Texts as documents."""
    for text in texts:
        if tally is not None:
            tally.add(f"{text}\0".encode("utf-8", "surrogatepass"))
        yield row_chunks(text)


def file_chunks(path: Path, encoding: str | None, tally: Tally | None = None) -> Iterator[str]:
    """The text of a file, cut after a line where there is one; raises InputError at a NUL, naming line and column."""
    rest, newlines = "", 0
    for piece in pieces(path, encoding, tally):
        text = rest + piece
        if "\0" in piece:
            at = text.index("\0")
            line, column = newlines + text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
            what = f"a NUL byte at column {column}; expected text. Remove it and run again."
            raise InputError(f"{path}, line {line}: {what}")
        cut = cut_point(text)
        rest = text[cut:]
        newlines += text.count("\n", 0, cut)
        yield text[:cut]
    if rest:
        yield rest


def whole_text(path: Path, encoding: str | None, tally: Tally | None = None) -> str:
    """A file as one text, held in memory.  Raises InputError for one that is too long."""
    held: list[str] = []
    for piece in file_chunks(path, encoding, tally):
        held.append(piece)
        if sum(map(len, held)) > LONGEST_LINE:
            raise InputError(f"{path}: has more than {LONGEST_LINE:,} characters, too long for one text; split it.")
    return "".join(held)


def row_chunks(text: str, size: int = 1 << 20) -> Iterator[str]:
    """One row as chunks of at most `size` characters."""
    start = 0
    while len(text) - start > size:
        cut = start + cut_point(text[start : start + size])
        yield text[start:cut]
        start = cut
    yield text[start:]


def text_boundary(n_tokens: int, fraction: float = 0.1) -> int:
    """How many of n characters or tokens are for training when the last `fraction` is held out: int(n * 0.9)."""
    if not 0 < fraction < 1:
        raise ValueError(f"fraction is {fraction}, expected a number between 0 and 1")
    return int(n_tokens * (1 - fraction))


@dataclass(frozen=True)
class TextPart:
    """The characters [start, stop) of a corpus, as chunks that can be read any number of times."""

    chunks: Callable[[], Iterator[tuple[str, bool]]]
    """Those of the whole corpus."""
    key: tuple[str, str]
    """The fingerprint of the corpus, and which part this is."""
    start: int = 0
    stop: float = math.inf

    def begins_inside(self) -> bool:
        """Whether the part begins in the middle of a document: what is before it is read to its end."""
        before = deque(replace(self, start=0, stop=self.start), maxlen=1)
        return bool(before) and not before[0][1]

    def __iter__(self) -> Iterator[tuple[str, bool]]:
        """Pairs (text, whether a document ends here); a document cut by the boundary has no end in the first part."""
        at = 0
        for text, ends in self.chunks() if self.stop else ():
            low, high = max(self.start - at, 0), int(min(self.stop - at, len(text)))
            at += len(text)
            if low < high:
                yield text[low:high], ends and high == len(text)
            if at >= self.stop:
                return

    def lines(self) -> Iterator[str]:
        """The lines that have more than a few characters."""
        return (line for chunk, _ in self for line in chunk.splitlines() if len(line.strip()) > FEW)


def split_text(corpus: Corpus, fraction: float = 0.1) -> tuple[TextPart, TextPart]:
    """The training and the validation part of running text: all documents in a row, cut at `text_boundary` characters.

    Both stream from disk.  Raises InputError when a part would be empty.
    """
    n = corpus.n_characters
    boundary = text_boundary(n, fraction)
    if boundary < 1:
        raise InputError(f"{corpus.name}: {n} characters are too few to hold {fraction:.0%} out; add text.")
    parts = (("train", 0, boundary), ("validation", boundary, n))
    train, validation = (TextPart(corpus.chunks, (corpus.fingerprint, name), *ends) for name, *ends in parts)
    return train, validation
