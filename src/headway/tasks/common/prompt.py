"""What a model is asked to continue: the same for the command line, which waits, and for a server, which does not."""

from collections.abc import Collection
from dataclasses import dataclass

from headway.errors import InputError
from headway.text.stream_decoder import StreamDecoder
from headway.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Prompt:
    """Ids that a model continues, and how ids become text again."""

    ids: list[int]
    ends: frozenset[int]
    """the ids that end the continuation"""
    tokenizer: Tokenizer
    rows: int
    """of the model's table"""

    def __post_init__(self) -> None:
        if not self.ids:
            raise InputError("there is nothing to continue: the prompt has no tokens.")

    @property
    def forbidden(self) -> list[int]:
        """The ids that may not be chosen."""
        return forbidden_ids(self.tokenizer, self.rows, self.ends)

    @property
    def text(self) -> StreamDecoder:
        """A decoder for the ids that continue it."""
        return self.tokenizer.stream(self.ids)


def forbidden_ids(tokenizer: Tokenizer, rows: int, ends: Collection[int]) -> list[int]:
    """The ids below ``rows`` that no text may have: special tokens that do not end it, and ids without a token."""
    return sorted((tokenizer.special_ids | tokenizer.without_token(rows)).difference(ends))
