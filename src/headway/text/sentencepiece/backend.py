"""Tokenizers of translation models: text to pieces by SentencePiece, pieces to ids by a separate vocabulary."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from headway.errors import InputError
from headway.text.sentencepiece.model_file import SPACE
from headway.text.sentencepiece.segmenter import Segmenter

_CODE = re.compile(r">>.*?<<", re.DOTALL)
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class Pair(NamedTuple):
    """Two texts as one row, with the special tokens around them."""

    ids: list[int]
    segments: list[int]
    """of each id: 0 where it is of the first text, 1 of the second, where the tokenizer tells them apart; else 0"""
    places: list[tuple[int, int]]
    """the characters [start, end) that each id is of in its text; (0, 0) of special tokens; none for translators"""


@dataclass(frozen=True, eq=False)
class SentencePieceBackend:
    """A segmenter with the ids of its pieces; a piece without an id is unknown.

    With ``special``, ``prefix`` and ``suffix`` are put around a text or a pair.  ``languages`` maps language codes to
    the ids of their tokens, which are special.  ``coded``: a text may start with a language code, written as
    ``>>fra<<``. ``written`` are the files that it was read from, by name: they are saved unchanged, for programs that
    know them.
    """

    segmenter: Segmenter
    vocabulary: dict[str, int]
    specials: dict[str, int]
    unknown: int
    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()
    languages: dict[str, int] = field(default_factory=dict)
    coded: bool = False
    written: dict[str, bytes] = field(default_factory=dict, repr=False)
    transformers_class: str = ""

    kind = "sentencepiece"

    def encode(self, texts: list[str], *, special: bool, allow_special: bool) -> list[list[int]]:
        rows = [self._with_specials(text) for text in texts] if allow_special else self._ids(texts)
        if special:
            return [[*self._before(ids), *ids, *self.suffix] for ids in rows]
        return rows

    def encode_places(self, texts: list[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        raise InputError("the tokenizer of a translation model does not say which characters a token is of")

    def encode_pairs(self, pairs: Sequence[tuple[str, str]], longest: int | None) -> list[Pair]:
        if longest is not None:
            raise InputError("the tokenizer of a translation model does not shorten pairs of texts")
        rows = []
        for one, two in map(self._ids, map(list, pairs)):
            before = self._before(one)
            segments = [0] * (len(before) + len(one)) + [1] * (len(two) + len(self.suffix))
            rows.append(Pair([*before, *one, *two, *self.suffix], segments, []))
        return rows

    def encode_parts(self, parts: Sequence[str | int]) -> tuple[list[int], list[int]]:
        raise InputError("the tokenizer of a translation model cannot encode conversations; use a language model")

    def decode(self, ids: list[int], *, skip_special: bool) -> str:
        """The text of the pieces joined; spaces at the ends are removed."""
        runs: list[str] = []
        text: list[str] = []
        for number in ids:
            if number in self.special_ids:
                if not skip_special:
                    runs += [self._join(text), self._tokens.get(number, "")]
                    text = []
            elif number in self._tokens:
                text.append(self._tokens[number])
        return "".join([*runs, self._join(text)]).strip()

    @cached_property
    def special_ids(self) -> frozenset[int]:
        return frozenset({*self.specials.values(), *self.languages.values()})

    @property
    def decoders(self) -> list[str]:
        return ["ByteFallback"] if self.segmenter.model.byte_fallback else []

    def files(self) -> dict[str, bytes]:
        return self.written

    def with_prefix(self, prefix: tuple[int, ...]) -> "SentencePieceBackend":
        """The same backend with another prefix."""
        return replace(self, prefix=prefix)

    def _before(self, ids: list[int]) -> tuple[int, ...]:
        """The prefix; none where the text starts with a code of its own."""
        return () if self.coded and ids and ids[0] in self.languages.values() else self.prefix

    def _ids(self, texts: list[str]) -> list[list[int]]:
        starts: list[list[int]] = [[] for _ in texts]
        if self.coded:
            texts = list(texts)
            for row, text in enumerate(texts):
                if code := _CODE.match(text):
                    starts[row] = [self.vocabulary.get(code[0], self.unknown)]
                    texts[row] = text[code.end() :]
        find, unknown = self._text_ids.get, self.unknown
        return [
            [*start, *(find(piece, unknown) for piece in pieces)]
            for start, pieces in zip(starts, self.segmenter(texts), strict=True)
        ]

    def _with_specials(self, text: str) -> list[int]:
        """The ids of a text in which special tokens are recognised."""
        parts = self._special_pattern.split(text)
        plain = iter(self._ids([part for part in parts if part and part not in self.specials]))
        ids: list[int] = []
        for part in parts:
            if part:
                ids += [self.specials[part]] if part in self.specials else next(plain)
        return ids

    def _join(self, pieces: list[str]) -> str:
        text, held = "", b""
        for piece in [*pieces, ""]:
            byte = _BYTE.fullmatch(piece)
            if byte and self.segmenter.model.byte_fallback:
                held += bytes([int(byte[1], 16)])
            else:
                text += held.decode("utf-8", "replace") + piece
                held = b""
        return text.replace(SPACE, " ").removeprefix(" ")

    @cached_property
    def _special_pattern(self) -> re.Pattern[str]:
        longest_first = sorted(self.specials, key=len, reverse=True)
        return re.compile(f"({'|'.join(map(re.escape, longest_first))})")

    @cached_property
    def _tokens(self) -> dict[int, str]:
        return {number: token for token, number in self.vocabulary.items()}

    @cached_property
    def _text_ids(self) -> dict[str, int]:
        """The ids that a piece of text may have: all but those of special tokens."""
        return {token: number for token, number in self.vocabulary.items() if number not in self.special_ids}
