"""A Modelfile, by which Ollama makes a model of a GGUF file: its template, its stop strings, its context.

Ollama's templates are Go's: a chat template of ``tokenizer_config.json`` is rendered for a few conversations, and the
text around each message becomes one.  A template that does more than put text around messages has no such form.
"""

from headway.errors import InputError, printable
from headway.formats.subject import Subject
from headway.text.chat import Message, encode_chat, render_chat
from headway.text.tokenizer import Tokenizer

MODELFILE = "Modelfile"
SAID = tuple(f"Aa{chr(0xE0F3 + number)}bB" for number in range(6))
"""What the messages of the trial conversations say, with characters that no template writes."""
ROLES = ("system", "user", "assistant")


def modelfile(subject: Subject, file: str, context: int, begins: bool) -> str:
    """The text of a Modelfile; ``begins``: whether llama.cpp itself puts a token before a text."""
    tokenizer = subject.tokenizer
    lines = [f"FROM ./{file}", f"PARAMETER num_ctx {context}"]
    if hasattr(subject.pipe, "ends"):  # it continues texts
        stops = [tokenizer.tokens[number] for number in _stops(subject)]
        # a Modelfile cannot escape a line break, after which another instruction would begin
        lines += [f"PARAMETER stop {_quoted(stop)}" for stop in stops if printable(stop) == stop]
        template = "{{ .Prompt }}" if tokenizer.chat_template is None else chat_template(tokenizer, begins)
        lines += [] if template is None else [f'TEMPLATE """{template}"""']
    return "\n".join(lines) + "\n"


def chat_template(tokenizer: Tokenizer, begins: bool) -> str | None:
    """The chat template as one of Ollama; None if it does more than put text around messages."""
    try:
        parts = _parts(tokenizer)
    except InputError:
        return None
    if parts is None:
        return None
    head, around, prompt = parts
    start = tokenizer.special_tokens.get("bos_token")
    if begins and start is not None:
        head = head.removeprefix(start)
    if any('"""' in text for text in (head, prompt, *(text for pair in around.values() for text in pair))):
        return None
    cases = "{{ else if eq .Role ".join(
        f'"{role}" }}}}{_literal(before)}{{{{ .Content }}}}{_literal(after)}'
        for role, (before, after) in around.items()
    )
    return (
        f"{_literal(head)}{{{{ range .Messages }}}}{{{{ if eq .Role {cases}{{{{ end }}}}{{{{ end }}}}{_literal(prompt)}"
    )


def ends_of(subject: Subject) -> list[int]:
    """The ids that end a text or a turn."""
    ends = set(getattr(subject.pipe, "ends", ()))
    if subject.tokenizer is not None and subject.tokenizer.end_of_text is not None:
        ends.add(subject.tokenizer.end_of_text)
    return sorted(ends)


def turn_end(tokenizer: Tokenizer) -> int | None:
    """The special token with which the chat template ends a reply; None if there is none."""
    if tokenizer.chat_template is None:
        return None
    probe = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    try:
        ids, is_reply = encode_chat(tokenizer, probe)
    except InputError:
        return None
    last = [number for number, reply in zip(ids, is_reply, strict=True) if reply][-1:]
    return last[0] if last and last[0] in tokenizer.special_ids else None


def _stops(subject: Subject) -> list[int]:
    turn = None if subject.tokenizer is None else turn_end(subject.tokenizer)
    return sorted({*ends_of(subject), *([] if turn is None else [turn])})


def _parts(tokenizer: Tokenizer) -> tuple[str, dict[str, tuple[str, str]], str] | None:
    """(what comes first, what is around a message of each role, what begins a reply), if that is all there is."""
    system, first, reply, second, other, third = SAID
    whole = [("user", first), ("assistant", reply), ("user", second)]
    ahead, between, again, end = _split(_render(tokenizer, whole, prompt=False), first, reply, second)
    prompt = _render(tokenizer, whole, prompt=True).partition(second)[2].removeprefix(end)
    after_reply = _render(tokenizer, whole[:2], prompt=False).partition(reply)[2]
    before_user, before_reply = again.removeprefix(after_reply), between.removeprefix(end)
    head = ahead.removesuffix(before_user)
    with_system = _render(tokenizer, [("system", system), ("user", first)], prompt=False)
    start, middle, _ = _split(with_system, system, first)
    around = {
        "system": (start.removeprefix(head), middle.removesuffix(before_user)),
        "user": (before_user, end),
        "assistant": (before_reply, after_reply),
    }
    longer = [("system", system), *whole, ("assistant", other), ("user", third)]
    made = head + "".join(around[role][0] + text + around[role][1] for role, text in longer) + prompt
    return (head, around, prompt) if made == _render(tokenizer, longer, prompt=True) else None


def _render(tokenizer: Tokenizer, said: list[tuple[str, str]], prompt: bool) -> str:
    messages: list[Message] = [{"role": role, "content": text} for role, text in said]
    template = tokenizer.chat_template or ""
    return render_chat(template, messages, add_generation_prompt=prompt, special=tokenizer.special_tokens)


def _split(text: str, *marks: str) -> list[str]:
    """The parts of a text between some marks, each of which must be there once.  Raises InputError."""
    parts = []
    for mark in marks:
        if text.count(mark) != 1:
            raise InputError("the chat template does not write every message once")
        before, _, text = text.partition(mark)
        parts.append(before)
    return [*parts, text]


def _literal(text: str) -> str:
    """A text that Go's templates write as it is."""
    return text.replace("{{", '{{ "{{" }}')


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
