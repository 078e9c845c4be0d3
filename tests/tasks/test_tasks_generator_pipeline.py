"""A trained language model, used."""

from pathlib import Path

import pytest

import headway
from headway.errors import InputError
from headway.tasks.language_modeling.pipeline import Generator

PROMPTS = ["the cat", "on", "old dogs ran past red doors and the cat sat on a mat while", ""]


@pytest.fixture(scope="module")
def lm(lm_run: Path) -> Generator:
    return headway.load(lm_run)


@pytest.fixture(scope="module")
def char(char_run: Path) -> Generator:
    return headway.load(char_run)


@pytest.mark.parametrize("options", [{"temperature": 0}, {"seed": 3}, {"seed": 5, "top_k": 7, "max_tokens": 97}])
def test_a_stream_joined_is_the_call_and_a_list_is_each_by_itself(lm: Generator, options: dict):
    options = {"max_tokens": 40, **options}
    alone = [lm(prompt, **options) for prompt in PROMPTS]
    assert ["".join(lm.stream(prompt, **options)) for prompt in PROMPTS] == alone
    assert lm(PROMPTS, **options) == alone
    assert all(alone)


def test_a_list_of_one_gives_a_list_and_an_empty_list_an_empty_one(lm: Generator):
    assert lm(["the"], temperature=0) == [lm("the", temperature=0)]
    assert lm([]) == []


def test_the_prompt_is_not_part_of_the_result(char: Generator):
    assert len(char("the cat", max_tokens=7, temperature=0)) == 7


def test_a_seed_reproduces(lm: Generator):
    texts = [lm("the", max_tokens=40, seed=seed) for seed in (3, 3, 5)]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("cut", [1, 3, 5])
def test_a_stop_string_ends_the_text_wherever_tokens_end(char: Generator, cut: int):
    free = char("the cat", max_tokens=60, seed=3)
    stop = free[20 : 20 + cut]
    found = char("the cat", max_tokens=60, seed=3, stop=[stop, "never there"])
    assert found == free[: free.index(stop)]
    assert "".join(char.stream("the cat", max_tokens=60, seed=3, stop=stop)) == found


def test_a_stop_string_that_is_only_begun_is_not_lost(char: Generator):
    free = char("the cat", max_tokens=7, seed=3)
    assert char("the cat", max_tokens=7, seed=3, stop=[free[-2:] + "and more"]) == free


def test_special_tokens_never_appear(lm: Generator):
    for seed in range(7):
        assert "<|" not in lm("the", max_tokens=97, seed=seed, temperature=3.0)


def test_a_character_never_seen_is_named(char: Generator):
    with pytest.raises(InputError, match=r"'é'.*--tokenizer bpe"):
        char("the caté")


def test_a_subword_tokenizer_knows_every_character(lm: Generator):
    assert isinstance(lm("the caté 日本 🙂", max_tokens=3, seed=3), str)


def test_a_long_prompt_is_read_from_its_end_with_a_warning(lm: Generator):
    with pytest.warns(UserWarning, match=r"the last 32 are read"):
        assert lm("the cat sat on a mat " * 23, max_tokens=5, temperature=0)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 2.5}, "max_tokens"),
        ({"max_tokens": None}, "max_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": -0.1}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"min_p": 2}, "min_p"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"seed": "lucky"}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"seed": -1}, "seed"),
        ({"seed": 1 << 64}, "seed"),
        ({"stop": [""]}, "stop"),
        ({"stop": [3]}, "stop"),
    ],
)
def test_values_that_mean_nothing(lm: Generator, options: dict, named: str):
    with pytest.raises(InputError, match=named) as raised:
        lm("the", **options)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("prompt", [None, 3, b"the", ["the", None], [["the"]]])
def test_a_prompt_that_is_no_text(lm: Generator, prompt: object):
    with pytest.raises(InputError, match="prompt"):
        lm(prompt)


def test_an_option_that_is_none_is_named_with_the_one_that_is_meant(lm: Generator):
    for call in (lm, lm.stream):
        with pytest.raises(
            InputError, match="unknown option of a language model: max_new_tokens; did you mean max_tok"
        ):
            call("the", max_new_tokens=3)
    with pytest.raises(InputError, match=r"zzz; the options are max_tokens, temperature, .*, seed"):
        lm("the", zzz=1)
