"""``POST /v1/chat/completions``: replies to conversations."""

import re
from collections.abc import Iterator
from typing import Any

from headway.serving.body import BOOLEAN, OPEN, STRING, array, integer, one_of, optional, record, string
from headway.serving.capture_warnings import capture_warnings
from headway.serving.generation import Generation, check_fits
from headway.serving.models import Served
from headway.serving.openai.completions import Reply, read_request
from headway.serving.openai.fields import SAMPLING, check_count, generation_options, unread
from headway.serving.responses import in_thread, invalid, unless_gone
from headway.serving.state import State
from headway.serving.text_stream import Delta, Token
from headway.tasks.inputs import Prompt
from headway.text.chat import MEANT

PART = record(type=one_of("text"), text=STRING)
MESSAGE = record(
    "role",
    "content",
    role=one_of("system", "developer", "user", "assistant", "tool"),
    content={"anyOf": [STRING, array(PART, 1, 64), {"type": "null"}]},
    name=optional(string(most=64)),
    tool_call_id=optional(string(most=64)),
)
TOOL = re.compile(r"""['"]tool['"]""")
"""What a chat template with the role "tool" compares a role with."""
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
    for number, one in enumerate(body["messages"]):
        _check(one, f"messages[{number}]", served)
    messages = [_message(one) for one in body["messages"]]
    with served.places.held(body["n"]):
        prompt, said = await unless_gone(request, in_thread(_prompt, served, messages))
    asked = body["max_completion_tokens"] if body["max_completion_tokens"] is not None else body["max_tokens"]
    likely = (body["top_logprobs"] or 0) if body["logprobs"] else None
    how = generation_options(body, served, check_fits(served, [prompt], asked, "messages"), likely)
    generation = Generation(served, [prompt], how, state, n=body["n"])
    return await ChatReply(body, generation, [*said, *unread(body, SCHEMA)]).response(request, state)


def _check(given: dict[str, Any], place: str, served: Served) -> None:
    """Raise RequestError for a message that the model's conversations cannot have."""
    if given["content"] is None and not given.get("tool_calls"):
        raise invalid(f"{place}.content is null, which only a message with tool_calls may have", f"{place}.content")
    if given["role"] == "tool" and not TOOL.search(served.pipe.tokenizer.chat_template or ""):
        raise invalid(f"{place}: the chat template of this model has no role 'tool'", f"{place}.role")


def _message(given: dict[str, Any]) -> dict[str, Any]:
    """A message as chat templates know it."""
    content = given["content"]
    text = content if isinstance(content, str | None) else "".join(part["text"] for part in content)
    meant = {key: given[key] for key in (*MEANT, "name", "tool_call_id") if given.get(key)}
    return {**meant, "role": "system" if given["role"] == "developer" else given["role"], "content": text}


def _prompt(served: Served, messages: list[dict[str, Any]]) -> tuple[Prompt, list[str]]:
    """A conversation for the model, and warnings of what its template does not read.  Raises InputError."""
    with capture_warnings() as said:
        prompt = served.pipe.prompt_of_chat(messages)
    nameless = [{key: one[key] for key in one if key != "name"} for one in messages]
    if nameless != messages and served.pipe.prompt_of_chat(nameless).ids == prompt.ids:
        said.append("messages: the chat template of this model reads no name of a message")
    return prompt, said


class ChatReply(Reply):
    """The reply to a conversation, whole or as events."""

    id_prefix, whole_object, event_object = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def __init__(self, *of: Any):
        super().__init__(*of)
        self.head["system_fingerprint"] = None

    def whole_choice(self, number: int, text: Delta) -> dict[str, Any]:
        message = {"role": "assistant", "content": text.text, "refusal": None}
        return self._of(number, self._logprobs(text.tokens), text.finish, message=message)

    def first_choice(self, number: int) -> dict[str, Any]:
        return self._of(number, None, None, delta={"role": "assistant", "content": ""})

    def choices(self, number: int, delta: Delta) -> Iterator[dict[str, Any]]:
        if delta.text or delta.tokens:
            logprobs = self._logprobs(delta.tokens) if delta.tokens else None
            yield self._of(number, logprobs, None, delta={"content": delta.text})
        if delta.finish is not None:
            yield self._of(number, None, delta.finish, delta={})

    def _of(self, number: int, logprobs: Any, finish: str | None, **content: Any) -> dict[str, Any]:
        return {"index": number, **content, "logprobs": logprobs, "finish_reason": finish}

    def _logprobs(self, tokens: list[Token]) -> dict[str, Any] | None:
        if not self.body["logprobs"]:
            return None

        def told(text: str, spelt: list[int], value: float | None) -> dict[str, Any]:
            return {"token": text, "logprob": value, "bytes": spelt}

        content = [
            {
                **told(token.text, token.bytes, token.log_probability),
                "top_logprobs": [told(*other) for other in token.others],
            }
            for token in tokens
        ]
        return {"content": content, "refusal": None}
