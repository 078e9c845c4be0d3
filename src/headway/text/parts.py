"""Of which tokens of an older vocabulary the tokens of a grown one were made."""

from headway.text.backend import RustBackend
from headway.text.tokenizer import Tokenizer

CONTINUES = "##"
"""What WordPiece puts before a token inside a word."""


def made_of(old: Tokenizer, new: Tokenizer) -> dict[int, list[int]]:
    """By the id of each token that ``new`` has more than ``old``: the ids of the old tokens that spell it.

    Nothing spells a special token; and nothing a character that the old vocabulary lacks.
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
    """The longest old piece that fits, and again, as WordPiece reads a word; nothing where it cannot go on."""
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
