"""SentencePiece model files: pieces with scores, and the normalization of text for them (Kudo & Richardson, 2018).

They are messages in the wire format of protocol buffers, parsed strictly: numbered fields of four kinds, nested by
length (https://protobuf.dev/programming-guides/encoding).
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.text.safe.tokenizer_files import MAX_IDS, read_bytes
from headway.text.sentencepiece.charsmap import MOST_GROWTH, charsmap_growth

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""The kinds of field; two further kinds are obsolete and not supported."""
SIZES = {FIXED64: 8, FIXED32: 4}
UNIGRAM, BPE = 1, 2
TYPES = {UNIGRAM: "unigram", BPE: "bpe", 3: "word", 4: "char"}
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

SPACE = "\u2581"
"""How pieces write a space."""
LONGEST_PIECE = 512
"""Limit of characters in a piece; trainers stop at 16, and user-defined symbols are words."""
CHARSMAP = "normalizer_spec.precompiled_charsmap"

_MODEL = {1: ("piece", BYTES), 2: ("trainer_spec", BYTES), 3: ("normalizer_spec", BYTES)}
_PIECE = {1: ("text", BYTES), 2: ("score", FIXED32), 3: ("type", VARINT)}
_TRAINER = {3: ("type", VARINT), 24: ("suffix", VARINT), 35: ("byte_fallback", VARINT)}
_NORMALIZER = {
    2: ("charsmap", BYTES),
    **{3: ("add_dummy_prefix", VARINT), 4: ("remove_extra_whitespaces", VARINT), 5: ("escape_whitespaces", VARINT)},
}
"""For each message, by number: the names and kinds of the fields that are read."""


@dataclass(frozen=True)
class Piece:
    """A token, its log probability (Unigram) or minus its rank (BPE), and its type."""

    text: str
    score: float
    type: int


@dataclass(frozen=True)
class SentencePieceModel:
    """A validated model file.  ``charsmap`` holds the compiled character rules, empty for none."""

    path: Path
    pieces: tuple[Piece, ...]
    type: int = UNIGRAM
    byte_fallback: bool = False
    charsmap: bytes = field(default=b"", repr=False)
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True
    escape_whitespaces: bool = True
    unknown: int = 0

    @property
    def of_type(self) -> dict[int, list[str]]:
        """The texts of the pieces of each type."""
        texts: dict[int, list[str]] = {}
        for piece in self.pieces:
            texts.setdefault(piece.type, []).append(piece.text)
        return texts


def read_model(path: Path, kind: str | None = None, family: str = "") -> SentencePieceModel:
    """Read a model file, of a ``kind`` ("unigram" or "bpe") if a ``family`` of tokenizers has that alone.

    Raises InputError naming the field, what was found and what was expected.
    """
    pieces: list[Piece] = []
    settings: dict[str, Any] = {}
    for name, value in _known(read_bytes(path, "a SentencePiece model"), _MODEL, str(path)):
        if name == "piece":
            pieces.append(_piece(value, f"{path}: piece {len(pieces)}"))
            if len(pieces) > MAX_IDS:
                raise InputError(f"{path}: found more than {MAX_IDS} pieces, expected at most that many")
        else:
            settings |= _known(value, _TRAINER if name == "trainer_spec" else _NORMALIZER, f"{path}: {name}")
    if settings.pop("suffix", 0):
        raise InputError(f"{path}: treat_whitespace_as_suffix: found true, expected false; others are not supported")
    model_type = settings.setdefault("type", UNIGRAM)
    if model_type not in (UNIGRAM, BPE):
        raise InputError(f"{path}: model_type: found {TYPES.get(model_type, model_type)}, expected unigram or bpe")
    settings |= {name: bool(settings[name]) for name in settings if name not in ("type", "charsmap")}
    if (growth := charsmap_growth(settings.get("charsmap", b""))) > MOST_GROWTH:
        raise InputError(
            f"{path}: {CHARSMAP}: makes texts longer, up to {growth:.0f} bytes of one; expected at most {MOST_GROWTH}; "
            "use the tokenizer that was published with the model"
        )
    unknown = _check_pieces(pieces, bool(settings.get("byte_fallback")), path)
    if kind not in (None, TYPES[model_type]):
        raise InputError(f"{path}: model_type: found {TYPES[model_type]}, expected {kind} for a tokenizer of {family}")
    return SentencePieceModel(path, tuple(pieces), unknown=unknown, **settings)


def _piece(data: bytes, where: str) -> Piece:
    known = {"text": b"", "score": bytes(4), "type": NORMAL, **dict(_known(data, _PIECE, where))}
    content, score, type_ = known["text"], struct.unpack("<f", known["score"])[0], known["type"]
    if len(content) > 4 * LONGEST_PIECE:
        raise InputError(f"{where}: found {len(content)} bytes, expected at most {4 * LONGEST_PIECE}")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{where}: found {content[:30]!r}, expected UTF-8") from None
    if not text:
        raise InputError(f"{where}: found no text, expected at least one character")
    if not math.isfinite(score):
        raise InputError(f"{where} ({text[:30]!r}): score: found {score}, expected a finite number")
    if not NORMAL <= type_ <= BYTE:
        raise InputError(f"{where} ({text[:30]!r}): type: found {type_}, expected {NORMAL} to {BYTE}")
    return Piece(text, score, type_)


def _check_pieces(pieces: list[Piece], byte_fallback: bool, path: Path) -> int:
    """The index of the piece for unknown characters; there must be exactly one."""
    if not pieces:
        raise InputError(f"{path}: found no pieces, expected a SentencePiece model; the file may be another kind")
    owner: dict[str, int] = {}
    for number, piece in enumerate(pieces):
        if (first := owner.setdefault(piece.text, number)) != number:
            raise InputError(
                f"{path}: piece {number}: found {piece.text[:30]!r}, which is piece {first}, expected it once"
            )
    unknown = [number for number, piece in enumerate(pieces) if piece.type == UNKNOWN]
    if len(unknown) != 1:
        raise InputError(f"{path}: found {len(unknown)} unknown pieces, expected one")
    if not any(piece.type == NORMAL for piece in pieces):
        raise InputError(f"{path}: found no piece of text, expected at least one")
    missing = [f"<0x{byte:02X}>" for byte in range(256) if f"<0x{byte:02X}>" not in owner]
    if byte_fallback and missing:
        raise InputError(f"{path}: byte_fallback: found no piece {missing[0]}, expected one for each byte")
    return unknown[0]


def _known(data: bytes, names: dict[int, tuple[str, int]], where: str) -> Iterator[tuple[str, Any]]:
    """(name, value) of the fields of a message that are read.  Raises InputError for one of another kind."""
    for number, kind, value in fields(data, where):
        if number in names:
            name, expected = names[number]
            if kind != expected:
                raise InputError(
                    f"{where}: kind of field {number}: found {kind}, expected {expected} for its {name}; "
                    "it is no SentencePiece model"
                )
            yield name, value


def fields(data: bytes, where: str) -> Iterator[tuple[int, int, Any]]:
    """(number, kind, value) of every field of a message: the number itself for VARINT, otherwise the field's bytes.

    Raises InputError, its message beginning with ``where``.
    """
    at = 0
    while at < len(data):
        key = data[at]
        key, at = (key, at + 1) if key < 0x80 else _varint(data, at, where)
        number, kind = key >> 3, key & 7
        if not 0 < number < 2**29:
            raise InputError(f"{where}: field number at byte {at}: found {number}, expected 1 to {2**29 - 1}")
        if kind not in (VARINT, BYTES, *SIZES):
            raise InputError(f"{where}: kind of field {number} at byte {at}: found {kind}, expected 0, 1, 2 or 5")
        size, at = (SIZES[kind], at) if kind in SIZES else _varint(data, at, where)
        if kind == VARINT:
            yield number, kind, size
            continue
        if size > len(data) - at:
            raise InputError(
                f"{where}: length of field {number} at byte {at}: found {size}, expected at most {len(data) - at}, "
                "the bytes that are left; the file may be cut short"
            )
        yield number, kind, data[at : at + size]
        at += size


def _varint(data: bytes, at: int, where: str) -> tuple[int, int]:
    """(an integer of up to 64 bits, stored in groups of seven, the position after it)."""
    value = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise InputError(f"{where}: number at byte {at}: found more than 10 bytes, expected at most 10")
    raise InputError(f"{where}: ends at byte {at} inside a number; the file is cut short")
