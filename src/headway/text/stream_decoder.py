"""Text while it is being generated: ids become whole characters, and stop strings are found across pieces."""

import codecs
from collections.abc import Callable, Collection, Iterable, Sequence

from headway.errors import InputError

CONTEXT = 4
"""How many decoded ids are decoded again, so that spaces between tokens come out right."""

HELD = 16
"""How many ids may wait for the rest of a character before they are output as they are."""


class StreamDecoder:
    """Ids in, text out, piece by piece: the pieces and ``finish()`` joined equal the text of all ids decoded at once.

    Where the ids continue a prompt, ``after`` are the prompt's ids, so that a space between the two texts is kept.  A
    piece never ends inside a character: the bytes of an unfinished character wait for the next id.  Work and memory
    per id do not grow with the length of the stream.  ``Tokenizer.stream()`` makes one.

    ``decode`` turns ids into text; ``tokens`` are the tokens by id; ids in ``skip`` give no text.  ``byte_values`` is
    the alphabet of a byte-level tokenizer (character to byte), or None for other kinds; ``byte_fallback``: tokens such
    as ``<0xE2>`` stand for bytes; ``partial``: ``decode`` may return U+FFFD for half a character.
    """

    def __init__(
        self,
        decode: Callable[[list[int]], str],
        tokens: Sequence[str],
        skip: Collection[int] = frozenset(),
        after: Sequence[int] = (),
        *,
        byte_values: dict[str, int] | None = None,
        byte_fallback: bool = False,
        partial: bool = False,
    ) -> None:
        self._decode = decode
        self._tokens = tokens
        self._skip = skip
        self._byte_values = byte_values
        self._byte_fallback = byte_fallback
        self._partial = partial
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._context = [id for id in after if id not in skip and 0 <= id < len(tokens)][-CONTEXT:]
        self._pending: list[int] = []

    def bytes_of(self, id: int) -> bytes:
        """The UTF-8 of what this id by itself would add next: of a part of a character its bytes, of no token none."""
        if not 0 <= id < len(self._tokens):
            return b""
        token = self._tokens[id]
        if id in self._skip:
            return token.encode()
        if self._byte_values is not None:
            return token_bytes(token, self._byte_values)
        if self._byte_fallback and _is_byte(token):
            return bytes([int(token[3:5], 16)])
        return self._text([id]).encode()

    def push(self, id: int) -> str:
        """The text that this id completes; "" while a character is unfinished, and for an id that gives no text."""
        if id in self._skip or not 0 <= id < len(self._tokens):
            return ""
        if self._byte_values is not None:
            return self._utf8.decode(token_bytes(self._tokens[id], self._byte_values))
        self._pending.append(id)
        if self._byte_fallback and _is_byte(self._tokens[id]):
            return ""  # a run of bytes is decoded as a whole: only its end shows whether it is text
        text = self._text(self._pending)
        if self._partial and text.endswith("�") and len(self._pending) < HELD:
            return ""
        self._advance()
        return text

    def finish(self) -> str:
        """The remaining text; an unfinished character becomes U+FFFD, as when all ids are decoded at once."""
        if self._byte_values is not None:
            return self._utf8.decode(b"", final=True)
        text = self._text(self._pending) if self._pending else ""
        self._advance()
        return text

    def _text(self, ids: list[int]) -> str:
        known = self._decode(self._context) if self._context else ""
        return self._decode(self._context + ids)[len(known) :]

    def _advance(self) -> None:
        self._context = (self._context + self._pending)[-CONTEXT:]
        self._pending = []


class StopStrings:
    """Find stop strings in text that comes in pieces; the first stop string and everything after it is dropped.

    The first is the one that ends first (of two that end together, the longer), so the division into pieces makes no
    difference.  At most ``max(len(stop)) - 1`` characters are held back, those that may begin a stop string.
    Raises InputError for an empty stop string.
    """

    def __init__(self, stops: str | Iterable[str]) -> None:
        self.stops = [stops] if isinstance(stops, str) else list(stops)
        for stop in self.stops:
            if not isinstance(stop, str) or not stop:
                raise InputError(f"stop: found {stop!r}, expected strings of at least one character")
        self.stopped = False
        self._held = ""
        self._reach = max((len(stop) for stop in self.stops), default=1) - 1

    def push(self, piece: str) -> tuple[str, bool]:
        """(the text that can be shown now, whether a stop string was found)."""
        if self.stopped:
            return "", True
        text = self._held + piece
        ends = [(start + len(stop), start) for stop in self.stops if (start := text.find(stop)) >= 0]
        if ends:
            self.stopped = True
            self._held = ""
            return text[: min(ends)[1]], True
        keep = self._beginning(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], False

    def finish(self) -> str:
        """The characters held back, when no more text comes; "" after a stop string."""
        text, self._held = self._held, ""
        return text

    def _beginning(self, text: str) -> int:
        """The length of the longest suffix of ``text`` that is the beginning of a stop string."""
        for length in range(min(self._reach, len(text)), 0, -1):
            end = text[-length:]
            if any(stop.startswith(end) for stop in self.stops):
                return length
        return 0


def byte_alphabet() -> dict[str, int]:
    """The 256 characters that represent bytes in byte-level tokenizers, each with its byte.

    Printable Latin-1 characters represent themselves; the others are numbered from U+0100 on, in the order of the
    bytes. The scheme is GPT-2's (Radford et al., 2019).
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


def token_bytes(token: str, byte_values: dict[str, int]) -> bytes:
    """The bytes of a byte-level token; a token with characters outside the alphabet represents its own text."""
    try:
        return bytes([byte_values[character] for character in token])
    except KeyError:
        return token.encode()


def _is_byte(token: str) -> bool:
    return len(token) == 6 and token.startswith("<0x") and token.endswith(">")
