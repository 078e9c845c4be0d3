"""Continue a text, and reply in conversations."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from torch import nn

from headway.data.records.dialogues import without_oldest_turn
from headway.errors import InputError
from headway.generation.decode import Steps
from headway.generation.sampling import Sampling, check_number
from headway.hub.kept_entries import CONFIG, GENERATION
from headway.models.transformer import Decoder
from headway.runtime.runtime import Runtime
from headway.runtime.windows import frame
from headway.tasks.frames import FrameAnswers
from headway.tasks.inputs import Prompt, text_list
from headway.tasks.language_modeling.spec import SPEC
from headway.text.chat import END, START, Message, check_messages, encode_chat, encode_prompt, with_chat
from headway.text.stream_decoder import StopStrings, StreamDecoder
from headway.text.tokenizer import Tokenizer

BEGIN = "begin_tokens"
"""The entry of ``data`` in headway.json with the tokens before every document."""
ROOM = 4
"""A part of the context, one in this many, is kept free for the reply, unless it is to be shorter."""


class Generator(FrameAnswers):
    """A language model with its tokenizer: call it with a prompt, or ``stream`` it."""

    task = "language_modeling"

    def __init__(self, model: Decoder, tokenizer: Tokenizer, begin: Sequence[int] = ()):
        """``begin``: what no prompt stands for, where the tokenizer puts nothing before a text."""
        self.model, self.tokenizer, self.runtime = model, tokenizer, Runtime(model)
        self.begin = frame(tokenizer)[0] or list(begin)
        end = tokenizer.end_of_text
        self.ends = frozenset([*kept_ids(model, tokenizer, "eos_token_id"), *([] if end is None else [end])])

    def __call__(self, prompt: str | Iterable[str], **options: Any) -> Any:
        """The continuation of a prompt, or of each of a list, without the prompt itself; options as for ``stream``."""
        prompts, alone = text_list(prompt, "prompt")
        results = [""] * len(prompts)
        if prompts:
            for row, piece in self.continued([self.checked_prompt(one) for one in prompts], **options):
                results[row] += piece
        return results[0] if alone else results

    def stream(self, prompt: str, **options: Any) -> Iterator[str]:
        """The continuation piece by piece; joined, the pieces equal the call's result.

        ``max_tokens`` 100, ``temperature`` 0.8 (0: greedy), ``top_k`` 0, ``top_p`` 1.0, ``min_p`` 0.0,
        ``repetition_penalty`` 1.0, ``stop`` [] (strings that end the text and are not part of it), ``seed`` None.
        Raises InputError for a value that means nothing, and for characters the model has never seen.
        """
        return (piece for _, piece in self.continued([self.checked_prompt(prompt)], **options) if piece)

    def chat(self, messages: list[Message], **options: Any) -> str:
        """The reply to a conversation: dicts with "role" (system, user, assistant) and "content", the user's last.

        The model's chat template formats the conversation; the reply ends where the template ends a turn.  Options as
        for ``stream``.  Of a conversation that is too long, the oldest turns are left out, with a warning; never the
        system message.  Raises InputError for a model without a template, and for what is no conversation.
        """
        return "".join(self.stream_chat(messages, **options))

    def stream_chat(self, messages: list[Message], **options: Any) -> Iterator[str]:
        """The reply piece by piece; joined, the pieces equal ``chat``."""
        pieces, kept = self.reply_to(messages, **options)
        if len(kept) < len(messages):
            warnings.warn(forgetting(len(messages) - len(kept)), stacklevel=3)
        return pieces

    def prompt(self, text: str) -> Prompt:
        """A text to continue, all of it.  Raises InputError for a character that the model has never seen."""
        if not isinstance(text, str):
            raise InputError(f"the prompt is {type(text).__name__}; it must be a text, or a list of texts.")
        ids = self.tokenizer.encode(text, special=True)
        if self.tokenizer.kind == "char" and self.tokenizer.unknown in ids:
            known = set(self.tokenizer.tokens)
            strange = next((c for c in text if c not in known), text[:1])
            raise InputError(
                f"the prompt has {strange!r}, a character that this model has never seen; "
                "leave it out, or train with --tokenizer bpe, which knows every character."
            )
        return self.prompt_of_ids(ids)

    def prompt_of_ids(self, ids: list[int]) -> Prompt:
        """Ids to continue; no ids stand for the beginning of a text."""
        end = self.tokenizer.end_of_text
        ids = ids or self.begin or ([] if end is None else [end]) or self.tokenizer.encode("\n") or [0]
        return self._prompt(ids, self.tokenizer, self.ends)

    def prompt_of_chat(self, messages: list[Message]) -> Prompt:
        """A conversation up to the next reply, all of it, however long.

        Raises InputError for a model without a chat template, and for what is no conversation.
        """
        tokenizer, ends = self._chat
        return self._prompt(encode_prompt(tokenizer, messages), tokenizer, ends)

    def _prompt(self, ids: list[int], tokenizer: Tokenizer, ends: frozenset[int]) -> Prompt:
        return Prompt(ids, ends, tokenizer, self.model.config.vocab_size)

    @cached_property
    def _chat(self) -> tuple[Tokenizer, frozenset[int]]:
        """The tokenizer with the chat template, and what ends a reply."""
        tokenizer = chat_tokenizer(self.tokenizer)
        return tokenizer, self.ends | end_of_turn(tokenizer)

    def reply_to(
        self, messages: list[Message], *, max_tokens: int = 100, **options: Any
    ) -> tuple[Iterator[str], list[Message]]:
        """(the pieces of the reply, the messages that are read for it)."""
        check_number("max_tokens", max_tokens, 1, 1 << 31, "a whole number, 1 or more", whole=True)
        if isinstance(messages, list) and not messages:
            raise InputError("messages: an empty list; expected at least one message, the user's, to reply to")
        (tokenizer, ends), context = self._chat, self.model.config.max_length
        ids, kept = fit(tokenizer, messages, context, max_tokens)
        prompt = self._prompt(ids, tokenizer, ends)
        pieces = self.continued([prompt], max_tokens=min(max_tokens, context - len(ids)), **options)
        return (piece for _, piece in pieces if piece), kept

    def continued(
        self,
        prompts: Sequence[Prompt],
        *,
        max_tokens: int = 100,
        stop: Sequence[str] | str = (),
        seed: int | None = None,
        **sampling: Any,
    ) -> Iterator[tuple[int, str]]:
        """Check everything now; give pairs (row, piece of its text) as they come.

        ``sampling`` are the fields of ``Sampling``.
        """
        known = ["max_tokens", *(option.name for option in fields(Sampling)), "stop", "seed"]
        if unknown := [name for name in sampling if name not in known]:
            close = get_close_matches(unknown[0], known, n=1)
            meant = f"did you mean {close[0]}?" if close else f"the options are {', '.join(known)}."
            raise InputError(f"unknown option of a language model: {unknown[0]}; {meant}")
        check_number("max_tokens", max_tokens, 1, 1 << 31, "a whole number, 1 or more", whole=True)
        if seed is not None:
            check_number("seed", seed, 0, (1 << 63) - 1, "a whole number from 0 to 2 to the power of 63", whole=True)
        stops = [StopStrings(stop) for _ in prompts]
        steps = self.runtime.write(
            [prompt.ids for prompt in prompts],
            Sampling(**sampling),
            max_tokens=max_tokens,
            end=prompts[0].ends,
            forbidden=prompts[0].forbidden,
            seed=seed,
        )
        return _pieces_of(steps, [prompt.text for prompt in prompts], stops)

    def checked_prompt(self, text: str) -> Prompt:
        """``prompt``, with a warning where only the last part is read, and where the tokenizer ends the text."""
        prompt, context = self.prompt(text), self.model.config.max_length
        if (count := len(prompt.ids)) > context:
            warnings.warn(
                f"the prompt has {count:,} tokens and the model reads {context:,}: the last {context:,} are read",
                stacklevel=4,
            )
        if end := frame(self.tokenizer)[1]:
            name = self.tokenizer.tokens[end[0]]
            warnings.warn(f"the tokenizer ends every text with {name}: the model continues after it", stacklevel=4)
        return prompt


class Conversation:
    """A conversation as it goes on: ``say`` something and the reply comes piece by piece.

    ``messages`` is all that was said, dicts with "role" and "content"; of them the model reads as many as it has room
    for, the system message and the newest turns.  ``notice`` is told when it forgets the others.
    """

    def __init__(
        self,
        pipe: Generator,
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


def _pieces_of(steps: Steps, texts: Sequence[StreamDecoder], stops: Sequence[StopStrings]) -> Iterator[tuple[int, str]]:
    """Tokens by row turned into text by row, until each row ends or meets a stop string."""
    finished: set[int] = set()
    try:
        step = next(steps)
        while True:
            stopped: set[int] = set()
            for row, token in step.items():
                piece, over = stops[row].push(texts[row].push(token))
                yield row, piece
                if over:
                    stopped.add(row)
            finished |= stopped
            step = steps.send(stopped)
    except StopIteration:
        pass
    for row in range(len(texts)):
        if row not in finished:
            piece, over = stops[row].push(texts[row].finish())
            yield row, piece if over else piece + stops[row].finish()


def fit(tokenizer: Tokenizer, messages: list[Message], context: int, room: int) -> tuple[list[int], list[Message]]:
    """(ids, messages) of a conversation, without its oldest turns where it and a reply of ``room`` tokens are too long.

    Messages of the system stay, and so does what was said last.  Raises InputError when that alone leaves no room.
    """
    check_messages(messages)
    room = max(1, min(room, context // ROOM))
    kept = list(messages)
    ids = encode_prompt(tokenizer, kept)
    while len(ids) + room > context and (shorter := without_oldest_turn(kept)) is not None:
        kept = shorter
        ids = encode_prompt(tokenizer, kept)
    if len(ids) >= context:
        raise InputError(
            f"the message has {len(ids):,} tokens, with the system message; the model reads {context:,} and needs "
            "some of them for its reply: shorten the message."
        )
    return ids, kept


def forgetting(count: int) -> str:
    """The notice that messages are not read any more."""
    messages = "message is" if count == 1 else f"{count} messages are"
    return f"the conversation is longer than the model reads: the oldest {messages} forgotten"


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


def begin_tokens(tokenizer: Tokenizer) -> dict[str, list[str]]:
    """What headway.json says of how documents begin."""
    return {BEGIN: [tokenizer.tokens[number] for number in frame(tokenizer)[0]]}


def as_recorded(tokenizer: Tokenizer, facts: dict[str, Any] | None) -> Tokenizer:
    """The tokenizer of a model as it read the documents that it was trained on.

    ``facts`` are those of its run.  A run that does not record how documents begin put nothing around them, whatever
    its tokenizer says; a model from elsewhere follows its tokenizer.
    """
    known = facts or {}
    unrecorded = known.get("task") == SPEC.name and BEGIN not in known.get("data", {})
    if not unrecorded or not any(frame(tokenizer)):
        return tokenizer
    return tokenizer.without_frame()
