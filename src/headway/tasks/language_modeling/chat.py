"""Conversations with a language model: which messages it reads, and where its replies end."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from torch import nn

from headway.errors import InputError
from headway.hub.kept_entries import CONFIG, GENERATION
from headway.text.chat import END, START, Message, check_messages, with_chat
from headway.text.chat.encode import encode_chat, encode_prompt
from headway.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from headway.tasks.language_modeling.pipeline import Generator

ROOM = 4
"""A part of the context, one in this many, is kept free for the reply, unless it is to be shorter."""


class Conversation:
    """A conversation as it goes on: ``say`` something and the reply comes piece by piece.

    ``messages`` is all that was said, dicts with "role" and "content"; of them the model reads as many as it has room
    for, the system message and the newest turns.  ``notice`` is told when it forgets the others.
    """

    def __init__(
        self,
        pipe: "Generator",
        system: str | None = None,
        notice: Callable[[str], None] | None = None,
        options: dict[str, Any] | None = None,
    ):
        """``options`` are those of all replies, as for ``Generator.stream``."""
        self.pipe, self.notice, self.options = pipe, notice, options or {}
        self._system: list[Message] = [] if system is None else [{"role": "system", "content": system}]
        chat_tokenizer(pipe.tokenizer)  # raises what is wrong with the model before anybody says a word
        self.reset()

    def reset(self) -> None:
        """Forget everything but the system message."""
        self.messages: list[Message] = list(self._system)
        self._read: list[Message] = list(self._system)

    def say(self, text: str, **options: Any) -> Iterator[str]:
        """The reply to a text; options as for ``Generator.stream``.  Raises InputError, and then nothing was said."""
        message = {"role": "user", "content": text}
        pieces, kept = self.pipe.reply_to([*self._read, message], **{**self.options, **options})
        forgotten = len(self._read) + 1 - len(kept)
        if forgotten and self.notice is not None:
            self.notice(forgetting(forgotten))
        self.messages.append(message)
        return self._reply(pieces, kept)

    def _reply(self, pieces: Iterator[str], kept: list[Message]) -> Iterator[str]:
        text = ""
        try:
            for piece in pieces:
                text += piece
                yield piece
        finally:  # what was said counts, should somebody break in
            reply = {"role": "assistant", "content": text}
            self.messages.append(reply)
            self._read = [*kept, reply]


def fit(tokenizer: Tokenizer, messages: list[Message], context: int, room: int) -> tuple[list[int], list[Message]]:
    """(ids, messages) of a conversation, without its oldest turns where it and a reply of ``room`` tokens are too long.

    Messages of the system stay, and so does what was said last.  Raises InputError when that alone leaves no room.
    """
    check_messages(messages)
    room = max(1, min(room, context // ROOM))
    kept = list(messages)
    while True:
        ids = encode_prompt(tokenizer, kept)
        if len(ids) + room <= context:
            return ids, kept
        shorter = _without_oldest_turn(kept)
        if shorter is None:
            if len(ids) < context:
                return ids, kept
            raise InputError(
                f"the message has {len(ids):,} tokens, with the system message; the model reads {context:,} and needs "
                "some of them for its reply: shorten the message."
            )
        kept = shorter


def forgetting(count: int) -> str:
    """The notice that messages are not read any more."""
    messages = "message is" if count == 1 else f"{count} messages are"
    return f"the conversation is longer than the model reads: the oldest {messages} forgotten"


def end_ids(model: nn.Module, tokenizer: Tokenizer) -> frozenset[int]:
    """The ids that end a text: what the model's files say, and the tokenizer's."""
    end = tokenizer.end_of_text
    return frozenset([*kept_ids(model, tokenizer, "eos_token_id"), *([] if end is None else [end])])


def kept_ids(model: nn.Module, tokenizer: Tokenizer, key: str) -> list[int]:
    """The ids that ``generation_config.json`` (or else ``config.json``) has for a role, such as "bos_token_id"."""
    kept: Any = getattr(model, "kept", {})
    ids = kept.get(GENERATION, {}).get(key, kept.get(CONFIG, {}).get(key))
    return [
        number
        for number in (ids if isinstance(ids, list) else [ids])
        if type(number) is int and 0 <= number < tokenizer.vocab_size
    ]


def end_of_turn(tokenizer: Tokenizer) -> frozenset[int]:
    """The id of the special token with which the template ends a reply, if it has one."""
    probe = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    try:
        ids, is_reply = encode_chat(tokenizer, probe)
    except InputError:
        return frozenset()
    last = [number for number, reply in zip(ids, is_reply, strict=True) if reply][-1:]
    return frozenset(last) & tokenizer.special_ids


def chat_tokenizer(tokenizer: Tokenizer) -> Tokenizer:
    """A tokenizer with a chat template: its own, or the usual one where it knows the two tokens of that.

    Raises InputError for a model that was not made for conversations.
    """
    if tokenizer.chat_template is not None:
        return tokenizer
    if not {START, END} <= set(tokenizer.tokens):
        raise InputError(
            "this model has no chat template, so it was not made for conversations; expected one in "
            "tokenizer_config.json or chat_template.jinja. It can continue a text."
        )
    return with_chat(tokenizer)


def _without_oldest_turn(messages: list[Message]) -> list[Message] | None:
    """Without the first message that is not the system's, and what follows it up to the next of the user."""
    said = [number for number, message in enumerate(messages) if message["role"] != "system"]
    users = [number for number in said[1:] if messages[number]["role"] == "user"]
    if not users:
        return None
    return [message for number, message in enumerate(messages) if message["role"] == "system" or number >= users[0]]
