"""The official client of OpenAI, unchanged, against a running server."""

import asyncio
import base64
import random
import re
import struct

import openai
import pytest
import torch

import headway
from headway.serving.openai.chat import _message

MESSAGES = [{"role": "system", "content": "be old"}, {"role": "user", "content": "the cat sat"}]
PIECES = ["🙂", "日本", "ภาษาไทย", "é", "👩‍👩‍👧", " the", " cat", "\n", "x", "\u2028", "ﬀ"]


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0, timeout=60) as found:
        yield found


@pytest.fixture(scope="module")
def pipe(models):
    return headway.load(models["text"])


def streamed(client, **how):
    return list(client.completions.create(stream=True, **how))


def test_models(client, models):
    listed = {one.id: one for one in client.models.list()}
    assert set(listed) == set(models)
    assert listed["labels"].kind == "labels" and listed["labels"].labels == ["ant", "bee", "cow"]
    assert listed["text"].route == "/generate" and listed["labels"].route == "/classify"
    assert client.models.retrieve("text").task == "language_modeling"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("owner/none")
    assert caught.value.code == "model_not_found"


def test_greedy_text_is_that_of_the_command_line(client, pipe):
    prompts = ["the cat", "", "日本 🙂", "a" * 50]
    found = client.completions.create(model="text", prompt=prompts, max_tokens=21, temperature=0)
    assert [one.text for one in found.choices] == pipe(prompts, max_tokens=21, temperature=0.0)
    assert [one.index for one in found.choices] == [0, 1, 2, 3]
    assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens


def test_streamed_text_equals_plain_text(client, pipe):
    choose = random.Random(7)
    for number in range(25):
        prompt = "".join(choose.choices(PIECES, k=choose.randint(1, 9)))
        how = {"model": "text", "prompt": prompt, "max_tokens": 23, "temperature": 1.0, "seed": number}
        plain = client.completions.create(**how).choices[0]
        pieces = streamed(client, **how)
        assert "".join(one.choices[0].text for one in pieces) == plain.text
        assert [one.choices[0].finish_reason for one in pieces][-1] == plain.finish_reason
        assert plain.text == pipe(prompt, max_tokens=23, temperature=1.0, seed=number)


def test_a_stop_string_ends_the_text_and_is_not_part_of_it(client):
    whole = client.completions.create(model="text", prompt="the cat", max_tokens=30, temperature=0).choices[0].text
    stop = whole[11:14]
    how = {"model": "text", "prompt": "the cat", "max_tokens": 30, "temperature": 0, "stop": ["zzzz", stop]}
    plain = client.completions.create(**how).choices[0]
    assert plain.text == whole[: whole.index(stop)] and plain.finish_reason == "stop"
    assert "".join(one.choices[0].text for one in streamed(client, **how)) == plain.text


def test_seeds_and_several_texts_of_a_prompt(client):
    how = {"model": "text", "prompt": ["the", "cat"], "n": 3, "max_tokens": 9, "seed": 4}
    first, second = (client.completions.create(**how) for _ in range(2))
    texts = [one.text for one in first.choices]
    assert texts == [one.text for one in second.choices] and len(set(texts)) > 1 and len(texts) == 6


def test_probabilities(client):
    how = {"model": "text", "prompt": "the cat", "max_tokens": 6, "temperature": 0}
    found = client.completions.create(logprobs=3, **how).choices[0]
    logprobs = found.logprobs
    shown = re.sub(
        r"bytes:\\x[0-9a-f]{2}", "\ufffd", "".join(logprobs.tokens)
    )  # halves of characters as OpenAI has them
    assert shown == found.text and len(logprobs.tokens) == 6
    for chosen, best in zip(logprobs.token_logprobs, logprobs.top_logprobs, strict=True):
        assert 0 < len(best) <= 3 and chosen == pytest.approx(max(best.values())) and chosen <= 0
    said = client.chat.completions.create(
        model="chat", messages=MESSAGES, max_tokens=5, temperature=0, logprobs=True, top_logprobs=2
    )
    for token in said.choices[0].logprobs.content:
        assert token.logprob == pytest.approx(token.top_logprobs[0].logprob) and len(token.top_logprobs) == 2
        assert bytes(token.bytes).decode("utf-8", "replace") == token.token


def test_a_bias_and_penalties_change_what_is_chosen(client):
    how = {"model": "text", "prompt": "the cat", "max_tokens": 12, "temperature": 0}
    plain = client.completions.create(logprobs=0, **how).choices[0].logprobs.tokens
    forced = client.completions.create(logit_bias={"77": 100}, logprobs=0, **how).choices[0].logprobs.tokens
    assert len(set(forced)) == 1 and forced != plain
    free = client.completions.create(frequency_penalty=2, presence_penalty=2, logit_bias={"77": 10}, logprobs=0, **how)
    assert len(set(free.choices[0].logprobs.tokens)) > 1


def test_echo_and_ids(client, pipe):
    ids = pipe.tokenizer.encode("the cat")
    how = {"model": "text", "max_tokens": 5, "temperature": 0}
    by_text = client.completions.create(prompt="the cat", **how).choices[0].text
    assert client.completions.create(prompt=ids, **how).choices[0].text == by_text
    assert client.completions.create(prompt=[ids, ids], echo=True, **how).choices[1].text == "the cat" + by_text
    pieces = streamed(client, prompt="the cat", echo=True, **how)
    assert "".join(one.choices[0].text for one in pieces) == "the cat" + by_text


def test_chat(client, models):
    pipe = headway.load(models["chat"])
    found = client.chat.completions.create(model="chat", messages=MESSAGES, max_tokens=17, temperature=0)
    assert found.choices[0].message.content == pipe.chat(MESSAGES, max_tokens=17, temperature=0.0)
    content = [{"type": "text", "text": "the cat sat"}]
    parts = [{"role": "developer", "content": "be old"}, {"role": "user", "content": content}]
    chunks = list(
        client.chat.completions.create(
            model="chat", messages=parts, max_completion_tokens=17, temperature=0, stream=True,
            stream_options={"include_usage": True},
        )
    )  # fmt: skip
    assert "".join(one.choices[0].delta.content or "" for one in chunks[:-1]) == found.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[-2].choices[0].finish_reason in ("stop", "length")
    assert chunks[-1].choices == [] and chunks[-1].usage == found.usage
    assert len({(one.id, one.created, one.model) for one in chunks}) == 1


def test_embeddings(client, models):
    pipe, texts = headway.load(models["vectors"]), ["the cat", "old dogs " * 40]
    found = client.embeddings.create(model="vectors", input=texts)
    assert [one.embedding for one in found.data] == [pytest.approx(row.tolist(), abs=1e-6) for row in pipe(texts)]
    plain = client.embeddings.create(model="vectors", input=texts[0], encoding_format="float").data[0].embedding
    raw = client.embeddings.with_raw_response.create(model="vectors", input=texts[0], encoding_format="base64")
    bits = base64.b64decode(raw.http_response.json()["data"][0]["embedding"])
    assert plain == pytest.approx(list(struct.unpack(f"<{len(bits) // 4}f", bits)), abs=1e-6)
    ids = pipe.tokenizer.encode("the cat", special=True)
    assert client.embeddings.create(model="vectors", input=ids).data[0].embedding == pytest.approx(plain, abs=1e-6)
    told = client.embeddings.create(model="vectors", input=["🙂", "the cat"]).model_extra["warnings"]
    assert told == ["1 of 2 texts has no token that the model knows: such a vector means nothing"]


def test_ids_are_read_as_they_are_given(client, models):
    """Special tokens and those for what is unknown too: nothing is decoded, and nothing is added."""
    pipe = headway.load(models["vectors"])
    tokenizer, whole = pipe.tokenizer, pipe.tokenizer.encode("the cat", special=True)
    given = [whole, whole[1:-1], [tokenizer.unknown] * 2, [*whole[:2], tokenizer.unknown, *whole[2:]], [whole[0]]]
    with torch.no_grad():
        expected = [pytest.approx(pipe.pooled(torch.tensor([ids]))[0].tolist(), abs=1e-5) for ids in given]
    assert expected[0] == pipe("the cat").tolist()
    found = client.embeddings.create(model="vectors", input=given)
    assert [one.embedding for one in found.data] == expected and found.usage.total_tokens == sum(map(len, given))
    for ids, vector in zip(given, expected, strict=True):
        assert client.embeddings.create(model="vectors", input=ids).data[0].embedding == vector
    longer = client.embeddings.create(model="vectors", input=whole * 500)
    assert "only the beginning is read" in longer.model_extra["warnings"][0]
    assert longer.usage.prompt_tokens == pipe.max_length
    (told,) = client.embeddings.create(model="vectors", input=[*["a"] * 17, "cat " * 500]).model_extra["warnings"]
    assert told.startswith("input[16] to input[17]: 1 of 2 texts is longer than")
    with pytest.raises(openai.BadRequestError, match="1000000 is no id of a token"):
        client.embeddings.create(model="vectors", input=[[1], [2, 10**6]])


def test_many_clients_at_once_get_what_each_gets_alone(server):
    prompts = [f"the cat {'sat on ' * number}" for number in range(8)]
    how = {"model": "text", "max_tokens": 30, "temperature": 0}

    async def ask():
        async with openai.AsyncOpenAI(base_url=f"{server.address}/v1", api_key="none", timeout=60) as client:
            alone = [(await client.completions.create(prompt=one, **how)).choices[0].text for one in prompts]
            together = await asyncio.gather(*(client.completions.create(prompt=one, **how) for one in prompts))
            return alone, [one.choices[0].text for one in together]

    alone, together = asyncio.run(ask())
    assert alone == together


@pytest.mark.parametrize(
    ("how", "param", "code"),
    [
        ({"prompt": "a" * 4000}, "prompt", "context_length_exceeded"),
        ({"max_tokens": 5000}, "prompt", "context_length_exceeded"),
        ({"max_tokens": 0}, "max_tokens", "invalid_value"),
        ({"temperature": 2.1}, "temperature", "invalid_value"),
        ({"top_p": -0.1}, "top_p", "invalid_value"),
        ({"extra_body": {"top_k": -2}}, "top_k", "invalid_value"),
        ({"n": 9}, "n", "invalid_value"),
        ({"prompt": ["a"] * 33, "n": 2}, "n", "invalid_value"),
        ({"prompt": []}, "prompt", "invalid_value"),
        ({"prompt": [999999]}, "prompt", "invalid_value"),
        ({"prompt": [[1], [-1]]}, "prompt[1][0]", "invalid_value"),
        ({"stop": ["a"] * 5}, "stop", "invalid_value"),
        ({"stop": ""}, "stop", "invalid_value"),
        ({"logprobs": 6}, "logprobs", "invalid_value"),
        ({"logit_bias": {"999999": 1}}, "logit_bias", "invalid_value"),
        ({"logit_bias": {"1": 101}}, "logit_bias.1", "invalid_value"),
        ({"seed": 1 << 63}, "seed", "invalid_value"),
        ({"suffix": "x"}, "suffix", "unsupported_parameter"),
        ({"best_of": 2}, "best_of", "unsupported_parameter"),
        ({"extra_body": {"guided_json": {"type": "object"}}}, "guided_json", "unsupported_parameter"),
        ({"extra_body": {"guided_json": {}}}, "guided_json", "unsupported_parameter"),
        ({"extra_body": {"enable_thinking": False}}, "enable_thinking", "unsupported_parameter"),
        ({"extra_body": {"allowed_token_ids": []}}, "allowed_token_ids", "unsupported_parameter"),
        ({"extra_body": {"response_format": {"type": "json_schema"}}}, "response_format", "unsupported_parameter"),
        ({"extra_body": {"grammar": "root ::= x"}}, "grammar", "unsupported_parameter"),
        ({"extra_body": {"min_tokens": 5}}, "min_tokens", "unsupported_parameter"),
        ({"extra_body": {"top_a": 1.0}}, "top_a", "unsupported_parameter"),
        ({"extra_body": {"verbosity": "low"}}, "verbosity", "unsupported_parameter"),
        ({"extra_body": {"skip_special_tokens": False}}, "skip_special_tokens", "unsupported_parameter"),
        ({"model": "labels"}, "model", "invalid_value"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "invalid_value"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(client, how, param, code):
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(**{"model": "text", "prompt": "the", "max_tokens": 3, **how})
    assert (caught.value.param, caught.value.code, caught.value.type) == (param, code, "invalid_request_error")


@pytest.mark.parametrize(
    ("how", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"extra_body": {"web_search_options": {}}}, "web_search_options"),
        ({"messages": [{"role": "assistant", "content": "a", "reasoning_content": "so"}, *MESSAGES]}, None),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"model": "text"}, None),
    ],
)  # fmt: skip
def test_a_wrong_field_of_a_chat_is_named(client, how, param):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**{"model": "chat", "messages": MESSAGES, "max_tokens": 3, **how})
    assert caught.value.param == param


def test_what_changes_nothing_is_accepted(client):
    plain = client.chat.completions.create(model="chat", messages=MESSAGES, max_tokens=2, temperature=0)
    more = client.chat.completions.create(
        model="chat", messages=MESSAGES, max_tokens=2, temperature=0, tools=[], tool_choice="none",
        user="u", store=False, top_p=None,
        extra_body={"never_heard_of": 1, "top_k": -1, "min_tokens": 0, "top_a": 0, "ignore_eos": False}
        | {"length_penalty": 1.0},
        response_format={"type": "text"}, modalities=["text"],
    )  # fmt: skip
    assert more.choices == plain.choices
    assert more.warnings == ["never_heard_of is not known here, and not read"] and not hasattr(plain, "warnings")


def test_what_is_not_read_is_named(client):
    messages = [{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": 1}], "weight": 1}]
    asked = {"max_tokens": 2, "temperature": 0, "extra_body": {"temprature": 0, "metadata": {"a": "b"}}}
    said = ["temprature is not known here, and not read"]
    found = client.chat.completions.create(model="chat", messages=messages, **asked).warnings
    named = {one.split()[0] for one in found}
    assert named == {"temprature", "messages[0].weight", "messages[0].content[0].cache_control"}
    assert client.completions.create(model="text", prompt="a", **asked).warnings == said
    streamed = client.completions.create(model="text", prompt="a", stream=True, **asked)
    assert all(piece.warnings == said for piece in streamed)
    vectors = client.embeddings.create(model="vectors", input=["a"], extra_body={"dimension": 3})
    assert vectors.warnings == ["dimension is not known here, and not read"]
    off = {"normalize": False, "truncate": [], "modality": "none", "task": "", "late": None}
    vectors = client.embeddings.create(model="vectors", input=["a"], extra_body=off)
    assert [one.split()[0] for one in vectors.warnings] == ["normalize", "truncate", "modality", "task"]
    empty = {**MESSAGES[0], "tools": 0, "functions": "", "tool_calls": None}
    found = client.chat.completions.create(model="chat", messages=[empty], max_tokens=2).warnings
    assert [one.split()[0] for one in found] == ["messages[0].tools", "messages[0].functions"]
    named = client.chat.completions.create(model="chat", messages=[{**MESSAGES[0], "name": "bob"}], max_tokens=2)
    assert named.warnings == ["messages: the chat template of this model reads no name of a message"]


def test_top_p_of_nothing_is_greedy(client):
    greedy = client.completions.create(model="text", prompt="the", max_tokens=8, temperature=0)
    assert client.completions.create(model="text", prompt="the", max_tokens=8, top_p=0).choices == greedy.choices


def test_the_name_of_a_message_reaches_the_template():
    given = {"role": "developer", "content": [{"type": "text", "text": "a"}], "name": "bob"}
    assert _message(given) == {"role": "system", "content": "a", "name": "bob"}
