"""Vocabularies, merges and SentencePiece models that are broken: one error each, that says where, soon."""

import json
import random
import re
import shutil
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizer_families import BUILDERS

from headway.errors import InputError
from headway.text import Tokenizer
from headway.text.sentencepiece.model_file import fields


def copy(source: Path, to: Path) -> Path:
    return Path(shutil.copytree(source, to / "copy"))


def refusal(folder: Path, file: str) -> str:
    """What is said when the tokenizer in a folder is refused: one short line that names the file, soon."""
    start = time.monotonic()
    with pytest.raises(InputError) as caught:
        Tokenizer.load(folder)
    message = str(caught.value)
    assert str(folder / file) in message and len(message) < 600 and "\n" not in message
    assert time.monotonic() - start < 5
    return message


VOCABULARIES: dict[str, tuple[Callable[[list[str]], list[str] | bytes], str]] = {
    "twice": (lambda lines: [*lines, lines[7]], r"line \d+: found .*, which is line 8"),
    "gap": (lambda lines: [*lines[:9], "", *lines[9:]], "line 10: found no token"),
    "spaces": (lambda lines: [*lines[:9], "  ", *lines[9:]], "line 10: found no token"),
    "empty": (lambda lines: b"", "found an empty file"),
    "blank": (lambda lines: b"\n\n", "found no lines"),
    "not text": (lambda lines: b"[PAD]\n\xff\xfe", "not UTF-8 at byte 6"),
    "long line": (lambda lines: [*lines, "x" * 5000], "found 5000 characters"),
    "no unknown": (lambda lines: [line for line in lines if line != "[UNK]"], r"unk_token: found no token '\[UNK\]'"),
    "no mask": (lambda lines: [line for line in lines if line != "[MASK]"], r"mask_token: found no token '\[MASK\]'"),
    "no sep": (lambda lines: [line for line in lines if line != "[SEP]"], r"sep_token: found no token '\[SEP\]'"),
    "pointer": (lambda lines: b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
    "pickle": (lambda lines: b"\x80\x04abc", "Python pickle"),
}


@pytest.mark.parametrize("name", VOCABULARIES)
def test_vocabularies_of_bert(name: str, family_directory: Callable[[str], Path], tmp_path: Path) -> None:
    change, match = VOCABULARIES[name]
    folder = copy(family_directory("bert"), tmp_path)
    path = folder / "vocab.txt"
    found = change(path.read_text(encoding="utf-8").split("\n")[:-1])
    path.write_bytes(found if isinstance(found, bytes) else ("\n".join(found) + "\n").encode())
    assert re.search(match, refusal(folder, "vocab.txt"))


def test_huge_files_are_not_read(family_directory: Callable[[str], Path], tmp_path: Path) -> None:
    files = {"bert": "vocab.txt", "roberta": "merges.txt", "t5": "spiece.model", "llama": "tokenizer.model"}
    for family, file in files.items():
        folder = copy(family_directory(family), tmp_path / family)
        with (folder / file).open("r+b") as sparse:
            sparse.truncate(2**40)
        tracemalloc.start()
        assert re.search("expected at most 67108864", refusal(folder, file))
        assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("family", "config", "match"),
    [
        ("bert", {"do_lower_case": "yes"}, "do_lower_case: found 'yes', expected true or false"),
        ("bert", {"tokenizer_class": "BertJapaneseTokenizer"}, "tokenizer_class: found 'BertJapaneseTokenizer'"),
        ("gpt2", {"tokenizer_class": "CLIPTokenizer"}, "tokenizer_class: found 'CLIPTokenizer'"),
        ("bert", {"tokenizer_class": 0}, "tokenizer_class: found 0, expected a name"),
        ("gpt2", {"added_tokens_decoder": {"x": {"content": "a"}}}, "added_tokens_decoder: found 'x'"),
        ("gpt2", {"added_tokens_decoder": {"999": {"content": "a<>b"}}}, "without a gap"),
        ("gpt2", {"added_tokens_decoder": {"3": {"content": "<|endoftext|>"}}}, "found 3, expected 0"),
        ("roberta", {"mask_token": 7}, "mask_token: found '7', expected a token"),
        ("t5", {"extra_ids": -1}, "extra_ids: found -1"),
        ("t5", {"extra_ids": 10**9}, "extra_ids: found 1000000000"),
        ("m2m100", {"language_codes": "mine"}, "language_codes: found 'mine'"),
    ],
    ids=str,
)
def test_configurations(
    family: str, config: dict[str, Any], match: str, family_directory: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = copy(family_directory(family), tmp_path)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    assert re.search(match, refusal(folder, ""))


MERGES = {
    "one": ("lonely\n", "line 2: found 'lonely'"),
    "three": ("a b c\n", "line 2: found 'a b c'"),
    "empty line": ("a b\n\nc d\n", "line 2: found|line 3: found"),
    "unknown part": ("q7 q8\n", "line 2: found 'q7', expected a token of vocab.json"),
    "unknown whole": ("7 8\n", "line 2: found '78'"),
}


@pytest.mark.parametrize("name", MERGES)
def test_merges(name: str, family_directory: Callable[[str], Path], tmp_path: Path) -> None:
    folder = copy(family_directory("gpt2"), tmp_path)
    text, match = MERGES[name]
    (folder / "merges.txt").write_text("#version: 0.2\n" + text, encoding="utf-8")
    assert re.search(match, refusal(folder, "merges.txt"))


@pytest.mark.parametrize("family", ["gpt2", "roberta", "marian", "m2m100"])
@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda ids: {**ids, "zzz": 3}, "token id 3: found for"),
        (lambda ids: {**ids, "zzz": -1}, "id of 'zzz': found -1"),
        (lambda ids: {**ids, "zzz": 2**40}, "id of 'zzz': found 1099511627776"),
        (lambda ids: {**ids, "zzz": True}, "id of 'zzz': found True"),
        (lambda ids: {}, "found no tokens"),
        (lambda ids: {token: number for token, number in ids.items() if len(token) < 4}, "expected"),
        (lambda ids: [1], "found a JSON list"),
    ],
)
def test_vocabularies_of_json(
    family: str, change: Any, match: str, family_directory: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = copy(family_directory(family), tmp_path)
    path = folder / "vocab.json"
    path.write_text(json.dumps(change(json.loads(path.read_text(encoding="utf-8")))))
    assert re.search(match, refusal(folder, "vocab.json" if family in ("marian", "m2m100") else ""))


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def piece(text: bytes, score: float = 0.0, type_: int = 1) -> bytes:
    return message(1, message(1, text) + varint(2 << 3 | 5) + struct.pack("<f", score) + varint(3 << 3) + varint(type_))


UNK = piece(b"<unk>", 0, 2)
SMALL = piece(b"<pad>", 0, 3) + piece(b"</s>", 0, 3) + UNK + piece(b"a", -1.0)
NO_TRIE = struct.pack("<I", 1024) + bytes(1024)
MODELS: dict[str, tuple[bytes, str]] = {
    "cut in a number": (SMALL + b"\x0a\xff", "inside a number"),
    "length beyond the file": (SMALL + b"\x0a\xff\xff\xff\xff\x7f" + b"a", "length of field 1 .*expected at most 1"),
    "length of 2^63": (SMALL + b"\x0a" + b"\xff" * 9 + b"\x01", "length of field 1"),
    "number without end": (SMALL + b"\x80" * 12, "more than 10 bytes"),
    "field 0": (SMALL + b"\x00\x01", "field number .*found 0"),
    "group": (SMALL + b"\x0b", "kind of field 1 .*found 3"),
    "score nan": (SMALL + piece(b"x", float("nan")), "score: found nan"),
    "score inf": (SMALL + piece(b"x", float("inf")), "score: found inf"),
    "type 9": (SMALL + piece(b"x", 0, 9), "type: found 9"),
    "twice": (SMALL + piece(b"a"), "found 'a', which is piece 3"),
    "no text": (SMALL + piece(b""), "found no text"),
    "no unicode": (SMALL + piece(b"\xff\xfe"), "expected UTF-8"),
    "long piece": (SMALL + piece(b"x" * 3000), "found 3000 bytes"),
    "no unknown": (piece(b"a", -1.0), "found 0 unknown pieces"),
    "two unknown": (SMALL + piece(b"<oov>", 0, 2), "found 2 unknown pieces"),
    "no words": (UNK, "found no piece of text"),
    "no pieces": (message(2, b""), "found no pieces"),
    "a number for a message": (b"\x08\x01", "kind of field 1: found 0"),
    "another model": (SMALL + message(2, b"\x18\x04"), "model_type: found char"),
    "bytes missing": (SMALL + message(2, varint(35 << 3) + b"\x01"), "byte_fallback: found no piece <0x00>"),
    "suffix": (SMALL + message(2, varint(24 << 3) + b"\x01"), "treat_whitespace_as_suffix"),
    "charsmap short": (SMALL + message(3, message(2, b"\x01")), "size of the trie|charsmap"),
    "charsmap beyond": (SMALL + message(3, message(2, struct.pack("<I", 2**31) + b"abc")), "size of the trie|charsmap"),
    "html": (b"<!DOCTYPE html><html>", "a web page"),
    "json": (b'{"a": 1}', "field|kind|length"),
    "zeros": (bytes(99), "field number"),
}


@pytest.mark.parametrize("name", MODELS)
def test_sentencepiece_models(name: str, family_directory: Callable[[str], Path], tmp_path: Path) -> None:
    data, match = MODELS[name]
    for family, file in (("t5", "spiece.model"), ("marian", "target.spm")):
        folder = copy(family_directory(family), tmp_path / family)
        (folder / file).write_bytes(data)
        assert re.search(match, refusal(folder, file))


def test_tries_that_lead_out_of_the_file(family_directory: Callable[[str], Path], tmp_path: Path) -> None:
    folder = copy(family_directory("marian"), tmp_path)
    trie = struct.pack("<I", 0xFFFFFE00 | 0x100) + bytes(1020)
    (folder / "source.spm").write_bytes(SMALL + message(3, message(2, struct.pack("<I", 1024) + trie)))
    assert re.search("place in the trie", refusal(folder, "source.spm"))


@pytest.mark.parametrize("family", ["t5", "llama", "marian", "m2m100"])
def test_any_damage_is_an_input_error(family: str, family_directory: Callable[[str], Path], tmp_path: Path) -> None:
    folder = copy(family_directory(family), tmp_path)
    path = next(folder.glob("s*.model" if family != "llama" else "*.model"), folder / "source.spm")
    source = path.read_bytes()
    draw = random.Random(11)
    for number in range(120):
        data = bytearray(source)
        if number % 3 == 0:
            del data[draw.randrange(len(data)) :]
        for _ in range(draw.randint(1, 4)):
            if data:
                data[draw.randrange(min(len(data), 9000 if number % 2 else len(data)))] = draw.randrange(256)
        path.write_bytes(bytes(data))
        try:
            Tokenizer.load(folder).encode("the quick ｶﾞ が\u3099 é")
        except InputError as error:
            assert str(folder) in str(error)


def test_llama_and_t5_take_their_own_kind_of_model(family_directory: Callable[[str], Path], tmp_path: Path) -> None:
    models = {"t5": "spiece.model", "llama": "tokenizer.model"}
    for family, other in (("t5", "llama"), ("llama", "t5")):
        folder = copy(family_directory(family), tmp_path / family)
        shutil.copy(family_directory(other) / models[other], folder / models[family])
        assert re.search("model_type: found", refusal(folder, models[family]))


@pytest.mark.parametrize("family", BUILDERS)
def test_ids_must_fit_the_model(family: str, family_directory: Callable[[str], Path]) -> None:
    folder = family_directory(family)
    size = Tokenizer.load(folder).vocab_size
    assert Tokenizer.load(folder, rows=size).vocab_size == size
    with pytest.raises(InputError, match=f"largest token id: found {size - 1}, expected at most {size - 2}"):
        Tokenizer.load(folder, rows=size - 1)


def test_fields_of_every_kind() -> None:
    data = b"\x08\x96\x01" + b"\x11" + bytes(8) + b"\x1a\x02hi" + b"\x25" + bytes(4)
    found = [(number, kind) for number, kind, _ in fields(data, "x")]
    assert found == [(1, 0), (2, 1), (3, 2), (4, 5)]
    values = [value for _, _, value in fields(data, "x")]
    assert values == [150, bytes(8), b"hi", bytes(4)]
