"""BPE dropout cuts words into known subwords, in other ways each time, and always the same for one seed and epoch."""

import itertools
import random
from collections import Counter

import pytest

from headway.data.batches.encoded import unnamed_rows
from headway.errors import InputError
from headway.text import bpe_dropout
from headway.text.bpe_dropout import VARIANTS, BPEDropout, cut
from headway.text.train import train_tokenizer

CHOOSE = random.Random(5)
WORDS = ["the", "cat", "sat", "on", "a", "mat", "while", "old", "dogs", "ran", "größer", "naïve", "日本語", "e\u0301t"]
TEXTS = [" ".join(CHOOSE.choices(WORDS, k=9)) + "." for _ in range(199)]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXTS, "bpe", 331, role="translator")


def test_without_dropout_it_is_the_tokenizer(tokenizer):
    odd = [*TEXTS, "", "  two  spaces ", "new words: ßørensen 🙂\u2028", "</s> is text"]
    assert list(BPEDropout(tokenizer, odd, 0.0, 3).encode(0)) == tokenizer.encode_batch(odd, special=True)


def test_all_merges_left_out_leave_bytes(tokenizer):
    (ids,) = BPEDropout(tokenizer, ["cat"], 0.999999, 3).encode(0)
    assert [tokenizer.tokens[token] for token in ids] == ["Ġ", "c", "a", "t", "</s>"]


def test_texts_come_back_whole_and_are_cut_in_other_ways(tokenizer):
    made = BPEDropout(tokenizer, TEXTS, 0.3, 3)
    plain = [tokenizer.decode(ids) for ids in tokenizer.encode_batch(TEXTS)]
    first, second = list(made.encode(0)), list(made.encode(1))
    assert [tokenizer.decode(ids) for ids in first] == [tokenizer.decode(ids) for ids in second] == plain
    assert first != second and sum(map(len, first)) > sum(map(len, tokenizer.encode_batch(TEXTS, special=True)))
    assert list(BPEDropout(tokenizer, TEXTS, 0.3, 3).encode(1)) == second == list(made.encode(1))
    assert list(BPEDropout(tokenizer, TEXTS, 0.3, 4).encode(1)) != second
    assert len({tuple(made._cut(0, variant)) for variant in range(VARIANTS)}) > 1


def test_what_is_kept_does_not_change_what_is_read(tokenizer, monkeypatch):
    expected = [list(BPEDropout(tokenizer, TEXTS, 0.3, 3).encode(epoch)) for epoch in (0, 1)]
    monkeypatch.setattr(bpe_dropout, "MOST_KEPT", 5)
    made = BPEDropout(tokenizer, iter(TEXTS), 0.3, 3, lambda rows: unnamed_rows(rows, 1 << 32))
    assert [list(made.encode(epoch)) for epoch in (0, 1)] == expected and len(made._cuts) == 5


def test_merges_are_made_in_the_order_of_their_learning():
    """Against the plain way: at every step all merges are looked at, and each is left out with the same chance."""

    def plain(word, ranks, share, choose):
        tokens = list(word)
        while True:
            pairs = list(itertools.pairwise(tokens))
            left = [(ranks[pair], i) for i, pair in enumerate(pairs) if pair in ranks and choose.random() >= share]
            if not left:
                return tokens
            _, i = min(left)
            tokens[i : i + 2] = [tokens[i] + tokens[i + 1]]

    pairs = [("a", "b"), ("ab", "c"), ("c", "a"), ("abc", "abc"), ("b", "c"), ("a", "bc"), ("a", "a"), ("aa", "aa")]
    ranks, choose = {pair: rank for rank, pair in enumerate(pairs)}, random.Random(2)
    for length in range(1, 40):
        word = "".join(choose.choices("aabc", k=length))
        assert cut(word, ranks, 0.0, choose) == plain(word, ranks, 0.0, choose)
    counts = [Counter(tuple(way("abcabca", ranks, 0.3, choose)) for _ in range(8000)) for way in (cut, plain)]
    for found in counts[1]:
        assert counts[0][found] / 8000 == pytest.approx(counts[1][found] / 8000, abs=0.03)


def test_long_words_are_cut_anew_each_time(tokenizer):
    text = "日本語größer" * 30
    made = BPEDropout(tokenizer, [text], 0.9, 3)
    found = {tuple(*made.encode(epoch)) for epoch in range(VARIANTS + 9)}
    assert len(found) == VARIANTS + 9 and not made._cuts
    assert {tokenizer.decode(ids) for ids in found} == {text}


def test_each_merge_is_left_out_as_often_as_asked():
    ranks, choose = {("a", "b"): 0}, random.Random(1)
    left = sum(cut("ab", ranks, 0.1, choose) == ["a", "b"] for _ in range(10_007))
    assert left / 10_007 == pytest.approx(0.1, abs=0.01)


def test_tokenizers_without_merges_are_refused():
    words = train_tokenizer(TEXTS, "word", 50, role="translator")
    with pytest.raises(InputError, match="this tokenizer is of kind 'word'"):
        BPEDropout(words, TEXTS, 0.1, 0)
