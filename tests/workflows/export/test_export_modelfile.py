"""A Modelfile's template writes a conversation as the chat template does."""

import re

import pytest
from export_kit import BPE

from headway.formats.gguf.modelfile import chat_template
from headway.text.chat import DEFAULT_TEMPLATE, render_chat
from headway.text.tokenizer import Tokenizer

TURNS = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'system' %}<<{{ m['content'] }}>>\n"
    "{% elif m['role'] == 'user' %}[INST]{{ m['content'] }}[/INST]"
    "{% else %}{{ m['content'] }}{{ eos_token }}{% endif %}{% endfor %}"
)
TALK = [
    *({"role": "system", "content": "be brief"}, {"role": "user", "content": "a {{ .System }}"}),
    *({"role": "assistant", "content": "b"}, {"role": "user", "content": "c\nd"}),
]


def with_template(template: str) -> Tokenizer:
    return BPE.with_template(
        template, {"bos_token": "<|begin|>", "eos_token": "<|im_end|>"}, ["<|begin|>", "<|im_end|>"]
    )


def as_ollama(template: str, messages: list[dict[str, str]]) -> str:
    """What Go's template language makes of the few words of it that are used."""
    head, body, tail = re.fullmatch(
        r"(.*?)\{\{ range \.Messages \}\}(.*)\{\{ end \}\}\{\{ end \}\}(.*)", template, re.DOTALL
    ).groups()
    first, *others = re.split(r"\{\{ (?:else )?if eq \.Role ", body)
    assert first == ""
    cases = {}
    for case in others:
        role, text = re.fullmatch(r'"(\w+)" \}\}(.*)', case, re.DOTALL).groups()
        cases[role] = text
    said = "".join(cases[one["role"]].replace("{{ .Content }}", one["content"]) for one in messages)
    return head + said + tail


@pytest.mark.parametrize("template", [DEFAULT_TEMPLATE, TURNS])
def test_the_text_is_the_same(template: str):
    tokenizer = with_template(template)
    made = chat_template(tokenizer, begins=False)
    expected = render_chat(template, TALK, add_generation_prompt=True, special=tokenizer.special_tokens)
    assert made is not None and as_ollama(made, TALK) == expected
    without = chat_template(tokenizer, begins=True)
    assert as_ollama(without, TALK) == expected.removeprefix("<|begin|>"), "llama.cpp puts it there itself"


@pytest.mark.parametrize(
    "template",
    [
        DEFAULT_TEMPLATE.replace("message['content']", "message['content'] | upper"),
        DEFAULT_TEMPLATE.replace("message['content']", "message['content'] ~ loop.index"),
        "{{ messages[-1]['content'] }}",
        "{{ raise_exception('no') }}",
        DEFAULT_TEMPLATE.replace("<|im_start|>", '"""'),
    ],
)
def test_a_template_that_does_more_is_left_out(template: str):
    assert chat_template(with_template(template), begins=False) is None


def test_braces_of_a_template_are_text():
    tokenizer = with_template(DEFAULT_TEMPLATE.replace("'<|im_start|>'", "'<{' ~ '{>'"))
    assert '<{{ "{{" }}>' in chat_template(tokenizer, begins=False)
