"""A language model from elsewhere behind HTTP: its begin token, the space after a prompt, halves of characters."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
import torch
from served_models import Server

import headway

sys.path.append(str(Path(__file__).parent.parent / "parity"))
import foreign_models

PROMPT = "Anna brings"
UNTRAINED = ("llama_sentencepiece", "qwen2")
HOW = {"model": "llama_sentencepiece", "prompt": PROMPT, "max_tokens": 12, "temperature": 0}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("foreign")
    made = [foreign_models.make("llama_sentencepiece", folder / "llama_sentencepiece", steps=60)]
    return made + [foreign_models.make(name, folder / f"untrained_{name}", steps=0) for name in UNTRAINED]


@pytest.fixture(scope="module")
def client(places: list[Path]) -> Iterator[openai.OpenAI]:
    with Server(*places, "--quiet") as server:
        yield openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def theirs(places: list[Path]) -> tuple[Any, Any, str]:
    """Model and tokenizer of transformers, and their continuation of the prompt."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(places[0]), AutoModelForCausalLM.from_pretrained(places[0])
    ids = tokenizer(PROMPT, return_tensors="pt").input_ids
    whole = model.generate(ids, max_new_tokens=12, do_sample=False)[0]
    return model, tokenizer, tokenizer.decode(whole, skip_special_tokens=True)[len(PROMPT) :]


def test_the_space_after_the_prompt_is_kept_everywhere(client, theirs, places, in_process):
    text = theirs[2]
    assert text.startswith(" ")
    plain = client.completions.create(**HOW)
    assert plain.choices[0].text == text
    assert plain.usage.prompt_tokens == len(theirs[1](PROMPT).input_ids)
    assert client.completions.create(**HOW, echo=True).choices[0].text == PROMPT + text
    pieces = list(client.completions.create(**HOW, stream=True, logprobs=2))
    assert "".join(one.choices[0].text for one in pieces) == text
    assert "".join(token for one in pieces for token in one.choices[0].logprobs.tokens) == text
    cut = client.completions.create(**HOW, stop=[f" {text.split()[1]}"]).choices[0]
    assert cut.text == text[: text.index(f" {text.split()[1]}")] and cut.finish_reason == "stop"
    assert headway.load(places[0])(PROMPT, temperature=0, max_tokens=12) == text
    status, out, err = in_process("generate", places[0], PROMPT, "--temperature", "0", "--max-tokens", "12")
    assert (status, out) == (0, f"{PROMPT}{text}\n"), err


def test_an_empty_prompt_begins_with_the_begin_token(client, theirs):
    model, tokenizer, _ = theirs
    found = client.completions.create(**{**HOW, "prompt": "", "max_tokens": 1}, logprobs=5).choices[0].logprobs
    with torch.no_grad():
        logits = model(torch.tensor([[tokenizer.bos_token_id]])).logits[0, -1]
    best = logits.log_softmax(dim=-1).max()
    assert found.token_logprobs[0] == pytest.approx(float(best), abs=1e-4)


def test_each_alternative_has_its_own_name(client, places):
    """Halves of characters are written as bytes, and a word with its space is not the word without it."""
    for place in places[1:]:
        choice = client.completions.create(
            **{**HOW, "model": place.name, "prompt": "Émile — 日本", "max_tokens": 60}, logprobs=5
        ).choices[0]
        names = [name for row in choice.logprobs.top_logprobs for name in row]
        assert [len(row) for row in choice.logprobs.top_logprobs] == [5] * len(choice.logprobs.tokens)
        assert any(name.startswith("bytes:\\x") for name in names) and "\ufffd" not in names
        assert all(name for name in names)  # rows of the table without a token are no candidates
