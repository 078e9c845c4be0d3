"""The old tokens from which the tokens of an extended vocabulary were merged."""

from headway.text.backend import RustBackend
from headway.text.tokenizer import Tokenizer

CONTINUES = "##"
"""WordPiece's prefix of a token that continues a word."""


def merged_from(old: Tokenizer, new: Tokenizer) -> dict[int, list[int]]:
    """For the id of each token that only ``new`` has: the ids of the old tokens that spell it.

    The list is empty for a special token, and for a character that the old vocabulary lacks.
    """
    added = range(old.vocab_size, new.vocab_size)
    return {number: [] if number in new.special_ids else _parts(old, new.tokens[number]) for number in added}


def _parts(old: Tokenizer, token: str) -> list[int]:
    backend = old.backend
    if not isinstance(backend, RustBackend) or not token:
        return []
    if old.kind == "wordpiece":
        return _pieces(backend.vocabulary, token)
    return [part.id for part in backend.tokenizer.model.tokenize(token) if part.id != old.unknown]


def _pieces(vocabulary: dict[str, int], token: str) -> list[int]:
    """The longest matching old piece, repeatedly, as WordPiece splits a word; empty where no piece matches."""
    inside = token.startswith(CONTINUES)
    rest, found = token.removeprefix(CONTINUES), []
    while rest:
        prefix = CONTINUES if inside else ""
        length = next((n for n in range(len(rest), 0, -1) if prefix + rest[:n] in vocabulary), 0)
        if not length:
            return []
        found.append(vocabulary[prefix + rest[:length]])
        rest, inside = rest[length:], True
    return found
