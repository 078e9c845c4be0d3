"""Trained tokenizers: exact round trips, special tokens as data, sizes, determinism, bounded memory."""

import pickle
import subprocess
import sys
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.errors import InputError
from headway.text import KINDS, Tokenizer, train_tokenizer

LINES = [
    "First Citizen: Before we proceed any further, hear me speak.",
    "All: Speak, speak!\n\n\tResolved rather to die than to famish?",
    "日本語の文章です。 Ünïcödé naïve café",
    "ภาษาไทย हिन्दी עברית العربية 👩‍👩‍👧 👍🏽",
    "it's 12:30, don't you think?  two  spaces ",
] * 7
ROLES = ("decoder", "encoder")
LOOKALIKES = ["<|endoftext|>", "<|unk|>", "[MASK]", "[CLS]", "[SEP]", "[PAD]", "[UNK]", "a<|endoftext|>b [MASK]."]
HARD = [
    "👩‍👩‍👧‍👦🏳️‍🌈",
    "e\u0301 a\u0308\u0323",
    "ก็ที่นี่",
    "\u200d\u200b\ufeff",
    "\x00\x7f\x85\u2028",
    "\U0010ffff\ufffd\ufffe",
    " \r\n \t ",
]


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    return train_tokenizer(LINES, "bpe", 307)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("text", HARD + LOOKALIKES)
def test_bpe_gives_every_text_back(text: str, role: str) -> None:
    tokenizer = train_tokenizer(LINES, "bpe", 307, role=role)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == normalize("NFC", text)
    assert tokenizer.special_ids.isdisjoint(ids)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(text=st.text(max_size=60))
def test_bpe_gives_any_text_back(bpe: Tokenizer, text: str) -> None:
    assert bpe.decode(bpe.encode(text)) == normalize("NFC", text)


@pytest.mark.parametrize("kind", ["word", "char"])
def test_known_text_comes_back_with_its_spaces(kind: str) -> None:
    tokenizer = train_tokenizer(LINES, kind)
    for line in LINES:
        assert tokenizer.decode(tokenizer.encode(line)) == line


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_in_data_are_text(kind: str, role: str) -> None:
    tokenizer = train_tokenizer([*LINES, *LOOKALIKES], kind, role=role)
    for text in LOOKALIKES:
        for ids in (tokenizer.encode(text), tokenizer.encode_batch([text])[0]):
            assert ids and tokenizer.special_ids.isdisjoint(ids)
            assert tokenizer.decode(ids)
    mark = tokenizer.tokens[tokenizer.mask if role == "encoder" else tokenizer.end_of_text]
    wanted = tokenizer.mask if role == "encoder" else tokenizer.end_of_text
    assert tokenizer.encode(mark, allow_special=True) == [wanted]
    assert wanted not in tokenizer.encode(mark), "the switch must not stay on"


@pytest.mark.parametrize("kind", KINDS)
def test_special_ids(kind: str) -> None:
    decoder = train_tokenizer(LINES, kind)
    assert (decoder.end_of_text, decoder.begin_of_text, decoder.mask, decoder.cls) == (0, 0, None, None)
    assert decoder.unknown == (None if kind == "bpe" else 1)
    assert decoder.encode("speak", special=True) == decoder.encode("speak")
    encoder = train_tokenizer(LINES, kind, role="encoder")
    assert [encoder.pad, encoder.unknown, encoder.cls, encoder.sep, encoder.mask] == [0, 1, 2, 3, 4]
    assert encoder.end_of_text is None
    assert encoder.tokens[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    plain = encoder.encode("speak")
    assert encoder.encode("speak", special=True) == [2, *plain, 3]
    ids, types, _ = encoder.encode_pair("speak", "All")
    second = encoder.encode("All")
    assert ids == [2, *plain, 3, *second, 3]
    assert types == [0] * (len(plain) + 2) + [1] * (len(second) + 1)
    for tokenizer in (decoder, encoder):
        assert tokenizer.kind == kind
        assert tokenizer.vocab_size == len(tokenizer.tokens) == len(set(tokenizer.tokens))


def test_unknown_words_and_characters_give_no_text() -> None:
    for kind, text, known in (("word", "All zebras speak", "All  speak"), ("char", "AllΩ", "All")):
        tokenizer = train_tokenizer(LINES, kind)
        ids = tokenizer.encode(text)
        assert tokenizer.unknown in ids
        assert tokenizer.decode(ids) == known
        assert "<|unk|>" in tokenizer.decode(ids, skip_special=False)


def test_lowercase_is_for_encoders_and_keeps_vowels() -> None:
    for kind in ("word", "wordpiece"):
        encoder = train_tokenizer(LINES, kind, role="encoder")
        assert encoder.encode("SPEAK, all") == encoder.encode("speak, All")
        assert encoder.unknown not in encoder.encode("ภาษาไทย")
        cased = train_tokenizer(LINES, kind, role="encoder", lowercase=False)
        assert cased.encode("All") != cased.encode("all")
    assert train_tokenizer(["ที่นี่"], "word", role="encoder").decode([5]) == "ที่นี่"


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("kind", KINDS)
def test_sizes_are_bounds(kind: str, role: str) -> None:
    for size in (269, 100_003):
        assert len(train_tokenizer(LINES, kind, size, role=role)) <= size
    small = 7 + (256 if kind == "bpe" else 0)
    assert len(train_tokenizer(LINES, kind, small, role=role)) <= small


def test_a_vocabulary_too_small_is_an_error_with_numbers() -> None:
    with pytest.raises(InputError, match=r"found 256, expected at least 257"):
        train_tokenizer(LINES, "bpe", 256)
    with pytest.raises(InputError, match=r"found 260, expected at least 261"):
        train_tokenizer(LINES, "bpe", 260, role="encoder")
    with pytest.raises(InputError, match=r"found 3, expected at least 4"):
        train_tokenizer(LINES, "char", 3)


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_and_unknown_words_are_errors(kind: str) -> None:
    for texts in ([], ["", ""]):
        with pytest.raises(InputError, match="no text"):
            train_tokenizer(texts, kind)
    with pytest.raises(InputError, match=r"U\+D800"):
        train_tokenizer(["ok", "bad \ud800"], kind)
    with pytest.raises(InputError, match="expected one of bpe"):
        train_tokenizer(LINES, kind.upper())
    with pytest.raises(InputError, match="expected one of decoder"):
        train_tokenizer(LINES, kind, role="both")


def test_reading_stops_at_the_bound_and_says_so() -> None:
    def endless():
        while True:
            yield "speak speak "

    for kind in KINDS:
        tokenizer = train_tokenizer(endless(), kind, max_characters=10_007)
        assert (tokenizer.trained_on_characters, tokenizer.sampled) == (10_007, True)
    spread = train_tokenizer("".join(chr(0x4E00 + i) * 16_384 for i in range(100)), "char", max_characters=163_840)
    assert spread.sampled and 5 <= len(spread.tokens) - len(spread.special_ids) <= 15
    assert chr(0x4E00 + 80) < max(token for token in spread.tokens if len(token) == 1), "from all of the text"
    whole = train_tokenizer(LINES, "char", max_characters=sum(map(len, LINES)))
    assert (whole.trained_on_characters, whole.sampled) == (sum(map(len, LINES)), False)


def test_text_without_spaces_stops_at_the_bound_on_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.text.train.MAX_DISTINCT", 40_000)
    tokenizer = train_tokenizer((str(n) * 1000 for n in range(1, 100)), "bpe", 263)
    assert tokenizer.sampled and 40_000 <= tokenizer.trained_on_characters < 60_000


TRAIN = """
import hashlib, random
from headway.text import KINDS, train_tokenizer
draw = random.Random(11)
words = ["".join(draw.choice("abcdefghijklmnopé") for _ in range(draw.randint(1, 9))) for _ in range(3001)]
lines = [" ".join(draw.choice(words) for _ in range(101)) for _ in range(101)]
for kind in KINDS:
    for role in ("decoder", "encoder"):
        print(hashlib.sha256(train_tokenizer(lines, kind, 701, role=role).to_json().encode()).hexdigest())
"""


def test_the_same_text_gives_the_same_bytes_in_every_process() -> None:
    outputs = {subprocess.run([sys.executable, "-c", TRAIN], capture_output=True, check=True).stdout for _ in range(3)}
    assert len(outputs) == 1


STREAM = """
import random, resource
from headway.text import train_tokenizer
draw = random.Random(5)
words = ["".join(draw.choice("etaoinshrdlu") for _ in range(draw.randint(1, 9))) for _ in range(5003)]
lines = [" ".join(draw.choices(words, k=1009)) for _ in range(499)]
def texts():
    size = 0
    while size < 20_000_000:
        line = draw.choice(lines)
        size += len(line)
        yield line
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
tokenizer = train_tokenizer(texts(), "bpe", 1009, max_characters=30_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, tokenizer.trained_on_characters)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is in kilobytes on Linux")
def test_twenty_megabytes_train_in_bounded_memory() -> None:
    done = subprocess.run([sys.executable, "-c", STREAM], capture_output=True, check=True, text=True)
    kilobytes, characters = map(int, done.stdout.split())
    assert characters >= 20_000_000
    assert kilobytes < 80_000


def test_a_tokenizer_can_be_pickled() -> None:
    tokenizer = train_tokenizer(LINES, "bpe", 307, role="encoder")
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.to_json() == tokenizer.to_json()
    assert copy.encode("[MASK] speak", special=True) == tokenizer.encode("[MASK] speak", special=True)
    assert (copy.mask, copy.trained_on_characters) == (tokenizer.mask, tokenizer.trained_on_characters)


def test_what_is_no_text_or_no_id_is_one_error(bpe: Tokenizer) -> None:
    with pytest.raises(InputError, match=r"^the text is not valid Unicode: found the lone surrogate U\+D800; write"):
        bpe.encode("\ud800")
    with pytest.raises(
        InputError, match=r"^text 1 is not valid Unicode: found the byte 0xE9; write the text in UTF-8$"
    ):
        bpe.encode_batch(["fine", "caf\udce9"])
    with pytest.raises(InputError, match=r"^the text is not valid Unicode"):
        bpe.encode_batch(["caf\udce9"])
    with pytest.raises(InputError, match=r"^the text is not valid Unicode"):
        bpe.encode_pair("fine", "caf\udce9")
    with pytest.raises(InputError, match="text 1 cannot be encoded"):
        bpe.encode_batch(["fine", None])  # type: ignore[list-item]
    with pytest.raises(InputError, match="cannot be decoded"):
        bpe.decode([-1])
    assert bpe.encode_batch([]) == []
    assert bpe.encode_batch(iter(["a", ""])) == [bpe.encode("a"), []]


@pytest.mark.parametrize("kind", KINDS)
def test_places_are_the_characters_of_each_token(kind: str):
    text = "Mr. Smith's Berlin-based caf\u00e9, don't"
    tokenizer = train_tokenizer([text] * 3, kind, 331, role="encoder", lowercase=False)
    (ids, places), (none, nowhere) = tokenizer.encode_places([text, ""])
    assert ids == tokenizer.encode(text) and none == nowhere == []
    covered = "".join(text[start:end] for start, end in places)
    assert covered.replace(" ", "") == text.replace(" ", "")
    assert [start for start, _ in places] == sorted(start for start, _ in places)
    with pytest.raises(InputError, match="text 1 is not valid Unicode"):
        list(tokenizer.encode_places(["a", "\ud800"]))
