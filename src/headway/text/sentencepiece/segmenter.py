"""Texts to SentencePiece pieces, by a model of the Rust library that assigns no ids of its own."""

import re
import secrets
from collections.abc import Mapping
from typing import Any

import tokenizers
from tokenizers import AddedToken, models

from headway.errors import InputError
from headway.text.rust_errors import guarded
from headway.text.sentencepiece.charsmap import Rules
from headway.text.sentencepiece.model_file import CHARSMAP, NORMAL, SPACE, UNIGRAM, USER_DEFINED, SentencePieceModel


class Normalizer:
    """Normalizes text as a model expects: rules applied, longest match first, and spaces written as U+2581."""

    def __init__(self, model: SentencePieceModel) -> None:
        self._model = model
        self._rules = Rules(model.charsmap, f"{model.path}: {CHARSMAP}") if model.charsmap else None
        whole = sorted(model.of_type.get(USER_DEFINED, []), key=len, reverse=True)
        self._whole = re.compile(f"({'|'.join(map(re.escape, whole)) or '(?!)'})")

    def __call__(self, text: str) -> str:
        if self._rules is not None:  # not for user-defined symbols, which are every other part
            parts = self._whole.split(text)
            text = "".join(part if number % 2 else self._rules(part) for number, part in enumerate(parts))
        if self._model.remove_extra_whitespaces:
            text = re.sub("  +", " ", text.strip(" "))
        if not text:
            return ""
        if self._model.add_dummy_prefix:
            text = " " + text
        if self._model.escape_whitespaces:
            text = text.replace(" ", SPACE)
        if self._model.remove_extra_whitespaces:
            text = text.rstrip(SPACE if self._model.escape_whitespaces else " ")
        return text


class Segmenter:
    """Text to pieces: best path (Unigram; Kudo, 2018) or merges (BPE; Sennrich et al., 2016).

    Control tokens are not pieces of text, so no text can spell one.  Text that no piece covers is returned as it is, a
    run of it as one piece, or with byte fallback as the pieces of its bytes.  Raises InputError.
    """

    def __init__(self, model: SentencePieceModel) -> None:
        self.model = model
        self._normalize = Normalizer(model)
        self._unknown = secrets.token_hex(8)  # a name that no text spells; it is never returned
        build = _unigram if model.type == UNIGRAM else _merging
        what = f"{model.path}: cannot be used"
        self._backend = tokenizers.Tokenizer(guarded(lambda: build(model, self._unknown), what))
        self._backend.add_tokens([AddedToken(text, normalized=False) for text in model.of_type.get(USER_DEFINED, [])])

    def __call__(self, texts: list[str]) -> list[list[str]]:
        ready = [self._normalize(text) for text in texts]
        encodings = self._backend.encode_batch(ready, add_special_tokens=False)
        unknown = self._backend.token_to_id(self._unknown)
        rows: list[list[str]] = []
        for text, encoding in zip(ready, encodings, strict=True):
            pieces = encoding.tokens
            if unknown in encoding.ids:
                pieces = []
                for token, number, (start, end) in zip(encoding.tokens, encoding.ids, encoding.offsets, strict=True):
                    pieces += self._spelled(text[start:end]) if number == unknown else [token]
            rows.append(pieces)
        return rows

    def __reduce__(self) -> tuple[Any, ...]:
        return Segmenter, (self.model,)

    def _spelled(self, text: str) -> list[str]:
        """The pieces of text that no piece covers."""
        return [f"<0x{byte:02X}>" for byte in text.encode()] if self.model.byte_fallback else [text]


def _unigram(model: SentencePieceModel, unknown: str) -> models.Unigram:
    vocabulary = [(piece.text, piece.score) for piece in model.pieces if piece.type == NORMAL]
    lowest = min(score for _, score in vocabulary)
    return models.Unigram([(unknown, lowest), *vocabulary], 0, False)


def _merging(model: SentencePieceModel, unknown: str) -> models.BPE:
    ranks = {piece.text: -piece.score for piece in model.pieces if piece.type == NORMAL}
    vocabulary = {text: number for number, text in enumerate([unknown, *ranks])}
    return models.BPE(vocabulary, merges(ranks), unk_token=unknown, fuse_unk=True)


def merges(ranks: Mapping[str, float]) -> list[tuple[str, str]]:
    """All pairs of tokens that form a third token, in the order of the rank of that token.

    SentencePiece stores tokens with scores, the Rust library pairs in order.  Where several pairs form the same token,
    the one with the shorter first part comes first.  Raises InputError for more merges than a real model has.
    """
    pairs: list[tuple[float, int, int, str, str]] = []
    for token, rank in ranks.items():
        for cut in range(1, len(token)):
            first, second = token[:cut], token[cut:]
            if first in ranks and second in ranks:
                pairs.append((rank, cut, len(token) - cut, first, second))
    if len(pairs) > 2**24:
        raise InputError(f"found {len(pairs)} merges, expected at most {2**24}")
    return [(first, second) for _, _, _, first, second in sorted(pairs)]
