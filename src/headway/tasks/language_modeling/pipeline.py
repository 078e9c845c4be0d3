"""Continue a text."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from headway.errors import InputError
from headway.generation.decode import Steps
from headway.generation.sampling import Sampling, check_number
from headway.models.transformer import Decoder
from headway.runtime.runtime import Runtime
from headway.runtime.windows import frame
from headway.tasks.inputs import Prompt, text_list
from headway.tasks.language_modeling.chat import chat_tokenizer, end_ids, end_of_turn, fit, forgetting
from headway.tasks.language_modeling.spec import SPEC
from headway.tasks.task import TaskInputs
from headway.text.chat import Message
from headway.text.chat.encode import encode_prompt
from headway.text.stream_decoder import StopStrings, StreamDecoder
from headway.text.tokenizer import Tokenizer

BEGIN = "begin_tokens"
"""The entry of ``data`` in headway.json with the tokens before every document."""


class Generator:
    """A language model with its tokenizer: call it with a prompt, or ``stream`` it."""

    task = "language_modeling"

    def __init__(self, model: Decoder, tokenizer: Tokenizer, begin: Sequence[int] = ()):
        """``begin``: what no prompt stands for, where the tokenizer puts nothing before a text."""
        self.model, self.tokenizer, self.runtime = model, tokenizer, Runtime(model)
        self.begin = frame(tokenizer)[0] or list(begin)
        self.ends = end_ids(model, tokenizer)

    def __call__(self, prompt: str | Iterable[str], **options: Any) -> Any:
        """The continuation of a prompt, or of each of a list, without the prompt itself; options as for ``stream``."""
        prompts, alone = text_list(prompt, "prompt")
        results = [""] * len(prompts)
        if prompts:
            for row, piece in self._pieces(prompts, **options):
                results[row] += piece
        return results[0] if alone else results

    def stream(self, prompt: str, **options: Any) -> Iterator[str]:
        """The continuation piece by piece; joined, the pieces equal the call's result.

        ``max_tokens`` 100, ``temperature`` 0.8 (0: greedy), ``top_k`` 0, ``top_p`` 1.0, ``min_p`` 0.0,
        ``repetition_penalty`` 1.0, ``stop`` [] (strings that end the text and are not part of it), ``seed`` None.
        Raises InputError for a value that means nothing, and for characters the model has never seen.
        """
        return (piece for _, piece in self._pieces([prompt], **options) if piece)

    def chat(self, messages: list[Message], **options: Any) -> str:
        """The reply to a conversation: dicts with "role" (system, user, assistant) and "content", the user's last.

        The model's chat template formats the conversation; the reply ends where the template ends a turn.  Options as
        for ``stream``.  Of a conversation that is too long, the oldest turns are left out, with a warning; never the
        system message.  Raises InputError for a model without a template, and for what is no conversation.
        """
        return "".join(self._reply(messages, options))

    def stream_chat(self, messages: list[Message], **options: Any) -> Iterator[str]:
        """The reply piece by piece; joined, the pieces equal ``chat``."""
        return self._reply(messages, options)

    def prompt(self, text: str) -> Prompt:
        """A text to continue, all of it.  Raises InputError for a character that the model has never seen."""
        return self.prompt_of_ids(self._ids(text))

    def prompt_of_ids(self, ids: list[int]) -> Prompt:
        """Ids to continue; no ids stand for the beginning of a text."""
        return self._prompt(ids or self._start(), self.tokenizer, self.ends)

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
        pieces = self._continue([prompt], max_tokens=min(max_tokens, context - len(ids)), **options)
        return (piece for _, piece in pieces if piece), kept

    def _reply(self, messages: list[Message], options: dict[str, Any]) -> Iterator[str]:
        pieces, kept = self.reply_to(messages, **options)
        if len(kept) < len(messages):
            warnings.warn(forgetting(len(messages) - len(kept)), stacklevel=3)
        return pieces

    def _pieces(self, prompts: Sequence[str], **options: Any) -> Iterator[tuple[int, str]]:
        """Check everything now; give pairs (row, piece of its text) as they come."""
        return self._continue([self.checked_prompt(prompt) for prompt in prompts], **options)

    def _continue(
        self,
        prompts: Sequence[Prompt],
        *,
        max_tokens: int = 100,
        temperature: float = 0.8,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        stop: Sequence[str] | str = (),
        seed: int | None = None,
        **unknown: Any,
    ) -> Iterator[tuple[int, str]]:
        """Check everything now; give pairs (row, piece of its text) as they come."""
        for name in unknown:
            known: dict[str, Any] = Generator._continue.__kwdefaults__ or {}
            close = get_close_matches(name, known, n=1)
            meant = f"did you mean {close[0]}?" if close else f"the options are {', '.join(known)}."
            raise InputError(f"unknown option of a language model: {name}; {meant}")
        check_number("max_tokens", max_tokens, 1, 1 << 31, "a whole number, 1 or more", whole=True)
        if seed is not None:
            check_number("seed", seed, 0, (1 << 63) - 1, "a whole number from 0 to 2 to the power of 63", whole=True)
        sampling = Sampling(temperature, top_k, top_p, min_p, repetition_penalty)
        stops = [StopStrings(stop) for _ in prompts]
        steps = self.runtime.write(
            [prompt.ids for prompt in prompts],
            sampling,
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

    def _ids(self, prompt: str) -> list[int]:
        if not isinstance(prompt, str):
            raise InputError(f"the prompt is {type(prompt).__name__}; it must be a text, or a list of texts.")
        ids = self.tokenizer.encode(prompt, special=True)
        if self.tokenizer.kind == "char" and self.tokenizer.unknown in ids:
            known = set(self.tokenizer.tokens)
            strange = next((c for c in prompt if c not in known), prompt[:1])
            raise InputError(
                f"the prompt has {strange!r}, a character that this model has never seen; "
                "leave it out, or train with --tokenizer bpe, which knows every character."
            )
        return ids

    def _start(self) -> list[int]:
        """What no ids stand for: the beginning of a text."""
        if self.begin:
            return self.begin
        if self.tokenizer.end_of_text is not None:
            return [self.tokenizer.end_of_text]
        return self.tokenizer.encode("\n") or [0]


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


def inputs_as_recorded(given: TaskInputs) -> TaskInputs:
    """The inputs of a language model, whose tokenizers read documents as their runs did (``as_recorded``)."""
    base, tokenizer = given.base, given.tokenizer
    if base is not None:
        base = replace(base, processor=as_recorded(base.tokenizer, base.facts))
    return replace(given, base=base, tokenizer=tokenizer and as_recorded(tokenizer, given.earlier))
