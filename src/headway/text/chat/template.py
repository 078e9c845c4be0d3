"""Conversations as text, by the model's chat template."""

import json
from typing import Any

from headway.errors import InputError
from headway.text.safe.process import ask
from headway.text.tokenizer import Tokenizer

RENDER_SECONDS = 2.0
"""A hundred times what the slowest known template needs."""

MAX_TEMPLATE = 64 * 2**10
"""Bytes."""

TIMES = 4
"""How many times as long as its messages, written as JSON, a conversation may become, MAX_TEMPLATE not counted."""

MAX_MESSAGES = 8 * 2**20
"""Characters of a conversation, written as JSON."""

START, END = "<|im_start|>", "<|im_end|>"

DEFAULT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""For models that have none: the layout called ChatML.  ``with_chat`` gives a tokenizer its two tokens."""

Message = dict[str, Any]

_TOOLS, _MEDIA = "write it into a message as text, or remove it", "a language model reads only text"
_THOUGHTS = "write it into the content as the chat template does, such as <think>...</think>, or remove it"
MEANT = {
    **dict.fromkeys(("tool_calls", "function_call", "tools", "functions", "documents"), _TOOLS),
    **dict.fromkeys(("image", "images", "video", "videos", "audio", "audios"), _MEDIA),
    **dict.fromkeys(("reasoning_content", "reasoning", "thinking"), _THOUGHTS),
}
"""Fields of messages that change what a conversation says, each with what to do where it is not read."""


def render_chat(
    template: str,
    messages: list[Message],
    *,
    add_generation_prompt: bool,
    special: dict[str, str],
    seconds: float = RENDER_SECONDS,
) -> str:
    """The text of a conversation: ``messages`` are dicts with "role" and "content".

    ``add_generation_prompt``: end where the assistant's reply begins.  ``special``: the tokens that the template may
    use, by name ("bos_token", ...).  The template runs in a sandbox, in a separate process with limited memory, output
    and time; the messages are data and never run.  Raises InputError, also when the template itself raises an error.
    """
    return rendered(template, messages, add_generation_prompt, special, seconds)[0]


def rendered(
    template: str,
    messages: list[Message],
    add_generation_prompt: bool,
    special: dict[str, str],
    seconds: float = RENDER_SECONDS,
) -> tuple[str, list[tuple[int, int]]]:
    """(the text, the spans that the template marks with ``{% generation %}``)."""
    if not isinstance(template, str) or len(template.encode("utf-8", "replace")) > MAX_TEMPLATE:
        size = len(template) if isinstance(template, str) else type(template).__name__
        raise InputError(f"chat template: found {size}, expected a text of at most {MAX_TEMPLATE} bytes")
    most = MAX_TEMPLATE + TIMES * check_messages(messages)
    request = {
        **{"template": template, "messages": messages, "special": special},
        **{"add_generation_prompt": add_generation_prompt, "most": most, "seconds": seconds},
    }
    answer = ask("{}", json.dumps(request), seconds)
    if "error" in answer:
        hint = "; install jinja2 3.1 or later" if "No module named 'jinja2" in answer["error"] else ""
        raise InputError(f"chat template: cannot be rendered: {answer['error']}{hint}")
    return answer["text"], [(start, end) for start, end in answer["spans"]]


def check_messages(messages: list[Message]) -> int:
    """The characters of a conversation, written as JSON.  Raises InputError for anything else."""
    if not isinstance(messages, list):
        raise InputError(f"messages: found {type(messages).__name__}, expected a list of dicts with role and content")
    for number, message in enumerate(messages, start=1):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise InputError(f"message {number}: found {str(message)[:60]!r}, expected a dict with role and content")
        if not {"content", "tool_calls"} & message.keys():
            raise InputError(f"message {number}: has no content; expected a dict with role and content")
    try:
        size = len(json.dumps(messages))
    except (TypeError, ValueError, RecursionError):
        raise InputError("messages: found values that JSON does not have, expected strings") from None
    if size > MAX_MESSAGES:
        raise InputError(f"messages: found {size} characters, expected at most {MAX_MESSAGES}")
    return size


def with_chat(tokenizer: Tokenizer) -> Tokenizer:
    """A tokenizer with a chat template: its own, or ``DEFAULT_TEMPLATE`` with its two tokens.

    Missing tokens are added, so ``vocab_size`` may grow by up to two.  A reply ends with ``<|im_end|>``, which becomes
    the tokenizer's ``end_of_text``.
    """
    if tokenizer.chat_template is not None:
        return tokenizer
    return tokenizer.with_template(DEFAULT_TEMPLATE, {"eos_token": END}, [START, END])
