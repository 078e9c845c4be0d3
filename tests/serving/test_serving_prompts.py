"""What OpenAI's routes tell of a prompt: its tokens' log-probabilities, and messages of tools."""

import json

import openai
import pytest
import torch
from served_models import Server

import headway

TEMPLATE = (
    "{% for m in messages %}{% if m['role'] == 'tool' %}T{{ m['content'] }}{% else %}"
    "{{ m['role'] }}{{ m['content'] or '' }}{% for call in m['tool_calls'] or [] %}{{ call['function']['name'] }}"
    "{% endfor %}{% endif %}|{% endfor %}"
)
CALL = {"id": "c1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0, timeout=60) as found:
        yield found


@pytest.mark.parametrize("prompt", ["the cat sat on a mat", "日本 🙂 the", "x" * 300])
@pytest.mark.parametrize("more", [0, 5])
def test_the_tokens_of_a_prompt_are_as_likely_as_the_model_says(client, models, prompt, more):
    pipe = headway.load(models["text"])
    ids = pipe.tokenizer.encode(prompt)
    found = client.completions.create(
        model="text", prompt=[ids, ids], echo=True, max_tokens=more, logprobs=3, temperature=0
    )
    choice = found.choices[1]
    text = pipe(prompt, max_tokens=more, temperature=0.0) if more else ""
    assert choice.text == prompt + text and choice.finish_reason == "length"
    with torch.no_grad():
        likely = pipe.model(torch.tensor([ids]))[0].log_softmax(-1)
    told = choice.logprobs
    assert told.token_logprobs[0] is None and told.top_logprobs[0] is None and len(told.tokens) == len(ids) + more
    assert told.token_logprobs[1 : len(ids)] == pytest.approx(
        [likely[at, number].item() for at, number in enumerate(ids[1:])], abs=1e-4
    )
    best = likely[0].topk(3).values.tolist()
    assert sorted(told.top_logprobs[1].values(), reverse=True) == pytest.approx(best, abs=1e-4)
    assert told.text_offset[0] == 0 and told.text_offset[-1] <= len(choice.text)
    assert found.usage.completion_tokens == 2 * more


def test_by_text_and_streamed_it_is_the_same(client):
    how = {"model": "text", "prompt": "the cat", "echo": True, "logprobs": 1, "temperature": 0}
    for most in (0, 4):
        whole = client.completions.create(max_tokens=most, **how).choices[0]
        pieces = [one.choices[0] for one in client.completions.create(max_tokens=most, stream=True, **how)]
        assert "".join(one.text for one in pieces) == whole.text
        assert [one for piece in pieces for one in piece.logprobs.token_logprobs] == pytest.approx(
            whole.logprobs.token_logprobs
        )
        assert [one for piece in pieces for one in piece.logprobs.text_offset] == whole.logprobs.text_offset
        assert pieces[-1].finish_reason == "length"


def test_a_prompt_that_fills_the_context_can_be_told_and_not_continued(client):
    how = {"model": "text", "prompt": [7] * 512, "echo": True, "logprobs": 0}
    assert len(client.completions.create(max_tokens=0, **how).choices[0].logprobs.tokens) == 512
    for wrong in ({"max_tokens": 1}, {"max_tokens": 0, "prompt": [7] * 513}, {"max_tokens": 0, "echo": False}):
        with pytest.raises(openai.BadRequestError):
            client.completions.create(**{**how, **wrong})


def test_an_empty_prompt_has_no_tokens_to_tell(client):
    told = client.completions.create(model="text", prompt="", echo=True, logprobs=1, max_tokens=0).choices[0]
    assert told.text == "" and told.logprobs.tokens == []


def test_messages_of_tools_where_the_template_has_them(client, models, tmp_path):
    place = tmp_path / "tools"
    place.mkdir()
    for file in models["chat"].iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    settings = json.loads((place / "tokenizer_config.json").read_text())
    (place / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": TEMPLATE}))
    (place / "chat_template.jinja").unlink(missing_ok=True)
    messages = [
        {"role": "user", "content": "when"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "noon", "tool_call_id": "c1"},
    ]
    server = Server(place, "--quiet")
    try:
        body = {"model": "tools", "messages": messages, "max_tokens": 3}
        found = server.post("/v1/chat/completions", body).json()
        assert found["usage"]["prompt_tokens"] > len("userwhen|assistantclock|Tnoon|") // 4 and "warnings" not in found
        prompt = headway.load(place).prompt_of_chat([{**one, "content": one["content"] or ""} for one in messages])
        assert found["usage"]["prompt_tokens"] == len(prompt.ids)
    finally:
        assert server.stop() == 0
    with pytest.raises(openai.BadRequestError, match="no role 'tool'"):
        client.chat.completions.create(model="chat", messages=[{**messages[2]}], max_tokens=3)
