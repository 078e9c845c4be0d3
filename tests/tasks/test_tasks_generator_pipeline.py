"""A trained language model, used."""

import pytest

import headway
from headway.errors import InputError

PROMPTS = ["the cat", "on", "old dogs ran past red doors and the cat sat on a mat while", ""]


@pytest.fixture(scope="module")
def lm(lm_run):
    return headway.load(lm_run)


@pytest.fixture(scope="module")
def char(char_run):
    return headway.load(char_run)


@pytest.mark.parametrize("options", [{"temperature": 0}, {"seed": 3}, {"seed": 5, "top_k": 7, "max_tokens": 97}])
def test_a_stream_joined_is_the_call_and_a_list_is_each_by_itself(lm, options):
    options = {"max_tokens": 40, **options}
    alone = [lm(prompt, **options) for prompt in PROMPTS]
    assert ["".join(lm.stream(prompt, **options)) for prompt in PROMPTS] == alone
    assert lm(PROMPTS, **options) == alone
    assert all(alone)


@pytest.mark.parametrize("cut", [1, 3, 5])
def test_a_stop_string_ends_the_text_wherever_tokens_end(char, cut):
    free = char("the cat", max_tokens=60, seed=3)
    stop = free[20 : 20 + cut]
    found = char("the cat", max_tokens=60, seed=3, stop=[stop, "never there"])
    assert found == free[: free.index(stop)]
    assert "".join(char.stream("the cat", max_tokens=60, seed=3, stop=stop)) == found


def test_a_stop_string_that_is_only_begun_is_not_lost(char):
    free = char("the cat", max_tokens=7, seed=3)
    assert len(free) == 7, "the prompt is no part of the result"
    assert char("the cat", max_tokens=7, seed=3, stop=[free[-2:] + "and more"]) == free


def test_a_character_never_seen_is_named(char, lm):
    with pytest.raises(InputError, match=r"'é'.*--tokenizer bpe"):
        char("the caté")
    assert isinstance(lm("the caté 日本 🙂", max_tokens=3, seed=3), str)


def test_a_seed_reproduces_and_special_tokens_never_appear(lm):
    texts = [lm("the", max_tokens=40, seed=seed) for seed in (3, 3, 5)]
    assert texts[0] == texts[1] != texts[2]
    assert not any("<|" in lm("the", max_tokens=97, seed=seed, temperature=3.0) for seed in range(7))


def test_a_long_prompt_is_read_from_its_end_with_a_warning(lm):
    with pytest.warns(UserWarning, match=r"the last 32 are read"):
        assert lm("the cat sat on a mat " * 23, max_tokens=5, temperature=0)
    assert lm(["the"], temperature=0) == [lm("the", temperature=0)] and lm([]) == []


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("max_tokens", 0), ("max_tokens", -1), ("max_tokens", 2.5), ("max_tokens", None), ("temperature", -1)),
        *(("top_p", -0.1), ("top_k", -2), ("min_p", 2), ("repetition_penalty", 0), ("stop", [""]), ("stop", [3])),
        *(("seed", "lucky"), ("seed", 1.5), ("seed", -1), ("seed", 1 << 64)),
    ],
)
def test_values_that_mean_nothing(lm, option, value):
    with pytest.raises(InputError, match=option) as raised:
        lm("the", **{option: value})
    assert "\n" not in str(raised.value)


def test_an_option_that_is_none_is_named_with_the_one_that_is_meant(lm):
    for call in (lm, lm.stream):
        with pytest.raises(InputError, match=r"unknown option .*: max_new_tokens; did you mean max_tok"):
            call("the", max_new_tokens=3)
    with pytest.raises(InputError, match=r"zzz; the options are max_tokens, temperature, .*, seed"):
        lm("the", zzz=1)
