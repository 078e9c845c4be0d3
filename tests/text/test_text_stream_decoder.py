"""Streaming: pieces equal the whole, characters stay whole, stop strings are found wherever the pieces are cut."""

from itertools import pairwise
from unicodedata import normalize

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers

from headway.errors import InputError
from headway.text import KINDS, StopStrings, Tokenizer, train_tokenizer
from headway.text.stream_decoder import CONTEXT, byte_alphabet

TEXT = "Speak, speak!  日本語 👩‍👩‍👧 e\u0301 ที่นี่ \ufffd real\n\n\tend of it. "
LINES = [TEXT, "It's a long, long way; isn't it? playing played player"] * 5


def made(decoder: decoders.Decoder, tokens: list[str]) -> Tokenizer:
    backend = tokenizers.Tokenizer(models.WordLevel({token: n for n, token in enumerate(tokens)}, unk_token=tokens[0]))
    backend.decoder = decoder
    return Tokenizer(backend, {"unk_token": tokens[0]})


LLAMA = decoders.Sequence(
    [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
)
BYTES = [f"<0x{byte:02X}>" for byte in (0xE2, 0x82, 0xAC, 0xF0, 0x41)]
TOKENIZERS = {
    **{f"{kind}-{role}": train_tokenizer(LINES, kind, role=role) for kind in KINDS for role in ("decoder", "encoder")},
    "byte fallback": made(LLAMA, ["<unk>", "▁", "▁a", "b", "\n", *BYTES]),
    "metaspace": made(decoders.Metaspace(), ["<unk>", "▁", "▁a", "b", "▁c"]),
    "suffix": made(decoders.BPEDecoder("</w>"), ["<unk>", "a", "b</w>", "c</w>"]),
    "clean-up": made(decoders.WordPiece("##", cleanup=True), ["[UNK]", "do", "n't", "##b", ".", "'s"]),
    "bytes and more": made(
        decoders.Sequence([decoders.ByteLevel(), decoders.Replace("x", "y")]), ["<unk>", "x", *byte_alphabet()]
    ),
}


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_pieces_joined_equal_the_whole(name: str, data: st.DataObject) -> None:
    tokenizer = TOKENIZERS[name]
    numbers = st.integers(0, tokenizer.vocab_size - 1)
    ids = data.draw(st.lists(numbers, max_size=14 if name == "bytes and more" else 40))
    for skip in (True, False):
        stream = tokenizer.stream(skip_special=skip)
        pieces = [stream.push(number) for number in ids] + [stream.finish()]
        assert "".join(pieces) == tokenizer.decode(ids, skip_special=skip)


@pytest.mark.parametrize("name", [name for name in TOKENIZERS if name.startswith(KINDS)])
def test_no_piece_ends_inside_a_character(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    ids = tokenizer.encode(TEXT)
    stream = tokenizer.stream()
    pieces = [stream.push(number) for number in ids]
    real = 0 if tokenizer.kind == "wordpiece" else 1  # as BERT does, WordPiece drops U+FFFD before it splits
    assert "".join(pieces).count("\ufffd") == tokenizer.decode(ids).count("\ufffd") == real
    assert stream.finish() == ""
    if tokenizer.kind in ("bpe", "char"):
        assert "".join(pieces) == normalize("NFC", TEXT)


def test_bytes_wait_for_their_character() -> None:
    tokenizer = TOKENIZERS["bpe-decoder"]
    plain = train_tokenizer(["a"], "bpe", 257)
    stream = plain.stream()
    assert [stream.push(number) for number in plain.encode("€a\ufffd")] == ["", "", "€", "a", "", "", "\ufffd"]
    stream = plain.stream()
    assert [stream.push(number) for number in plain.encode("€")[:2]] == ["", ""]
    assert stream.finish() == "\ufffd"
    assert tokenizer.stream().push(tokenizer.end_of_text) == ""
    assert tokenizer.stream().push(10**6) == ""


def test_work_per_id_does_not_grow() -> None:
    longest = 0
    tokenizer = TOKENIZERS["wordpiece-encoder"]
    stream = tokenizer.stream()
    decode = stream._decode

    def counting(ids: list[int]) -> str:
        nonlocal longest
        longest = max(longest, len(ids))
        return decode(ids)

    stream._decode = counting
    for number in tokenizer.encode(TEXT) * 50:
        stream.push(number)
    assert longest == CONTEXT + 1


def test_byte_alphabet_is_that_of_the_library() -> None:
    assert set(byte_alphabet()) == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(byte_alphabet().values()) == list(range(256))
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False)
    for character in "aé€\U0001f600\n ":
        written = "".join(word for word, _ in splitter.pre_tokenize_str(character))
        assert bytes(byte_alphabet()[sign] for sign in written) == character.encode()


def pushed(stops: str | list[str], pieces: list[str]) -> tuple[str, bool]:
    checker = StopStrings(stops)
    shown = ""
    for piece in pieces:
        text, stopped = checker.push(piece)
        shown += text
        if stopped:
            assert checker.push("more") == ("", True)
            break
    return shown + checker.finish(), checker.stopped


@pytest.mark.parametrize("pieces", [["one\n\ntwo"], ["one\n", "\ntwo"], list("one\n\ntwo"), ["one", "\n\ntwo"]])
def test_a_stop_string_is_found_across_pieces(pieces: list[str]) -> None:
    assert pushed(["\n\n"], pieces) == ("one", True)
    assert pushed("\n\n", pieces) == ("one", True)
    assert pushed(["two!", "xyz"], pieces) == ("one\n\ntwo", False)
    assert pushed([], pieces) == ("one\n\ntwo", False)


def test_no_more_is_held_than_may_begin_a_stop_string() -> None:
    checker = StopStrings(["User:", "\n\n"])
    assert checker.push("a User") == ("a ", False)
    assert checker.push("s are") == ("Users are", False)
    assert checker.push("\n") == ("", False)
    assert checker.push(".") == ("\n.", False)
    assert checker.finish() == ""


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(
    text=st.text("ab", max_size=20),
    stops=st.lists(st.text("ab", min_size=1, max_size=5), max_size=3),
    cuts=st.lists(st.integers(0, 20), max_size=6),
)
def test_where_the_pieces_are_cut_makes_no_difference(text: str, stops: list[str], cuts: list[int]) -> None:
    borders = [0, *sorted(cut for cut in cuts if cut <= len(text)), len(text)]
    pieces = [text[start:end] for start, end in pairwise(borders)]
    shown, stopped = pushed(stops, pieces)
    assert (shown, stopped) == pushed(stops, list(text))
    assert stopped == any(stop in text for stop in stops)
    assert not any(stop in shown for stop in stops)
    assert text.startswith(shown)


def test_an_empty_stop_string_is_an_error() -> None:
    with pytest.raises(InputError, match="at least one character"):
        StopStrings(["a", ""])
