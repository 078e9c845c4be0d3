"""Entries of tokenizer_config.json next to a tokenizer.json: the ids of transformers, or a refusal naming the entry."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_text_families import check_equal, theirs_of

import headway
from headway.errors import InputError
from headway.text import Tokenizer

sys.path.append(str(Path(__file__).parents[1] / "parity"))
import foreign_models


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.fixture
def saved(family_directory: Callable[[str], Path], tmp_path: Path) -> Callable[..., Path]:
    """A family's directory as transformers saves it, with a tokenizer.json, and some entries changed."""

    def get(family: str, **entries: Any) -> Path:
        folder = tmp_path / "saved"
        theirs_of(family_directory(family)).save_pretrained(folder)
        shutil.copy(family_directory(family) / "config.json", folder)
        edit(folder / "tokenizer_config.json", **entries)
        return folder

    return get


@pytest.mark.parametrize(
    ("family", "entries"),
    [
        ("bert", {}),
        ("bert", {"do_lower_case": False}),
        ("bert", {"strip_accents": False}),
        ("bert", {"tokenize_chinese_chars": False}),
        ("bert-cased", {"do_lower_case": True, "tokenizer_class": "DistilBertTokenizer"}),
        ("bert-cased", {"do_lower_case": True, "tokenizer_class": "PreTrainedTokenizerFast"}),
        ("gpt2", {"add_prefix_space": True}),
        ("gpt2-space", {"add_prefix_space": False}),
        ("roberta", {"add_prefix_space": True, "tokenizer_class": None}),
        ("bart", {"add_prefix_space": False}),
        ("t5", {}),
        ("llama", {"add_prefix_space": False}),
        ("llama", {"legacy": True}),
        ("llama-legacy", {"legacy": False}),
    ],
    ids=str,
)
def test_entries_are_followed_as_transformers_does(family: str, entries: dict, saved: Callable[..., Path]) -> None:
    folder = saved(family, **entries)
    check_equal(Tokenizer.load(folder), theirs_of(folder))


def test_entries_left_out_are_the_defaults_of_the_class(saved: Callable[..., Path]) -> None:
    folder = saved("bert-cased")
    path = folder / "tokenizer_config.json"
    kept = {key: value for key, value in json.loads(path.read_text()).items() if key != "do_lower_case"}
    path.write_text(json.dumps(kept))
    check_equal(Tokenizer.load(folder), theirs_of(folder))


def token(content: str, special: bool = False) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    return {"content": content, **flags, "normalized": not special, "special": special}


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "t5"])
@pytest.mark.parametrize("kind", [None, "PreTrainedTokenizerFast"])
def test_words_that_only_the_configuration_names(family: str, kind: str | None, saved: Callable[..., Path]) -> None:
    folder = saved(family, **({"tokenizer_class": kind} if kind else {}))
    spec = json.loads((folder / "tokenizer.json").read_text())
    listed = {str(row["id"]): {k: v for k, v in row.items() if k != "id"} for row in spec["added_tokens"]}
    size = len(theirs_of(folder))
    listed |= {str(size): token("n't"), str(size + 1): token("<zq>", True)}
    edit(folder / "tokenizer_config.json", added_tokens_decoder=listed)
    ours = Tokenizer.load(folder)
    assert ours.encode("is n't it").count(size) == 1 and ours.vocab_size == size + 2
    check_equal(ours, theirs_of(folder))
    with pytest.raises(InputError, match="largest token id"):
        Tokenizer.load(folder, rows=size)


@pytest.mark.parametrize(
    ("family", "entries", "entry"),
    [
        ("bert", {"unk_token": "[PAD]"}, "unk_token: found"),
        ("bert", {"cls_token": "[MASK]"}, "cls_token: found"),
        ("roberta", {"sep_token": "<mask>"}, "sep_token: found"),
        ("bert", {"do_lower_case": "no"}, "do_lower_case: found 'no'"),
        ("gpt2", {"added_tokens_decoder": {"999999": token("x!")}}, "added_tokens_decoder"),
        ("gpt2", {"added_tokens_decoder": {"9" * 5000: token("x!")}}, "added_tokens_decoder"),
        ("bert", {"additional_special_tokens": True}, "additional_special_tokens: found True"),
        ("bert", {"extra_special_tokens": 7}, "extra_special_tokens: found 7"),
        ("t5", {"tokenizer_class": "LlamaTokenizer"}, "tokenizer_class: found Llama.*, expected a class for a Unigram"),
        ("llama", {"tokenizer_class": "BertTokenizer"}, "tokenizer_class: found Bert.*, expected a class for a BPE"),
        ("llama", {"tokenizer_class": "GPT2Tokenizer"}, "tokenizer_class: found GPT2.* without ByteLevel"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_cannot_be_followed_is_refused(family: str, entries: dict, entry: str, saved: Callable[..., Path]) -> None:
    folder = saved(family, **entries)
    with pytest.raises(InputError, match=entry) as caught:
        Tokenizer.load(folder)
    assert str(folder) in str(caught.value)


def test_a_normalizer_that_cannot_follow_is_refused(saved: Callable[..., Path]) -> None:
    folder = saved("bert", do_lower_case=False)
    edit(folder / "tokenizer.json", normalizer={"type": "Lowercase"})
    with pytest.raises(InputError, match=r"do_lower_case: found False, expected .* BertNormalizer"):
        Tokenizer.load(folder)


def test_a_model_that_is_loaded_reads_by_the_entries(tmp_path: Path) -> None:
    base = foreign_models.make("bert", tmp_path / "base", steps=0)
    theirs_of(base).save_pretrained(base)
    edit(base / "tokenizer_config.json", do_lower_case=False)
    text = "The CAT sat, and isn't CAT a Name?"
    assert headway.load(base).tokenizer.encode(text, special=True) == theirs_of(base)(text)["input_ids"]


def test_a_token_that_transformers_would_not_add_is_refused(saved: Callable[..., Path]) -> None:
    folder = saved("gpt2", added_tokens_decoder={"0": token("<|endoftext|>", True)})
    spec = json.loads((folder / "tokenizer.json").read_text())
    more = {"id": len(theirs_of(folder)), **token("isn't")}
    edit(folder / "tokenizer.json", added_tokens=[*spec["added_tokens"], more])
    with pytest.raises(InputError, match='added_tokens_decoder: found no token "isn\'t"'):
        Tokenizer.load(folder)


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama-legacy", "t5"])
def test_a_class_for_a_tokenizer_json_is_refused_without_one(
    family: str, family_directory: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = tmp_path / "named"
    shutil.copytree(family_directory(family), folder)
    file = folder / "tokenizer_config.json"
    file.write_text(file.read_text() if file.exists() else "{}")
    edit(file, tokenizer_class="PreTrainedTokenizerFast")
    with pytest.raises(InputError, match=r"tokenizer_class: found 'PreTrainedTokenizer', expected .*Tokenizer with "):
        Tokenizer.load(folder)
