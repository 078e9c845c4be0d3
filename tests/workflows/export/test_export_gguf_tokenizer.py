"""Tokenizers in a GGUF file: llama.cpp gives the same ids, and what it has no way to express is refused."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import sentencepiece
import tokenizers
from export_kit import BPE, LLAMA, WORDS, decoder
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers

from headway.formats.gguf.tokenizer import (
    BYTE,
    CONTROL,
    PATTERNS,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Inexpressible,
    entries_of,
)
from headway.text.tokenizer import Tokenizer
from headway.text.train import train_tokenizer
from headway.workflows.export import export

llama_only = pytest.mark.skipif(find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed")
LLAMA3, QWEN2 = PATTERNS
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)
UNSPLIT = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
SPACED = pre_tokenizers.ByteLevel(add_prefix_space=True)


def split_by(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), UNSPLIT])


def byte_level(
    place: Path,
    splitter: pre_tokenizers.PreTokenizer,
    ignore_merges: bool = False,
    normalizer: normalizers.Normalizer | None = None,
) -> Tokenizer:
    """A byte-level BPE that splits texts in some way, with a special token and one that is plain text."""
    made = tokenizers.Tokenizer(models.BPE(ignore_merges=ignore_merges))
    made.pre_tokenizer, made.decoder = splitter, decoders.ByteLevel()
    if normalizer is not None:
        made.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(WORDS, trainer)
    made.add_tokens([AddedToken("<pause>", special=False, normalized=False)])
    place.mkdir()
    made.save(str(place / "tokenizer.json"))
    said = {"eos_token": "<|endoftext|>", "tokenizer_class": "PreTrainedTokenizerFast"}
    (place / "tokenizer_config.json").write_text(json.dumps(said))
    return Tokenizer.load(place)


DIGITS = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), BYTES])
SPLITS = {
    "gpt-2": (BYTES, False, None),
    "llama-bpe": (split_by(LLAMA3), True, None),
    "qwen2": (split_by(QWEN2), False, normalizers.NFC()),
    "smollm": (DIGITS, False, None),
}


@pytest.mark.parametrize("pre", SPLITS)
def test_a_split_has_its_name(pre: str, tmp_path: Path):
    tokenizer = byte_level(tmp_path / "a", *SPLITS[pre])
    found = entries_of(tokenizer, tokenizer.vocab_size + 3)
    assert (found.model, found.pre) == ("gpt2", pre) and found.begin is None and found.end is None
    assert (
        found.token_type[0] == CONTROL
        and found.token_type[-3:] == [UNUSED] * 3
        and len(set(found.tokens)) == len(found.token_type)
    )
    assert found.token_type[found.tokens.index("<pause>")] == USER_DEFINED
    assert [limit.words for limit in found.limits] == (["that are not in Unicode's form NFC"] if pre == "qwen2" else [])
    assert found.reads("e\u0301") == (pre != "qwen2")


@llama_only
@pytest.mark.parametrize("pre", SPLITS)
def test_llama_splits_texts_alike(pre: str, tmp_path: Path):
    found = export(decoder(tmp_path / "b", byte_level(tmp_path / "a", *SPLITS[pre])), tmp_path / "c", to="gguf")
    assert found.made and found.parity.tokens_equal, found.parity


@pytest.mark.parametrize(
    ("splitter", "ignore_merges", "normalizer", "said"),
    [
        (split_by(r"\w+|\W+"), False, None, "splits texts in another way"),
        (SPACED, False, None, "splits texts in another way"),
        (split_by(LLAMA3), False, None, "has ignore_merges false"),
        (BYTES, False, normalizers.Lowercase(), "changes texts by Lowercase first"),
    ],
)
def test_other_splits_are_refused(
    splitter: pre_tokenizers.PreTokenizer,
    ignore_merges: bool,
    normalizer: normalizers.Normalizer | None,
    said: str,
    tmp_path: Path,
):
    tokenizer = byte_level(tmp_path / "a", splitter, ignore_merges, normalizer)
    with pytest.raises(Inexpressible, match=said):
        entries_of(tokenizer, tokenizer.vocab_size)


@pytest.fixture(scope="module")
def sentencepiece_model(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A SentencePiece BPE with bytes, as Llama's."""
    place = tmp_path_factory.mktemp("spm")
    (place / "text.txt").write_text("\n".join(WORDS))
    sentencepiece.SentencePieceTrainer.train(
        input=str(place / "text.txt"), model_prefix=str(place / "m"), vocab_size=320, model_type="bpe",
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, unk_id=0, bos_id=1,
        eos_id=2, pad_id=-1, minloglevel=2,
    )  # fmt: skip
    return (place / "m.model").read_bytes()


def from_sentencepiece(place: Path, model: bytes, form: str) -> Tokenizer:
    """The tokenizer in one of the forms in which files have it."""
    place.mkdir()
    (place / "tokenizer.model").write_bytes(model)
    said = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_prefix_space": form != "no space"}
    (place / "tokenizer_config.json").write_text(json.dumps(said))
    found = Tokenizer.load(place)
    if form == "normalizer":
        spec = json.loads(found.to_json())
        replace = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
        spec["normalizer"] = {
            "type": "Sequence",
            "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, replace],
        }
        spec["pre_tokenizer"] = None
        found = found.with_backend(tokenizers.Tokenizer.from_str(json.dumps(spec)))
    return found


@pytest.mark.parametrize("form", ["metaspace", "no space", "normalizer"])
def test_sentencepiece_is_written_with_scores(form: str, sentencepiece_model: bytes, tmp_path: Path):
    found = entries_of(from_sentencepiece(tmp_path / "a", sentencepiece_model, form), 320)
    assert found.model == "llama" and found.begin == 1 and found.flags == {"add_space_prefix": form != "no space"}
    assert found.token_type[:3] == [UNKNOWN, CONTROL, CONTROL] and found.token_type.count(BYTE) == 256
    assert found.token_type[found.tokens.index("<0x0A>")] == BYTE
    scores = dict(zip(found.tokens, found.scores, strict=True))
    assert scores["\u2581t"] > scores["\u2581the"], "what is merged first scores higher"
    assert found.reads(" cat") == (form != "metaspace")


@llama_only
@pytest.mark.parametrize("form", ["metaspace", "no space", "normalizer"])
def test_llama_reads_sentencepiece_alike(form: str, sentencepiece_model: bytes, tmp_path: Path):
    tokenizer = from_sentencepiece(tmp_path / "a", sentencepiece_model, form)
    found = export(decoder(tmp_path / "b", tokenizer, rows=320, **LLAMA), tmp_path / "c", to="gguf")
    assert found.made and found.parity.tokens_equal, found.parity


def test_merges_in_an_order_that_scores_cannot_say_are_refused(sentencepiece_model: bytes, tmp_path: Path):
    spec = json.loads(from_sentencepiece(tmp_path / "a", sentencepiece_model, "metaspace").to_json())
    vocabulary, merges = spec["model"]["vocab"], spec["model"]["merges"]
    first, last = next((a, b) for a, b in merges if len(a) == 2 and len(b) == 1)
    vocabulary.setdefault(first[1] + last, len(vocabulary))
    merges += [[first[1], last], [first[0], first[1] + last]]  # another way to the same token, later than the first
    tokenizer = Tokenizer.load(tmp_path / "a").with_backend(tokenizers.Tokenizer.from_str(json.dumps(spec)))
    with pytest.raises(Inexpressible, match="an order that scores"):
        entries_of(tokenizer, 321)


def test_word_pieces_that_bert_would_not_split_so_are_refused():
    pieces = train_tokenizer(WORDS, "wordpiece", 90, role="encoder")
    spec = json.loads(pieces.to_json())
    spec["pre_tokenizer"] = {"type": "WhitespaceSplit"}
    with pytest.raises(Inexpressible, match="does not clean and split texts as BERT's"):
        entries_of(pieces.with_backend(tokenizers.Tokenizer.from_str(json.dumps(spec))), 90)


@llama_only
@pytest.mark.parametrize("lowercase", [True, False])
def test_llama_reads_word_pieces_alike(lowercase: bool, tmp_path: Path):
    from export_kit import encoder

    texts = [*WORDS, "Naïve Élan ÅNGSTRÖM istanbul"]
    pieces = train_tokenizer(texts, "wordpiece", 120, role="encoder", lowercase=lowercase)
    assert entries_of(pieces, pieces.vocab_size).reads("İstanbul") != lowercase
    found = export(encoder(tmp_path / "a", None, pieces), tmp_path / "b", to="gguf")
    assert found.made and found.parity.tokens_equal, found.parity


def test_our_own_tokenizer_is_gpt2s():
    found = entries_of(BPE, BPE.vocab_size)
    assert (found.model, found.pre) == ("gpt2", "gpt-2")
    assert [limit.words for limit in found.limits] == ["that are not in Unicode's form NFC"]  # GGUF has no entry for it
    assert found.merges and all(len(merge.split(" ")) == 2 for merge in found.merges)
