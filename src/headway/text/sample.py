"""The part of a stream of texts that a tokenizer is trained on, in pieces and within bounds."""

from collections.abc import Iterable, Iterator

from headway.errors import InputError

PIECE = 16_384
"""Characters in a piece at most."""

MAX_DISTINCT = 8_000_000
"""Bytes of distinct words after which reading stops: a trainer needs some 100 bytes of memory for each of them.

Fifty million characters of English have about half as many; text without spaces gets there first.
"""


class Sample:
    """Iterate once over pieces of texts, up to ``max_characters`` and ``MAX_DISTINCT``; borders fall before spaces.

    Afterwards ``characters`` says how much was given out, and ``cut_short`` whether there was more.
    """

    def __init__(self, texts: Iterable[str], max_characters: int) -> None:
        if isinstance(texts, str):
            texts = [texts]
        self._texts = texts
        self._max_characters = max_characters
        self._words: set[str] = set()
        self._distinct = 0
        self.characters = 0
        self.cut_short = False

    def __iter__(self) -> Iterator[str]:
        for row, text in enumerate(self._texts, start=1):
            start = 0
            while start < len(text):
                room = self._max_characters - self.characters
                if room <= 0 or self._distinct >= MAX_DISTINCT:
                    self.cut_short = True
                    return
                piece = _cut(text[start : start + min(PIECE, room)], start + min(PIECE, room) >= len(text))
                self._count(piece, row)
                start += len(piece)
                yield piece

    def _count(self, piece: str, row: int) -> None:
        self.characters += len(piece)
        new = set(piece.split()) - self._words
        self._words |= new
        try:
            self._distinct += sum(len(word.encode()) for word in new)
        except UnicodeEncodeError as error:
            raise InputError(
                f"text {row}: found the lone surrogate U+{ord(error.object[error.start]):04X}, expected Unicode text; "
                "read the file as UTF-8"
            ) from None


def _cut(piece: str, last: bool) -> str:
    """A piece, shortened to end before its last space or line end unless it is the last of its text."""
    border = -1 if last else max(piece.rfind(" "), piece.rfind("\n"))
    return piece[:border] if border > 0 else piece
