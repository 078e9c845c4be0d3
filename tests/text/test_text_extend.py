"""A loaded tokenizer grows by tokens of new texts: old ids stay, fewer tokens per word, transformers agrees."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizer_families import build_byte_level, corpus, draw_lines

from headway.errors import InputError
from headway.text import Tokenizer, extend, train_tokenizer

TERMS = ["hypothalamus", "corticosteroid", "dose", "ใหม่ล่าสุด", "neurotransmitter", "fox's", "🧬🧬", "the"]
NEW = corpus(97, TERMS, seed=9)


@pytest.mark.parametrize("family", ["bert", "bert-cased", "gpt2", "gpt2-space", "roberta", "bart"])
def test_old_ids_stay_and_words_take_fewer_tokens(
    family: str, family_directory: Callable[[str], Path], tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    before = Tokenizer.load(family_directory(family))
    grown = extend(before, NEW, 41)
    after = grown.tokenizer
    assert len(grown.added) == 41 and after.vocab_size == before.vocab_size + 41
    assert after.tokens == [*before.tokens, *grown.added]
    assert after.special_ids == before.special_ids and after.special_tokens == before.special_tokens
    words = sum(len(text.split()) for text in NEW)
    for tokenizer, told in ((before, grown.tokens_per_word_before), (after, grown.tokens_per_word_after)):
        assert told == pytest.approx(sum(map(len, tokenizer.encode_batch(NEW))) / words)
    if before.kind == "bpe":
        assert grown.tokens_per_word_after < 0.7 * grown.tokens_per_word_before
    else:
        assert before.unknown in before.encode(NEW[0] + NEW[1])
        assert after.unknown not in {
            number for ids in after.encode_batch(NEW) for number in ids if number in before.special_ids
        }
    after.save(tmp_path)
    (tmp_path / "config.json").write_bytes((family_directory(family) / "config.json").read_bytes())
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path))
    again = Tokenizer.load(tmp_path, rows=after.vocab_size)
    for line in [*NEW, *draw_lines(211)]:
        ids = after.encode(line, special=True)
        assert ids == theirs(line)["input_ids"] == again.encode(line, special=True)
        if family == "gpt2":
            assert after.decode(ids) == line


def test_special_tokens_behind_the_vocabulary_keep_their_ids(tmp_path: Path) -> None:
    import json

    folder = build_byte_level(tmp_path, ["<|endoftext|>"], "gpt2")
    size = len(json.loads((folder / "vocab.json").read_text()))
    (folder / "added_tokens.json").write_text(json.dumps({"<|late|>": size, " word": size + 1}))
    before = Tokenizer.load(folder)
    assert before.vocab_size == size + 2
    after = extend(before, NEW, 7).tokenizer
    assert after.tokens[: size + 2] == before.tokens and after.vocab_size == size + 9
    assert after.encode("a<|late|> word", allow_special=True) == before.encode("a<|late|> word", allow_special=True)


def test_fewer_pairs_than_wanted_and_the_same_again() -> None:
    tokenizer = train_tokenizer(["ab ab"], "bpe", 280)
    grown = extend(tokenizer, ["xyz xyz xyz"], 1000)
    assert grown.added == ["xy", "xyz", "Ġxyz"] or len(grown.added) == 3
    assert grown.tokens_per_word_after == 1 and grown.tokenizer.decode(grown.tokenizer.encode("xyz xy")) == "xyz xy"
    again = extend(tokenizer, ["xyz xyz xyz"], 1000)
    assert again.added == grown.added and again.tokenizer.to_json() == grown.tokenizer.to_json()


def test_what_cannot_be_extended(family_directory: Callable[[str], Path]) -> None:
    for family in ("t5", "llama", "marian", "m2m100"):
        with pytest.raises(InputError, match="to learn new tokens"):
            extend(Tokenizer.load(family_directory(family)), NEW, 5)
    tokenizer = train_tokenizer(NEW, "bpe", 300)
    with pytest.raises(InputError, match="there is no text"):
        extend(tokenizer, ["", " "], 5)
    with pytest.raises(InputError, match="new tokens: found 0"):
        extend(tokenizer, NEW, 0)
    with pytest.raises(InputError, match="found kind 'word'"):
        extend(train_tokenizer(NEW, "word"), NEW, 5)


def test_many_words_take_seconds() -> None:
    import random

    draw = random.Random(5)
    texts = ["".join(draw.choices("abcdefgh", k=draw.randint(3, 9))) + " " for _ in range(20_011)]
    tokenizer = train_tokenizer(["hello there"], "bpe", 270)
    start = time.monotonic()
    assert len(extend(tokenizer, texts, 499).added) == 499
    assert time.monotonic() - start < 15
