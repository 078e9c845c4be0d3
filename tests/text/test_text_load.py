"""Directories: what is saved loads the same here and in transformers; what is hostile is one plain error."""

import copy
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from headway.errors import InputError
from headway.text import KINDS, Tokenizer, train_tokenizer
from headway.text.rust_errors import guarded

SCRIPTS = [
    "the quick brown fox's jumps, isn't it? 12:30 (ok) a , b .",
    "日本語の 文章 です 漢字",
    "Ünïcödé naïve CAFÉ İstanbul ẞ ǅ",
    "ที่นี่ ภาษาไทย हिन्दी עברית العربية",
    "👩‍👩‍👧 👍🏽 e\u0301 \u200d \ufffd \u2028 \t \n  ##ing ▁a Ġb",
    "x = {1: 'a'}; // --- ___ $5.00 <b> &amp;",
]


def mixed_lines(count: int) -> list[str]:
    draw = random.Random(3)
    words = [word for line in SCRIPTS for word in line.split(" ")]
    return ["", " ", *(" ".join(draw.choices(words, k=draw.randint(1, 13))) for _ in range(count - 2))]


@pytest.fixture(
    scope="module", params=[(kind, role) for kind in KINDS for role in ("decoder", "encoder")], ids="-".join
)
def trained(request: pytest.FixtureRequest) -> Tokenizer:
    kind, role = request.param
    return train_tokenizer(SCRIPTS * 3, kind, 331, role=role)


def test_what_is_saved_loads_the_same(trained: Tokenizer, tmp_path: Path) -> None:
    trained.save(tmp_path, max_length=97)
    loaded = Tokenizer.load(tmp_path, rows=trained.vocab_size)
    for name in ("kind", "role", "vocab_size", "tokens", "special_ids", "begin_of_text", "end_of_text"):
        assert getattr(loaded, name) == getattr(trained, name), name
    for name in ("pad", "unknown", "cls", "sep", "mask"):
        assert getattr(loaded, name) == getattr(trained, name), name
    assert loaded.max_length == 97
    assert loaded.trained_on_characters is None
    lines = mixed_lines(23)
    assert loaded.encode_batch(lines, special=True) == trained.encode_batch(lines, special=True)
    loaded.save(tmp_path / "again")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "again" / file).read_bytes() == (tmp_path / file).read_bytes()


@pytest.mark.parametrize("model_type", [None, "llama", "gpt2", "bert", "modernbert"])
def test_transformers_gives_the_same_ids(
    trained: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model_type: str | None
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers")
    trained.save(tmp_path, max_length=97)
    if model_type:
        (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path))
    for line in mixed_lines(200):
        ids = trained.encode(line, special=True)
        assert theirs(line)["input_ids"] == ids
        assert theirs.decode(ids, skip_special_tokens=True) == trained.decode(ids)
    assert set(theirs("a")) == {"input_ids", "attention_mask"}
    assert (theirs.eos_token_id, theirs.bos_token_id) == (trained.end_of_text, trained.begin_of_text)
    assert (theirs.pad_token_id, theirs.unk_token_id) == (trained.pad, trained.unknown)
    assert (theirs.cls_token_id, theirs.sep_token_id) == (trained.cls, trained.sep)
    assert (theirs.mask_token_id, theirs.model_max_length) == (trained.mask, 97)
    assert len(theirs) == trained.vocab_size
    marked = "a [MASK] b" if trained.mask is not None else "a<|endoftext|>b"
    assert theirs(marked)["input_ids"] == trained.encode(marked, special=True, allow_special=True)


def test_pairs_and_type_ids_in_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = train_tokenizer(SCRIPTS, "wordpiece", role="encoder")
    tokenizer.save(tmp_path, segments=True)
    other = transformers.AutoTokenizer.from_pretrained(str(tmp_path))
    pairs = [("the fox", "a ok"), ("the fox " * 9, "a"), ("a", "ok the fox " * 9), ("", "the [SEP]")]
    for longest in (None, 12, 5):
        cut = {"truncation": longest is not None, "max_length": longest, "return_offsets_mapping": True}
        for pair, ours in zip(pairs, tokenizer.encode_pairs(pairs, longest), strict=True):
            theirs = other(*pair, split_special_tokens=True, **cut)
            assert (theirs["input_ids"], theirs["token_type_ids"], theirs["offset_mapping"]) == ours
            assert ours == tokenizer.encode_pair(*pair, longest)


def test_usual_names_serve_where_none_are_given(tmp_path: Path) -> None:
    for role in ("decoder", "encoder"):
        tokenizer = train_tokenizer(SCRIPTS, "bpe", role=role)
        tokenizer.save(tmp_path)
        (tmp_path / "tokenizer_config.json").unlink()
        loaded = Tokenizer.load(tmp_path)
        assert (loaded.end_of_text, loaded.cls, loaded.mask) == (tokenizer.end_of_text, tokenizer.cls, tokenizer.mask)


def test_truncation_and_padding_of_a_file_are_not_applied(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(SCRIPTS, "char")
    tokenizer.save(tmp_path)
    spec = json.loads((tmp_path / "tokenizer.json").read_text())
    spec["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 1}
    spec["padding"] = {
        **{"strategy": {"Fixed": 50}, "direction": "Right", "pad_to_multiple_of": None},
        **{"pad_id": 0, "pad_type_id": 0, "pad_token": "<|endoftext|>"},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec))
    assert Tokenizer.load(tmp_path).encode("the quick fox") == tokenizer.encode("the quick fox")


def seed() -> dict[str, Any]:
    return json.loads(train_tokenizer(SCRIPTS * 3, "bpe", 281, role="encoder").to_json())


SEED = seed()
TEMPLATE = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[XYZ]", "type_id": 0}}], "pair": []}
LATER = {"id": 9999, "content": "<late>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}

CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "merge of no token": ({"model": {"merges": [["t", "h" * 70]]}}, r"model.merges\[0\]"),
    "merge of three": ({"model": {"merges": ["t h e"]}}, r"model.merges\[0\]"),
    "merge of numbers": ({"model": {"merges": [[1, 2]]}}, r"model.merges\[0\]"),
    "bad charsmap": ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, "cannot be loaded"),
    "stride not below length": (
        {"truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 4}},
        "found stride 4 and max_length 4",
    ),
    "template without its token": ({"post_processor": {**TEMPLATE, "special_tokens": {}}}, r"\[XYZ\]"),
    "template in a sequence": (
        {"post_processor": {"type": "Sequence", "processors": [{**TEMPLATE, "special_tokens": {}}]}},
        r"post_processor.single.*\[XYZ\]",
    ),
    "template with an unknown id": (
        {
            "post_processor": {
                **TEMPLATE,
                "special_tokens": {"[XYZ]": {"id": "[XYZ]", "ids": [777], "tokens": ["[XYZ]"]}},
            }
        },
        r"found \[777\]",
    ),
    "pieces of length 0": ({"pre_tokenizer": {"type": "FixedLength", "length": 0}}, "pre_tokenizer.length: found 0"),
    "slow regex": (
        {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}},
        "retry-limit",
    ),
    "dropout 2": ({"model": {"dropout": 2}}, "cannot be loaded"),
    "id twice": ({"model": {"vocab": {**SEED["model"]["vocab"], "zzz": 7}}}, "token id 7: found for"),
    "id 4e9": ({"model": {"vocab": {**SEED["model"]["vocab"], "zzz": 4_000_000_000}}}, "found 4000000000"),
    "id over 32 bits": ({"model": {"vocab": {**SEED["model"]["vocab"], "zzz": 2**40}}}, "expected an integer from 0"),
    "id below 0": ({"model": {"vocab": {**SEED["model"]["vocab"], "zzz": -1}}}, "found -1"),
    "id no integer": ({"model": {"vocab": {**SEED["model"]["vocab"], "zzz": True}}}, "found True"),
    "no vocabulary": ({"model": {"vocab": 5}}, "model.vocab: found int"),
    "empty": ({"model": {"vocab": {}, "merges": []}, "added_tokens": []}, "found no tokens"),
    "rows of a list": ({"model": {"type": "Unigram", "vocab": ["a"]}}, "not .token, score."),
    "unknown not there": ({"model": {"unk_token": "<nope>"}}, "model.unk_token: found '<nope>'"),
    "no model": ({"model": None}, "model: found NoneType"),
    "added is no list": ({"added_tokens": "x"}, "added_tokens: found str"),
    "added twice": ({"added_tokens": [SEED["added_tokens"][0]] * 2}, r"found '\[PAD\]' twice"),
    "added elsewhere": ({"added_tokens": [{**SEED["added_tokens"][0], "id": 999}]}, "expected 0 as in model.vocab"),
    "added after a gap": ({"added_tokens": [*SEED["added_tokens"], {**LATER, "special": True}]}, "without a gap"),
    "added without content": ({"added_tokens": [{"id": 3}]}, "with content and id"),
    "unheard-of model": ({"model": {"type": "Magic"}}, "cannot be loaded"),
}


def write(folder: Path, spec: Any, config: dict[str, Any] | None = None) -> Path:
    (folder / "tokenizer.json").write_text(spec if isinstance(spec, str) else json.dumps(spec))
    (folder / "tokenizer_config.json").write_text(json.dumps(config or {}))
    return folder


def refused(folder: Path, match: str, file: str = "tokenizer.json") -> None:
    with pytest.raises(InputError, match=match) as caught:
        Tokenizer.load(folder)
    message = str(caught.value)
    assert message.startswith(str(folder / file))
    assert len(message) < 600 and "\n" not in message


@pytest.mark.parametrize("name", CHANGES)
def test_hostile_files_are_one_error(name: str, tmp_path: Path) -> None:
    change, match = CHANGES[name]
    spec = copy.deepcopy(SEED)
    for key, value in change.items():
        spec[key] = {**spec[key], **value} if key == "model" and value else value
    refused(write(tmp_path, spec), match)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("<html>", "not JSON"),
        ("[]", "found a JSON list"),
        ("version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        ('{"model": NaN}', "found NaN"),
        ('{"model": ' + "9" * 5000 + "}", "not JSON"),
        ('{"model": {"vocab": {"a": 0, "b": 1, "a": 2}}}', "the key 'a' twice"),
        ('{"x": ' + "[" * 64 + "]" * 64 + "}", "at most 64"),
        ("[" * 100_000, "nested too deeply|at most 64"),
    ],
)
def test_files_that_are_no_tokenizer(text: str, match: str, tmp_path: Path) -> None:
    refused(write(tmp_path, text), match)


def test_files_that_are_no_files(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    refused(tmp_path, "no such file")
    with path.open("wb") as file:
        file.truncate(2**40)
    refused(tmp_path, "expected at most 67108864")
    path.write_bytes(b'{"a": "\xff"}')
    refused(tmp_path, "not UTF-8 at byte 7")
    path.unlink()
    path.mkdir()
    refused(tmp_path, "not a regular file")
    path.rmdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(path)
        refused(tmp_path, "not a regular file")


def test_special_tokens_must_be_there(tmp_path: Path) -> None:
    config = "tokenizer_config.json"
    refused(write(tmp_path, SEED, {"eos_token": "</s>"}), "eos_token: found '</s>'", config)
    refused(write(tmp_path, SEED, {"pad_token": {"content": "<pad>"}}), "pad_token: found '<pad>'", config)
    refused(write(tmp_path, SEED, {"mask_token": [1]}), "mask_token", config)
    write(tmp_path, SEED, {"mask_token": {"content": "[MASK]", "lstrip": True}, "auto_map": {"AutoTokenizer": "x.y"}})
    loaded = Tokenizer.load(tmp_path)
    assert (loaded.mask, loaded.cls) == (4, None)
    loaded.save(tmp_path / "out")
    assert "auto_map" not in json.loads((tmp_path / "out" / config).read_text())


def test_ids_must_fit_the_model(tmp_path: Path) -> None:
    write(tmp_path, SEED)
    assert Tokenizer.load(tmp_path, rows=281).vocab_size == 281
    with pytest.raises(InputError, match="largest token id: found 280, expected at most 279"):
        Tokenizer.load(tmp_path, rows=280)


def test_byte_changes_never_escape(tmp_path: Path) -> None:
    draw = random.Random(7)
    source = json.dumps(json.loads(train_tokenizer(["ab ba"] * 3, "wordpiece", role="encoder").to_json())).encode()
    write(tmp_path, SEED)
    for _ in range(300):
        data = bytearray(source)
        for _ in range(draw.randint(1, 3)):
            data[draw.randrange(len(data))] = draw.choice(b'0129"{}[],:aZ-\xff\x00')
        (tmp_path / "tokenizer.json").write_bytes(bytes(data))
        try:
            Tokenizer.load(tmp_path).encode("ab ba", special=True)
        except InputError as error:
            assert "tokenizer.json" in str(error)


def test_interrupts_pass_through_the_guard() -> None:
    for kind in (KeyboardInterrupt, SystemExit, MemoryError, GeneratorExit):

        def work(kind: type[BaseException] = kind) -> None:
            raise kind

        with pytest.raises(kind):
            guarded(work, "work")
