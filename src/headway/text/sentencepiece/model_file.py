"""SentencePiece model files: pieces with scores, and the normalization of text for them (Kudo & Richardson, 2018)."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.text.safe.expansion import check_charsmap
from headway.text.safe.tokenizer_json import MAX_IDS
from headway.text.safe.vocabulary_files import read_bytes
from headway.text.sentencepiece.protobuf import BYTES, FIXED32, VARINT, fields, float32

UNIGRAM, BPE = 1, 2
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

SPACE = "\u2581"
"""How pieces write a space."""

LONGEST_PIECE = 512
"""Limit of characters in a piece; trainers stop at 16, and user-defined symbols are words."""


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
    data: bytes = field(default=b"", repr=False)

    @property
    def of_type(self) -> dict[int, list[str]]:
        """The texts of the pieces of each type."""
        found: dict[int, list[str]] = {}
        for piece in self.pieces:
            found.setdefault(piece.type, []).append(piece.text)
        return found


_TRAINER = {3: "type", 24: "suffix", 35: "byte_fallback"}
_NORMALIZER = {2: "charsmap", 3: "add_dummy_prefix", 4: "remove_extra_whitespaces", 5: "escape_whitespaces"}
_TYPES = {UNIGRAM: "unigram", BPE: "bpe", 3: "word", 4: "char"}


def read_model(path: Path) -> SentencePieceModel:
    """Read a model file.  Raises InputError naming the field, what was found and what was expected."""
    data = read_bytes(path, "a SentencePiece model")
    pieces: list[Piece] = []
    found: dict[str, Any] = {}
    for number, kind, value, end in fields(data, 0, len(data), str(path)):
        if number in (1, 2, 3) and kind != BYTES:
            raise InputError(
                f"{path}: kind of field {number}: found {kind}, expected {BYTES}; it is no SentencePiece model"
            )
        if number == 1:
            pieces.append(_piece(data, value, end, f"{path}: piece {len(pieces)}"))
            if len(pieces) > MAX_IDS:
                raise InputError(f"{path}: found more than {MAX_IDS} pieces, expected at most that many")
        elif number == 2:
            found |= _settings(data, value, end, _TRAINER, f"{path}: trainer_spec")
        elif number == 3:
            found |= _settings(data, value, end, _NORMALIZER, f"{path}: normalizer_spec")
    if found.pop("suffix", 0):
        raise InputError(f"{path}: treat_whitespace_as_suffix: found true, expected false; others are not supported")
    model_type = found.get("type", UNIGRAM)
    if model_type not in (UNIGRAM, BPE):
        raise InputError(f"{path}: model_type: found {_TYPES.get(model_type, model_type)}, expected unigram or bpe")
    found |= {name: bool(found[name]) for name in found if name not in ("type", "charsmap")}
    check_charsmap(found.get("charsmap", b""), f"{path}: normalizer_spec.precompiled_charsmap")
    unknown = _check_pieces(pieces, bool(found.get("byte_fallback")), path)
    return SentencePieceModel(path, tuple(pieces), unknown=unknown, data=data, **found)


def _piece(data: bytes, start: int, stop: int, where: str) -> Piece:
    text, score, type_ = "", 0.0, NORMAL
    for number, kind, value, end in fields(data, start, stop, where):
        if number == 1 and kind == BYTES:
            if end - value > 4 * LONGEST_PIECE:
                raise InputError(f"{where}: found {end - value} bytes, expected at most {4 * LONGEST_PIECE}")
            try:
                text = data[value:end].decode("utf-8")
            except UnicodeDecodeError:
                raise InputError(f"{where}: found {data[value:end][:30]!r}, expected UTF-8") from None
        elif number == 2 and kind == FIXED32:
            score = float32(data, value)
        elif number == 3 and kind == VARINT:
            type_ = value
        elif number in (1, 2, 3):
            raise InputError(f"{where}: kind of field {number}: found {kind}, expected a piece with its score and type")
    if not text:
        raise InputError(f"{where}: found no text, expected at least one character")
    if not math.isfinite(score):
        raise InputError(f"{where} ({text[:30]!r}): score: found {score}, expected a finite number")
    if not NORMAL <= type_ <= BYTE:
        raise InputError(f"{where} ({text[:30]!r}): type: found {type_}, expected {NORMAL} to {BYTE}")
    return Piece(text, score, type_)


def _settings(data: bytes, start: int, stop: int, names: dict[int, str], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, kind, value, end in fields(data, start, stop, where):
        name = names.get(number)
        if name is None:
            continue
        if kind != (BYTES if name == "charsmap" else VARINT):
            raise InputError(f"{where}.{name}: found a field of kind {kind}, expected another")
        found[name] = data[value:end] if name == "charsmap" else value
    return found


def _check_pieces(pieces: list[Piece], byte_fallback: bool, path: Path) -> int:
    """The index of the piece for unknown characters; there must be exactly one."""
    if not pieces:
        raise InputError(f"{path}: found no pieces, expected a SentencePiece model; the file may be another kind")
    owner: dict[str, int] = {}
    for number, piece in enumerate(pieces):
        if owner.setdefault(piece.text, number) != number:
            raise InputError(
                f"{path}: piece {number}: found {piece.text[:30]!r}, which is piece {owner[piece.text]}, "
                "expected it once"
            )
    unknown = [number for number, piece in enumerate(pieces) if piece.type == UNKNOWN]
    if len(unknown) != 1:
        raise InputError(f"{path}: found {len(unknown)} unknown pieces, expected one")
    if not any(piece.type == NORMAL for piece in pieces):
        raise InputError(f"{path}: found no piece of text, expected at least one")
    if byte_fallback:
        missing = [f"<0x{byte:02X}>" for byte in range(256) if f"<0x{byte:02X}>" not in owner]
        if missing:
            raise InputError(f"{path}: byte_fallback: found no piece {missing[0]}, expected one for each byte")
    return unknown[0]
