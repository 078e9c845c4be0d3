"""The part of a stream of texts on which a tokenizer is trained, in pieces of limited size."""

from collections.abc import Iterable, Iterator, Sequence

from headway.errors import InputError

PIECE = 16_384
"""Maximum number of characters in a piece."""

MOST_CHARACTERS = 10_000_000
"""Characters read to learn words or parts of words: the memory needed grows with the number of distinct words."""

MAX_DISTINCT = 8_000_000
"""Bytes of distinct words after which reading stops: a trainer needs about 100 bytes of memory for each word.

Ten million characters of English have far fewer; text without spaces reaches this limit first.
"""


class Sample:
    """Iterate once over pieces of texts, up to ``max_characters`` and ``MAX_DISTINCT``; pieces break before spaces.

    If the number of characters is known (``out_of``, or from a list), the pieces are spread evenly over all of them.
    ``words``: whether distinct words are counted.  Afterwards ``characters`` is the number of characters returned, and
    ``cut_short`` whether there were more.
    """

    def __init__(
        self, texts: Iterable[str], max_characters: int, *, out_of: int | None = None, words: bool = True
    ) -> None:
        if isinstance(texts, str):
            texts = [texts]
        if out_of is None and isinstance(texts, Sequence):
            out_of = sum(map(len, texts))
        self._texts, self._max_characters, self._count_words = texts, max_characters, words
        self._share = min(1.0, max_characters / out_of) if out_of else 1.0
        self._words: set[str] = set()
        self._distinct = 0
        self.characters = 0
        self.cut_short = False

    def __iter__(self) -> Iterator[str]:
        passed = 0
        for row, text in enumerate(self._texts, start=1):
            start = 0
            while start < len(text):
                room = self._max_characters - self.characters
                if room <= 0 or self._distinct >= MAX_DISTINCT:
                    self.cut_short = True
                    return
                piece = _cut(text[start : start + min(PIECE, room)], start + min(PIECE, room) >= len(text))
                start += len(piece)
                passed += len(piece)
                if self.characters > self._share * passed:
                    self.cut_short = True
                    continue
                self._count(piece, row)
                yield piece

    def _count(self, piece: str, row: int) -> None:
        self.characters += len(piece)
        new = set(piece.split()) - self._words if self._count_words else {piece}
        try:
            size = sum(len(word.encode()) for word in new)
        except UnicodeEncodeError as error:
            raise InputError(
                f"text {row}: found the lone surrogate U+{ord(error.object[error.start]):04X}, expected Unicode text; "
                "read the file as UTF-8"
            ) from None
        if self._count_words:
            self._words |= new
            self._distinct += size


def _cut(piece: str, last: bool) -> str:
    """A piece, shortened to end before its last space or line end unless it is the last of its text."""
    border = -1 if last else max(piece.rfind(" "), piece.rfind("\n"))
    return piece[:border] if border > 0 else piece
