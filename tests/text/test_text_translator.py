"""The tokenizer of a translator: one for both sides, and any text comes back in NFC."""

import unicodedata

import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.text.tokenizer import Tokenizer
from headway.text.train import train_tokenizer

TEXTS = ["A man rides a bicycle.", "Ein Mann fährt Fahrrad.", "Two dogs are running in the snow.", "Zwei Hunde rennen."]


@pytest.fixture(scope="module")
def words() -> Tokenizer:
    return train_tokenizer(TEXTS * 3, "bpe", 330, role="translator")


def test_special_tokens_stand_where_m2m_100_has_them(words: Tokenizer):
    assert [words.tokens[i] for i in range(3)] == ["<s>", "<pad>", "</s>"]
    assert (words.begin_of_text, words.pad, words.end_of_text) == (0, 1, 2)
    assert words.encode(TEXTS[0], special=True) == [*words.encode(TEXTS[0]), 2]


def test_a_word_is_the_same_at_the_begin_of_a_text(words: Tokenizer):
    assert words.encode("man") == words.encode("a man")[-len(words.encode("man")) :]


@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=40))
def test_any_text_comes_back_in_nfc(words: Tokenizer, text: str):
    assert words.decode(words.encode(text, special=True)) == unicodedata.normalize("NFC", text)


def test_saved_it_is_the_same_for_other_programs(words: Tokenizer, tmp_path):
    words.save(tmp_path, max_length=64)
    again, other = Tokenizer.load(tmp_path), transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in [*TEXTS, " two  spaces", "e\u0301", "</s> spelled", "\u2028", ""]:
        assert again.encode(text, special=True) == words.encode(text, special=True)
        if "</s>" not in text:
            assert other(text)["input_ids"] == words.encode(text, special=True)
            back = other.decode(words.encode(text), skip_special_tokens=True, clean_up_tokenization_spaces=False)
            assert back == unicodedata.normalize("NFC", text)
