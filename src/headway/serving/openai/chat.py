"""``POST /v1/chat/completions``: replies to conversations."""

import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

from headway.serving.body import BOOLEAN, OPEN, STRING, array, integer, one_of, optional, record, string
from headway.serving.capture_warnings import capture_warnings
from headway.serving.generation import Generation, check_fits
from headway.serving.models import Served
from headway.serving.openai.completions import read_request, reply
from headway.serving.openai.fields import SAMPLING, check_count, generation_options, unread
from headway.serving.responses import PING, event, in_thread, invalid, unless_gone
from headway.serving.state import State
from headway.serving.text_stream import Token
from headway.tasks.inputs import Prompt
from headway.text.chat.template import MEANT

PART = record(type=one_of("text"), text=STRING)
MESSAGE = record(
    "role",
    "content",
    role=one_of("system", "developer", "user", "assistant"),
    content={"anyOf": [STRING, array(PART, 1, 64)]},
    name=optional(string(most=64)),
)
SCHEMA = OPEN | record(
    "model",
    "messages",
    model=STRING,
    messages=array(MESSAGE, 1, 256),
    max_tokens=optional(integer(1, 1 << 31)),
    max_completion_tokens=optional(integer(1, 1 << 31)),
    logprobs=optional(BOOLEAN, False),
    top_logprobs=optional(integer(0, 20)),
    **SAMPLING,
)


async def chat(request: Any, state: State) -> Any:
    """Reply to the conversation of a request."""
    body, served = await read_request(request, state, SCHEMA)
    if body["top_logprobs"] is not None and not body["logprobs"]:
        raise invalid("top_logprobs goes with logprobs: true", "top_logprobs")
    check_count(body["n"], 1)
    messages = [_message(one) for one in body["messages"]]
    with served.places.held(body["n"]):
        prompt, said = await unless_gone(request, in_thread(_prompt, served, messages))
    asked = body["max_completion_tokens"] if body["max_completion_tokens"] is not None else body["max_tokens"]
    likely = (body["top_logprobs"] or 0) if body["logprobs"] else None
    how = generation_options(body, served, check_fits(served, [prompt], asked, "messages"), likely)
    generation = Generation(served, [prompt], how, state, n=body["n"])
    return await reply(request, _Reply(served, body, generation, [*said, *unread(body, SCHEMA)]), state)


def _message(given: dict[str, Any]) -> dict[str, Any]:
    """A message as chat templates know it."""
    content = given["content"]
    text = content if isinstance(content, str) else "".join(part["text"] for part in content)
    meant = {key: given[key] for key in (*MEANT, "name") if given.get(key)}  # what the template reads or refuses
    return {**meant, "role": "system" if given["role"] == "developer" else given["role"], "content": text}


def _prompt(served: Served, messages: list[dict[str, Any]]) -> tuple[Prompt, list[str]]:
    """A conversation for the model, and warnings of what its template does not read.  Raises InputError."""
    with capture_warnings() as said:
        prompt = served.pipe.prompt_of_chat(messages)
    nameless = [{key: one[key] for key in one if key != "name"} for one in messages]
    if nameless != messages and served.pipe.prompt_of_chat(nameless).ids == prompt.ids:
        said.append("messages: the chat template of this model reads no name of a message")
    return prompt, said


class _Reply:
    """The answer to one request, whole or as events."""

    def __init__(self, served: Served, body: dict[str, Any], generation: Generation, said: list[str]):
        self.body, self.generation, self.said = body, generation, said
        self.id, self.created, self.name = f"chatcmpl-{uuid.uuid4().hex}", int(time.time()), served.name

    def _head(self, kind: str) -> dict[str, Any]:
        about = {"created": self.created, "model": self.name, "system_fingerprint": None}
        return {"id": self.id, "object": kind, **about, **({"warnings": self.said} if self.said else {})}

    async def whole(self) -> dict[str, Any]:
        """The whole answer."""
        found = await self.generation.whole()
        choices = [
            {
                "index": number,
                "message": {"role": "assistant", "content": one.text, "refusal": None},
                "logprobs": self._logprobs(one.tokens),
                "finish_reason": one.finish,
            }
            for number, one in enumerate(found)
        ]
        return {**self._head("chat.completion"), "choices": choices, "usage": self.generation.usage()}

    async def events(self) -> AsyncIterator[bytes]:
        """The answer piece by delta."""
        with_usage = bool(self.body["stream_options"] and self.body["stream_options"].get("include_usage"))
        more: dict[str, Any] = {"usage": None} if with_usage else {}
        head = self._head("chat.completion.chunk")

        def chunk(number: int, delta: dict[str, Any], tokens: list[Token], finish: str | None = None) -> bytes:
            logprobs = self._logprobs(tokens) if tokens else None
            choice = {"index": number, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
            return event({**head, "choices": [choice], **more})

        for number in range(len(self.generation.texts)):
            yield chunk(number, {"role": "assistant", "content": ""}, [])
        async for pair in self.generation:
            if pair is None:
                yield PING
                continue
            number, delta = pair
            if delta.text or delta.tokens:
                yield chunk(number, {"content": delta.text}, delta.tokens)
            if delta.finish is not None:
                yield chunk(number, {}, [], delta.finish)
        if with_usage:
            yield event({**head, "choices": [], "usage": self.generation.usage()})

    def _logprobs(self, tokens: list[Token]) -> dict[str, Any] | None:
        if not self.body["logprobs"]:
            return None
        content = [
            {
                **{"token": token.text, "logprob": token.log_probability, "bytes": token.bytes},
                "top_logprobs": [
                    {"token": text, "logprob": value, "bytes": spelt} for text, spelt, value in token.others
                ],
            }
            for token in tokens
        ]
        return {"content": content, "refusal": None}
