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


def modelfile(subject: Subject, file: str, context: int, begins: bool) -> str:
    """The text of a Modelfile; ``begins``: whether llama.cpp itself puts a token before a text."""
    tokenizer = subject.tokenizer
    lines = [f"FROM ./{file}", f"PARAMETER num_ctx {context}"]
    if hasattr(subject.pipe, "ends"):  # it continues texts
        turn = turn_end(tokenizer)
        for number in sorted({*ends_of(subject), *([] if turn is None else [turn])}):
            stop = tokenizer.tokens[number]
            if printable(stop) == stop:  # a Modelfile cannot escape a line break: another instruction would follow it
                quoted = stop.replace("\\", "\\\\").replace('"', '\\"')
                lines.append(f'PARAMETER stop "{quoted}"')
        template = "{{ .Prompt }}" if tokenizer.chat_template is None else chat_template(tokenizer, begins)
        lines += [] if template is None else [f'TEMPLATE """{template}"""']
    return "\n".join(lines) + "\n"


def chat_template(tokenizer: Tokenizer, begins: bool) -> str | None:
    """The chat template as one of Ollama; None if it does more than put text around messages."""
    try:
        head, around, prompt = _parts(tokenizer)
    except InputError:
        return None
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


def turn_end(tokenizer: Tokenizer | None) -> int | None:
    """The special token with which the chat template ends a reply; None if there is none."""
    if tokenizer is None or tokenizer.chat_template is None:
        return None
    probe = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    try:
        ids, is_reply = encode_chat(tokenizer, probe)
    except InputError:
        return None
    last = [number for number, reply in zip(ids, is_reply, strict=True) if reply][-1:]
    return last[0] if last and last[0] in tokenizer.special_ids else None


def _parts(tokenizer: Tokenizer) -> tuple[str, dict[str, tuple[str, str]], str]:
    """(What comes first, what is around a message of each role, what begins a reply).

    Raises InputError for a template that does more.
    """
    system, first, reply, second, other, third = SAID

    def rendered(*messages: tuple[str, str], prompt: bool = False) -> str:
        told: list[Message] = [{"role": role, "content": text} for role, text in messages]
        template, special = tokenizer.chat_template or "", tokenizer.special_tokens
        return render_chat(template, told, add_generation_prompt=prompt, special=special)

    whole = [("user", first), ("assistant", reply), ("user", second)]
    ahead, between, again, end = _split(rendered(*whole), first, reply, second)
    prompt = rendered(*whole, prompt=True).partition(second)[2].removeprefix(end)
    after_reply = rendered(*whole[:2]).partition(reply)[2]
    before_user, before_reply = again.removeprefix(after_reply), between.removeprefix(end)
    head = ahead.removesuffix(before_user)
    start, middle, _ = _split(rendered(("system", system), ("user", first)), system, first)
    around = {
        "system": (start.removeprefix(head), middle.removesuffix(before_user)),
        "user": (before_user, end),
        "assistant": (before_reply, after_reply),
    }
    longer = [("system", system), *whole, ("assistant", other), ("user", third)]
    made = head + "".join(around[role][0] + text + around[role][1] for role, text in longer) + prompt
    if made != rendered(*longer, prompt=True):
        raise InputError("the chat template does more than put text around messages")
    return head, around, prompt


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
