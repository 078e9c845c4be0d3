"""Conversations as text, by the model's chat template, and as ids; and which of the ids are the assistant's replies."""

import itertools
import json
import re
import warnings
from collections.abc import Callable
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


MARK = "\ue0f1\ue0f2"
"""Two private-use characters inserted where a user's text spells a special token, and removed again."""


class RenderedDifferently(InputError):
    """The template renders a reply differently where the conversation goes on."""


def encode_chat(
    tokenizer: Tokenizer, messages: list[Message], *, add_generation_prompt: bool = False
) -> tuple[list[int], list[bool]]:
    """(ids, is_reply) of a conversation; ``is_reply`` is true for the assistant's ids, but of a message of weight 0.

    A reply includes the special token that ends it, so that a model learns to stop.  It begins where a prompt for it
    would end, so that a model is trained to write exactly what it will be asked to write.  If the template marks
    replies itself (``{% generation %}``), its marks count.

    The template's own special tokens are encoded as such; those spelled in a message are text.  Raises InputError if
    the tokenizer has no template, if the template cannot be rendered, or if it renders the replies of a longer
    conversation differently from those of a shorter one, so that they cannot be located.
    """
    template = _template_for(tokenizer, messages)
    weights = [message.get("weight", 1) for message in messages if message["role"] == "assistant"]
    messages = [{key: value for key, value in message.items() if key != "weight"} for message in messages]

    def render(some: list[Message], prompt: bool) -> tuple[str, list[tuple[int, int]]]:
        return rendered(template, some, prompt, tokenizer.special_tokens)

    text, spans = render(messages, add_generation_prompt)
    if not re.search(r"{%-?\s*generation\s*-?%}", template):
        spans = _spans(messages, weights, text, lambda some, prompt: render(some, prompt)[0])
    elif not all(weights):
        if len(spans) != len(weights):
            raise InputError("chat template: it does not mark each reply, so those of weight 0 cannot be located")
        spans = [span for span, weight in zip(spans, weights, strict=True) if weight]
    marked = _marked(tokenizer, messages, text, lambda some: render(some, add_generation_prompt)[0])
    return _encode(tokenizer, marked, spans)


def shows_last_reply_apart(tokenizer: Tokenizer) -> bool:
    """Whether the template renders the last reply otherwise than the same reply in a conversation that goes on."""
    try:
        encode_chat(tokenizer, 2 * [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
    except RenderedDifferently:
        return True
    except InputError:
        pass  # the conversation in question says better what is wrong
    return False


def encode_prompt(tokenizer: Tokenizer, messages: list[Message]) -> list[int]:
    """The ids of a conversation up to the point where the assistant's reply begins.

    Special tokens as in ``encode_chat``; the template may render earlier replies differently in longer conversations.
    Raises InputError when the tokenizer has no template, or when it cannot be rendered.
    """
    template = _template_for(tokenizer, messages)

    def render(some: list[Message]) -> str:
        return rendered(template, some, True, tokenizer.special_tokens)[0]

    text = render(messages)
    parts = messages[-1].get("content") or "", text
    message, shown = ("".join(filter(str.isalnum, part.casefold())) for part in parts)
    if message not in shown:
        warnings.warn("the chat template leaves out, or changes, what the last message says", stacklevel=2)
    return _encode(tokenizer, _marked(tokenizer, messages, text, render), [])[0]


def _template_for(tokenizer: Tokenizer, messages: list[Message]) -> str:
    """The template, for messages that are a conversation.  Raises InputError."""
    if tokenizer.chat_template is None:
        raise InputError("this tokenizer has no chat template; give it one with `with_chat`")
    check_messages(messages)
    for number, message in enumerate(messages, start=1):
        for key in MEANT.keys() & message.keys():
            if message[key] and key not in tokenizer.chat_template:
                raise InputError(f"message {number} has {key!r}, which the chat template does not read: {MEANT[key]}.")
    return tokenizer.chat_template


def _spans(
    messages: list[Message], weights: list[Any], text: str, render: Callable[[list[Message], bool], str]
) -> list[tuple[int, int]]:
    """Where the replies are whose weight is not 0: from the end of the prompt for each to the end of what is said."""
    spans = []
    replies = (number for number, message in enumerate(messages) if message["role"] == "assistant")
    for number in itertools.compress(replies, weights):
        before, after = render(messages[:number], True), render(messages[: number + 1], False)
        if not (after.startswith(before) and text.startswith(after)):
            raise RenderedDifferently(
                f"chat template: message {number + 1} is rendered differently as part of the whole conversation than "
                "alone, so its reply cannot be located; mark the reply in the template with {% generation %}"
            )
        spans.append((len(before), len(after)))
    return spans


def _marked(tokenizer: Tokenizer, messages: list[Message], text: str, render: Callable[[list[Message]], str]) -> str:
    """The text with a mark inside each special token spelled in a message, so that only the template's are intact.

    Messages that cannot be part of a special token stay as they are.  Removing the marks must give ``text`` again; a
    template for which it does not, because it depends on the messages' characters, is refused.
    """
    names = [tokenizer.tokens[number] for number in tokenizer.special_ids]
    if MARK in text:
        raise InputError(f"messages: found {MARK!r}, expected text without these private-use characters")
    changed = [{key: _break(value, names, key) for key, value in message.items()} for message in messages]
    if changed == messages:
        return text
    marked = render(changed)
    if marked.replace(MARK, "") != text:
        raise InputError(
            "chat template: it renders a message that spells a special token differently from others, so the token "
            "cannot be told from the template's own; remove the token from the message"
        )
    return marked


def _break(value: Any, names: list[str], key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _break(inner, names, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_break(inner, names, key) for inner in value]
    if not isinstance(value, str) or key == "role" or not _suspect(value, names):
        return value
    core = value.strip()
    start = value.index(core)
    for name in sorted(names, key=len, reverse=True):
        if len(name) == 1 and name in core:
            raise InputError(f"messages: found {name!r}, a special token of one character, expected text without it")
        while name in core:
            core = core.replace(name, name[0] + MARK + name[1:])
    return f"{value[:start]}{MARK}{core}{MARK}{value[start + len(value.strip()) :]}"


def _suspect(value: str, names: list[str]) -> bool:
    """Whether a text spells a special token, or could start or end one that the template completes."""
    core = value.strip()
    if not core:
        return False
    for name in names:
        if name in core or core in name:
            return True
        if any(core.startswith(name[cut:]) or core.endswith(name[:cut]) for cut in range(1, len(name))):
            return True
    return False


def _encode(tokenizer: Tokenizer, marked: str, spans: list[tuple[int, int]]) -> tuple[list[int], list[bool]]:
    """(ids, is_reply) of a text with marks; ``spans`` are where the replies are in the text without them."""
    ids_of = {tokenizer.tokens[number]: number for number in tokenizer.special_ids}
    longest_first = sorted(ids_of, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
    text = marked.replace(MARK, "")
    borders = {0, len(text)}.union(*spans)
    specials: dict[int, int] = {}
    end_marked = end = 0
    for match in pattern.finditer(marked):
        start = end + len(marked[end_marked : match.start()].replace(MARK, ""))
        end_marked, end = match.end(), start + len(match[0])
        specials[start] = ids_of[match[0]]
        borders.difference_update(range(start + 1, end))
        borders.update((start, end))
    parts: list[str | int] = []
    reply: list[bool] = []
    for start, end in itertools.pairwise(sorted(borders)):
        parts.append(specials[start] if start in specials else text[start:end])
        reply.append(any(first <= start < last for first, last in spans))
    _end_with_special(parts, reply)
    ids, owners = tokenizer.encode_parts(parts)
    return ids, [reply[owner] for owner in owners]


def _end_with_special(parts: list[str | int], reply: list[bool]) -> None:
    """White space between the token that ends a reply and the next turn is not part of the reply."""
    for number in range(1, len(parts)):
        part = parts[number]
        last = number + 1 == len(parts) or not reply[number + 1]
        if reply[number] and last and isinstance(part, str) and not part.strip() and isinstance(parts[number - 1], int):
            reply[number] = False
