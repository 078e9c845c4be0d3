"""``export --to ctranslate2``: what is written, Generator, Translator and Encoder answer alike."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ctranslate2
import numpy as np
import pytest
import tokenizers
import torch
from export_kit import (
    BART,
    BERT,
    BOTH,
    GPT2,
    LLAMA,
    QWEN3,
    classifier_head,
    decoder,
    encoder,
    ending_translator,
    names,
    spread,
    translator,
)

import headway
from headway.errors import InputError
from headway.formats.ctranslate2 import export as target
from headway.formats.ctranslate2.engine import TranslatorEngine
from headway.formats.ctranslate2.specification import apply_head
from headway.generation.beam import Hypothesis
from headway.hub.directory import load_model, save_any
from headway.hub.generation_config import TargetRules
from headway.models.config import Positions, RopeScaling, TransformerConfig
from headway.models.heads import MaskedTokenHead, PoolingHead, VectorHead
from headway.models.transformer import Decoder
from headway.nn import low_precision
from headway.runtime.engine import Searching
from headway.workflows.export import RECORD, export

RULES = TargetRules(start=(2, 45), end=(2,))
FILES = {"model.bin", "config.json", "vocabulary.json", "tokenizer.json", "tokenizer_config.json", RECORD}


def test_a_decoder_is_continued_alike(tmp_path: Path, in_process: Callable):
    source = decoder(tmp_path / "a")
    status, text, err = in_process("export", source, "--to", "ctranslate2", "--out", tmp_path / "b", "--json")
    found = json.loads(text.splitlines()[-1])
    assert status == 0, err
    assert found["door"] == "ctranslate2.Generator(DIR)" and 0 < found["max_difference"] <= 1e-4
    assert found["tokens_equal"] is True and found["agreement"] == 1.0 and found["seconds_there"] > 0
    assert names(tmp_path / "b") == FILES
    prompt, pipe = "the cat", headway.load(source)
    opened, words = (
        ctranslate2.Generator(str(tmp_path / "b")),
        tokenizers.Tokenizer.from_file(str(tmp_path / "b" / "tokenizer.json")),
    )
    written = opened.generate_batch([words.encode(prompt).tokens], max_length=11, include_prompt_in_result=False)
    assert words.decode(written[0].sequences_ids[0]) == pipe(prompt, max_tokens=11, temperature=0)


def test_a_translator_finds_the_same_targets(tmp_path: Path):
    source = translator(tmp_path / "a")
    found = export(source, tmp_path / "b", to="ctranslate2")
    assert found.made and found.parity.door == "ctranslate2.Translator(DIR)", found.parity
    assert found.parity.agreement == (32, 32) and 0 < found.parity.max_difference <= 1e-4
    assert names(tmp_path / "b") == {*FILES, "shared_vocabulary.json"} - {"vocabulary.json"}
    said = json.loads((tmp_path / "b" / "config.json").read_text())
    assert said["decoder_start_token"] == said["eos_token"] == BOTH.tokens[BOTH.end_of_text]
    pipe, opened = headway.load(source), ctranslate2.Translator(str(tmp_path / "b"))
    tokens = [BOTH.tokens[number] for number in BOTH.encode("old dogs ran", special=True)]
    answer = opened.translate_batch([tokens], beam_size=5, max_decoding_length=60)[0].hypotheses[0]
    assert BOTH.decode([BOTH.tokens.index(token) for token in answer]) == pipe("old dogs ran", beam=5)


def test_a_target_begins_with_its_language_and_never_has_what_is_forbidden(tmp_path: Path):
    """The first is what a user passes; CTranslate2's files have no list of the second, so its bias says it."""
    source = translator(tmp_path / "a")
    likeliest = headway.load(source).runtime.search([BOTH.encode("a cat", special=True)], RULES, beam=1)[0][0].ids[0]
    said = {"decoder_start_token_id": 2, "eos_token_id": 2, "forced_bos_token_id": 45, "bad_words_ids": [[likeliest]]}
    (source / "generation_config.json").write_text(json.dumps(said))
    pipe = headway.load(source)
    assert pipe.rules.start == (2, 45) and pipe.rules.forbidden == (likeliest,)
    found = export(source, tmp_path / "b", to="ctranslate2")
    assert found.made and found.parity.agreement == (32, 32), found.parity
    assert f"pass target_prefix=[['{BOTH.tokens[45]}']]" in found.parity.notes[0]


def test_an_encoder_gives_the_vectors_that_its_head_pools(tmp_path: Path):
    source = encoder(tmp_path / "a", PoolingHead())
    found = export(source, tmp_path / "b", to="ctranslate2")
    assert found.made and 0 < found.parity.max_difference <= 1e-4, found.parity
    assert json.loads((tmp_path / "b" / "head.json").read_text()) == {"pooling": "mean", "normalise": True}
    assert "head.json" in found.parity.notes[0]


def test_a_classifier_has_its_matrices_beside_it(tmp_path: Path):
    source = encoder(tmp_path / "a", classifier_head())
    found = export(source, tmp_path / "b", to="ctranslate2")
    assert found.made and found.parity.agreement == (32, 32) and found.parity.max_difference <= 1e-4, found.parity
    assert names(tmp_path / "b") == {*FILES, "head.json", "head.npz"}
    words = tokenizers.Tokenizer.from_file(str(tmp_path / "b" / "tokenizer.json"))
    vectors = ctranslate2.Encoder(str(tmp_path / "b")).forward_batch([words.encode("a cat sat").ids]).last_hidden_state
    logits = apply_head(np.array(vectors)[0], tmp_path / "b")
    labels = json.loads((tmp_path / "b" / "head.json").read_text())["labels"]
    scores = headway.load(source)("a cat sat")["scores"]
    likely = np.exp(logits) / np.exp(logits).sum()
    assert dict(zip(labels, likely.tolist(), strict=True)) == pytest.approx(scores, abs=1e-5)


OWN = {**QWEN3, "embedding_norm": True, "norm_parameters": "none", "logit_softcap": 9.0, "tied": True}
TENSOR2TENSOR = Positions("sinusoidal", start=2, sinusoids="tensor2tensor")
STACKS: dict[str, Callable[[Path], Path]] = {
    "gpt2": lambda place: decoder(place, **GPT2),
    "llama": lambda place: decoder(place, **LLAMA),
    "padded": lambda place: decoder(place, rows=307, **LLAMA),
    "linear": lambda place: decoder(
        place, **{**LLAMA, "bias": (), "positions": Positions("rotary", scaling=RopeScaling("linear", 4.0))}
    ),
    "pre-norm": lambda place: translator(
        place, **{**BART, "norm_order": "pre", "embedding_norm": False, "embedding_scale": True, "activation": "relu",
                  "positions": TENSOR2TENSOR, "bias": ("qkv", "out", "ff")},
    ),
    "t5": lambda place: translator(
        place, d_model=24, n_layers=2, n_heads=3, d_head=8, d_ff=29, norm_eps=1e-6, gated=True, activation="gelu_tanh",
        positions=Positions("relative", buckets=8, max_distance=20), max_length=61,
    ),
    "distilbert": lambda place: encoder(place, **{**BERT, "segments": 0}),
}  # fmt: skip


@pytest.mark.parametrize("kind", STACKS)
def test_every_part_is_computed_alike(kind: str, tmp_path: Path):
    found = export(STACKS[kind](tmp_path / "a"), tmp_path / "b", to="ctranslate2")
    assert found.made and 0 < found.parity.max_difference <= 1e-4, found.parity


def test_no_family_is_needed(tmp_path: Path):
    """CTranslate2 has the parts of a model that no other program reads."""
    model = spread(Decoder(TransformerConfig(296, **OWN)))
    from export_kit import BPE, ids_of

    save_any(model, tmp_path / "a", **ids_of(BPE))
    BPE.save(tmp_path / "a")
    found = export(tmp_path / "a", tmp_path / "b", to="ctranslate2")
    assert found.made and found.parity.agreement[0] == found.parity.agreement[1], found.parity
    with pytest.raises(InputError, match="no Hugging Face family"):
        export(tmp_path / "a", tmp_path / "c")


EXACT = pytest.mark.skipif(
    not low_precision.int8_is_usable(), reason="this processor has no exact products of whole numbers"
)


@pytest.mark.parametrize("precision", ["float16", "bfloat16", pytest.param("int8", marks=EXACT)])
def test_lower_precisions_are_reported(precision: str, tmp_path: Path):
    source = decoder(tmp_path / "a")
    whole = export(source, tmp_path / "whole", to="ctranslate2").parity
    found = export(source, tmp_path / "b", to="ctranslate2", precision=precision)
    assert found.made and found.parity.bound is None and found.parity.agreement[0] > 100, found.parity
    assert whole.max_difference < found.parity.max_difference < 3
    sizes = [(tmp_path / place / "model.bin").stat().st_size for place in ("whole", "b")]
    assert sizes[1] < 0.62 * sizes[0]


def test_quantizing_leaves_the_model_as_it_is(tmp_path: Path):
    """CTranslate2 quantizes in place what it is given."""
    from headway.workflows.export import _subject

    subject = _subject(decoder(tmp_path / "a"), False)
    before = {name: weight.clone() for name, weight in subject.model.state_dict().items()}
    (tmp_path / "b").mkdir()
    target.write(subject, tmp_path / "b", "int8")
    assert all(torch.equal(weight, before[name]) for name, weight in subject.model.state_dict().items())


DYNAMIC = Positions("rotary", scaling=RopeScaling("dynamic", 2.0, 61))
REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "relu2": (
        lambda place: decoder(
            place, **{**QWEN3, "n_kv_heads": None, "d_head": None, "norm_parameters": "none", "activation": "relu2",
                      "gated": False, "embedding_norm": True, "logit_softcap": 15.0},
        ),
        "its activation is relu2, and CTranslate2 has relu, gelu, gelu_tanh, silu. .* the families gpt2, llama",
    ),
    "scaling": (lambda place: decoder(place, **{**LLAMA, "positions": DYNAMIC}), "scaled by 'dynamic'"),
    "window": (lambda place: decoder(place, **{**LLAMA, "bias": (), "window": 19}), "attend to a window only"),
    "modernbert": (
        lambda place: encoder(
            place, d_model=24, n_layers=2, n_heads=3, d_ff=29, max_length=61, norm="layernorm", activation="gelu",
            embedding_norm=True, first_norm=False, bias=("head",),
        ),
        "its first block has no norm before its attention, .*; to train an encoder for it, use --layout bert",
    ),
    "masked tokens": (
        lambda place: masked(place),
        "it has a MaskedTokenHead, and CTranslate2 has vectors of tokens only",
    ),
    "vectors": (lambda place: bare(place), "it has a VectorHead, and CTranslate2 continues texts"),
}  # fmt: skip


def masked(place: Path) -> Path:
    model = load_model(encoder(place))
    model.head = MaskedTokenHead(model.config, model.stack.embedding.tokens)
    headway.save_model(model, place)
    return place


def bare(place: Path) -> Path:
    model = load_model(decoder(place, **LLAMA))
    model.head = VectorHead()
    headway.save_model(model, place)
    return place


@pytest.mark.parametrize("what", REFUSED)
def test_what_ctranslate2_lacks_is_refused(what: str, tmp_path: Path, in_process: Callable):
    make, said = REFUSED[what]
    source = make(tmp_path / "a")
    with pytest.raises(InputError, match=said):
        export(source, tmp_path / "b", to="ctranslate2")
    status, out, err = in_process("export", source, "--to", "ctranslate2", "--out", tmp_path / "b")
    assert status == 2 and out == "" and err.count("\n") == 1 and names(tmp_path) == {"a"}


def test_a_translator_whose_targets_do_not_end_is_refused(tmp_path: Path, in_process: Callable):
    source = translator(tmp_path / "a")
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**config, "eos_token_id": None}))
    status, out, err = in_process("export", source, "--to", "ctranslate2", "--out", tmp_path / "b")
    assert status == 2 and out == "" and err.count("\n") == 1 and "no token ends a target" in err
    assert not (tmp_path / "b").exists()


def test_a_search_by_another_length_penalty_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The check asks the engine that ``--engine ctranslate2`` takes, as it is asked by default."""
    search = TranslatorEngine.search

    def ignoring(self: TranslatorEngine, sources: list[list[int]], how: Searching) -> list[list[Hypothesis]]:
        found = search(self, sources, replace(how, length_penalty=0.0))
        return [
            [replace(one, score=one.score / (len(one.ids) + (not one.cut)) ** how.length_penalty) for one in each]
            for each in found
        ]

    source = ending_translator(tmp_path / "a")
    assert export(source, tmp_path / "b", to="ctranslate2").made
    monkeypatch.setattr(TranslatorEngine, "search", ignoring)
    found = export(source, tmp_path / "c", to="ctranslate2")
    assert not found.made and "whose log-probability is lower" in found.parity.problem
    assert not (tmp_path / "c").exists()


def test_a_decoder_that_translates_is_refused_by_name(tmp_path: Path, in_process: Callable):
    """Before it is trained, and when it is exported."""
    (tmp_path / "pairs.csv").write_text("source,target\n" + "".join(f"the cat {n},{n} tac\n" for n in range(60)))
    words = ["--model", "decoder", "--d-model", "16", "--layers", "1", "--heads", "2", "--steps", "2", "--threads", "1"]
    run = tmp_path / "run"
    status, _, err = in_process("train", tmp_path / "pairs.csv", *words, "--task", "translation", "--out", run)
    assert status == 0 and "ctranslate2: this translator is a decoder alone" in err, err
    status, out, err = in_process("export", run, "--to", "ctranslate2", "--out", tmp_path / "b")
    assert (status, out) == (2, "") and "this translator is a decoder alone (--model decoder)" in err
    assert "This model can be exported to hf" in err and not (tmp_path / "b").exists()


def test_what_is_read_otherwise_is_not_left(tmp_path: Path, in_process: Callable, monkeypatch: pytest.MonkeyPatch):
    make = target.specification

    def spoilt(model: object, **options: object) -> object:
        spec = make(model, **options)
        spec.decoder.layer[1].ffn.linear_1.weight *= 1.5
        return spec

    monkeypatch.setattr(target, "specification", spoilt)
    status, _, err = in_process("export", decoder(tmp_path / "a"), "--to", "ctranslate2", "--out", tmp_path / "b")
    assert status == 1 and "the answers differ by" in err and names(tmp_path) == {"a"}


def test_other_ids_are_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write = target.write

    def spoilt(subject: object, directory: Path, precision: str) -> None:
        write(subject, directory, precision)
        spec = json.loads((directory / "tokenizer.json").read_text())
        (directory / "tokenizer.json").write_text(json.dumps({**spec, "normalizer": {"type": "Lowercase"}}))

    monkeypatch.setattr(target, "write", spoilt)
    found = export(decoder(tmp_path / "a"), tmp_path / "b", to="ctranslate2")
    assert not found.made and found.parity.tokens_equal is False and "different ids" in found.parity.problem


def test_a_broken_file_is_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write = target.write

    def spoilt(subject: object, directory: Path, precision: str) -> None:
        write(subject, directory, precision)
        (directory / "model.bin").write_bytes((directory / "model.bin").read_bytes()[:1000])

    monkeypatch.setattr(target, "write", spoilt)
    found = export(decoder(tmp_path / "a"), tmp_path / "b", to="ctranslate2")
    assert not found.made and "ctranslate2.Generator(DIR) cannot use it" in found.parity.problem


def test_without_the_package_the_extra_is_named(tmp_path: Path, in_process: Callable, monkeypatch: pytest.MonkeyPatch):
    source = decoder(tmp_path / "a")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    status, out, err = in_process("export", source, "--to", "ctranslate2", "--out", tmp_path / "b")
    assert status == 2 and out == "" and "pip install 'headway[export]'" in err and names(tmp_path) == {"a"}


def test_a_full_disk_leaves_nothing(tmp_path: Path, in_process: Callable, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ctranslate2.specs.ModelSpec, "_serialize", full)
    status, _, err = in_process("export", decoder(tmp_path / "a"), "--to", "ctranslate2", "--out", tmp_path / "b")
    assert status == 2 and "cannot be written (No space left on device)" in err and names(tmp_path) == {"a"}
