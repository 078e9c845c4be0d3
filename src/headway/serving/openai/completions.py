"""``POST /v1/completions``: texts that are continued."""

import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from headway.generation.sampling import Likely
from headway.runtime.batcher import PIECE, prompt_scores
from headway.runtime.windows import frame
from headway.serving.body import BOOLEAN, OPEN, STRING, Schema, array, integer, optional, read_body, record
from headway.serving.generation import Generation, answered, check_fits
from headway.serving.models import Served
from headway.serving.openai.fields import SAMPLING, check_count, generation_options, unread, unsupported
from headway.serving.responses import PING, answer, event, event_stream, in_thread, invalid, unless_gone
from headway.serving.state import USED, State
from headway.serving.text_stream import Delta, told
from headway.tasks.inputs import Prompt

ID = integer(0, 1 << 31)
MOST_PROMPTS = 64
MAX_TOKENS = 16
"""OpenAI's default."""
PROMPT = {"anyOf": [STRING, array(STRING, 1, MOST_PROMPTS), array(ID, 1), array(array(ID, 1), 1, MOST_PROMPTS)]}
SCHEMA = OPEN | record(
    "model",
    "prompt",
    model=STRING,
    prompt=PROMPT,
    max_tokens=optional(integer(0, 1 << 31), MAX_TOKENS),
    logprobs=optional(integer(0, 5)),
    echo=optional(BOOLEAN, False),
    best_of=optional(integer(1, 8)),
    **SAMPLING,
)


async def completions(request: Any, state: State) -> Any:
    """Continue the prompts of a request."""
    body, served = await read_request(request, state, SCHEMA)
    if body["best_of"] is not None and body["best_of"] > body["n"]:
        raise invalid("best_of above n is not supported", "best_of", "unsupported_parameter")
    if body["max_tokens"] == 0 and not body["echo"]:
        raise invalid("max_tokens 0 goes with echo: true", "max_tokens")
    given = body["prompt"]
    given = [given] if isinstance(given, str) or isinstance(given[0], int) else given
    check_count(body["n"], len(given))
    with served.places.held(body["n"] * len(given)):
        prompts = await unless_gone(request, in_thread(_prompts, served, given))
    most = check_fits(served, prompts, body["max_tokens"], "prompt")
    how = generation_options(body, served, most, body["logprobs"])
    generation = Generation(served, prompts, how, state, n=body["n"])
    echoes = [Delta()] * len(given)
    if body["echo"]:
        pairs = zip(given, prompts, strict=True)
        echoes = [await unless_gone(request, _echo(served, *pair, body["logprobs"], state)) for pair in pairs]
    echoes = [echo for echo in echoes for _ in range(body["n"])]
    return await Reply(body, generation, unread(body, SCHEMA), echoes).response(request, state)


async def _echo(served: Served, given: str | list[int], prompt: Prompt, likely: int | None, state: State) -> Delta:
    """A prompt as the beginning of its answer, with what is told of its tokens.

    What the tokenizer puts around a text is read by the model, and not told.
    """
    text = given if isinstance(given, str) else prompt.tokenizer.decode(given)
    if likely is None:
        return Delta(text)
    pieces = prompt_scores(served.pipe.model, prompt.ids, likely)
    work = [None] * len(range(0, len(prompt.ids) - 1, PIECE))
    found = await answered(served, lambda _: next(pieces), work, len(prompt.ids), state, "prompt") if work else []
    scores: list[Likely | None] = [None, *(one for piece in found for one in piece)]
    ends = frame(prompt.tokenizer) if isinstance(given, str) else ([], [])
    own = slice(len(ends[0]), len(prompt.ids) - len(ends[1]) if given else 0)
    decoder, tokens = prompt.tokenizer.stream(), []
    for number, score in zip(prompt.ids[own], scores[own], strict=True):
        tokens.append(told(decoder, number, score))
        decoder.push(number)
    return Delta(text, tokens)


async def read_request(request: Any, state: State, schema: Schema) -> tuple[dict[str, Any], Served]:
    """The body of a request for texts, and the model that continues them.  Raises RequestError."""
    body = await read_body(request, schema, strict=state.settings.strict)
    served = state.find(request, body["model"])
    if not served.writes:
        raise invalid(f"{served.name} continues no texts: use /{served.verb}", "model")
    if body["stream_options"] is not None and not body["stream"]:
        raise invalid("stream_options goes with stream: true", "stream_options")
    unsupported(body)
    return body, served


def _prompts(served: Served, given: list[Any]) -> list[Prompt]:
    rows = served.pipe.model.config.vocab_size
    found = []
    for one in given:
        if isinstance(one, str):
            found.append(served.pipe.prompt(one))
        elif strange := [number for number in one if number >= rows]:
            raise invalid(f"prompt: {strange[0]} is no id of a token; ids are 0 to {rows - 1:,}", "prompt")
        else:
            found.append(served.pipe.prompt_of_ids(one))
    return found


def _spelling(text: str, spelt: list[int]) -> str:
    """A token as OpenAI writes it: as text, or as bytes where it is a part of a character."""
    return text if text.encode() == bytes(spelt) else "bytes:" + "".join(f"\\x{byte:02x}" for byte in spelt)


class Reply:
    """The answer to one request, whole or as events."""

    id_prefix, whole_object, event_object = "cmpl", "text_completion", "text_completion"

    def __init__(self, body: dict[str, Any], generation: Generation, warnings: list[str], echoes: Sequence[Delta] = ()):
        self.body, self.generation, self.echoes = body, generation, echoes
        self.offsets = [0 if echo.tokens else len(echo.text) for echo in echoes]
        self.head = {
            **{"id": f"{self.id_prefix}-{uuid.uuid4().hex}", "object": self.event_object},
            **{"created": int(time.time()), "model": generation.served.name},
            **({"warnings": warnings} if warnings else {}),
        }

    async def response(self, request: Any, state: State) -> Any:
        """The response: the whole, or a stream of events.

        That begins when the first token is there, so that a refusal still has its status.
        """
        request.scope[USED]["usage"] = self.generation.usage
        if not self.body["stream"]:
            return answer(await unless_gone(request, self._whole()))
        generation = await self.generation.__aenter__()
        try:
            await unless_gone(request, generation.started())
        except BaseException:
            await generation.__aexit__()
            raise
        return event_stream(request, self._events(), generation.__aexit__, state.settings.write_seconds)

    async def _whole(self) -> dict[str, Any]:
        choices = [self.whole_choice(number, text) for number, text in enumerate(await self.generation.whole())]
        about = {**self.head, "object": self.whole_object, "system_fingerprint": None}
        return {**about, "choices": choices, "usage": self.generation.usage()}

    async def _events(self) -> AsyncIterator[bytes]:
        with_usage = (self.body["stream_options"] or {}).get("include_usage")
        more: dict[str, Any] = {"usage": None} if with_usage else {}
        for number in range(len(self.generation.texts)):
            if (choice := self.first_choice(number)) is not None:
                yield event({**self.head, "choices": [choice], **more})
        async for pair in self.generation:
            if pair is None:
                yield PING
                continue
            for choice in self.choices(*pair):
                yield event({**self.head, "choices": [choice], **more})
        if with_usage:
            yield event({**self.head, "choices": [], "usage": self.generation.usage()})

    def whole_choice(self, number: int, text: Delta) -> dict[str, Any]:
        """A text from its beginning to its end."""
        echo = self.echoes[number]
        return self._choice(number, Delta(echo.text + text.text, echo.tokens + text.tokens, finish=text.finish))

    def first_choice(self, number: int) -> dict[str, Any] | None:
        """What is told of a text before its first piece, if anything."""
        return self._choice(number, self.echoes[number]) if self.echoes[number].text else None

    def choices(self, number: int, delta: Delta) -> Iterator[dict[str, Any]]:
        """What is told of a piece of a text."""
        if delta.text or delta.finish is not None:
            yield self._choice(number, delta)

    def _choice(self, number: int, delta: Delta) -> dict[str, Any]:
        logprobs = None
        if self.body["logprobs"] is not None:
            offsets = []
            for token in delta.tokens:
                offsets.append(self.offsets[number])
                self.offsets[number] += sum(byte & 0xC0 != 0x80 for byte in token.bytes)  # characters that begin
            logprobs = {
                "tokens": [_spelling(token.text, token.bytes) for token in delta.tokens],
                "token_logprobs": [token.log_probability for token in delta.tokens],
                "top_logprobs": [
                    None
                    if token.log_probability is None
                    else {_spelling(text, spelt): value for text, spelt, value in reversed(token.others)}
                    for token in delta.tokens
                ],
                "text_offset": offsets,
            }
        return {"index": number, "text": delta.text, "logprobs": logprobs, "finish_reason": delta.finish}
