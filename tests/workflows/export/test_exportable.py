"""What a model can be exported to is said before it is trained, without the libraries of the targets."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from export_kit import BPE, LLAMA, PIECES, QWEN3, WORDS

from headway.formats.parity import exceeding, magnitude
from headway.formats.registry import FORMATS
from headway.formats.subject import in_words, refusals
from headway.models.baselines import BaselineConfig, BaselineEncoder, RecurrentDecoder, RecurrentEncoderDecoder
from headway.models.config import TransformerConfig
from headway.models.own import OwnConfig
from headway.models.transformer import Decoder, Encoder
from headway.text.train import train_tokenizer


@pytest.fixture(autouse=True)
def without_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gguf", "ctranslate2", "llama_cpp", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)


def on_meta(kind: type, rows: int, **config: object) -> torch.nn.Module:
    """A model without weights: only its parts matter."""
    with torch.device("meta"):
        return kind(TransformerConfig(rows, **config))


def test_a_model_that_every_target_takes():
    found = refusals(on_meta(Decoder, BPE.vocab_size, **QWEN3), BPE)
    assert list(found) == [name for name in FORMATS if name != "peft"] and not any(
        found[name] for name in ("hf", "gguf", "ctranslate2")
    )
    assert in_words({"hf": None, "gguf": None}) == "exports: hf, gguf"


def test_the_reason_is_the_first_clause():
    characters = train_tokenizer(WORDS, "char")
    found = refusals(on_meta(Decoder, characters.vocab_size, **LLAMA), characters)
    assert found["gguf"] == "its tokenizer is one of characters" and found["ctranslate2"] is None
    own = refusals(on_meta(Encoder, PIECES.vocab_size, positions="alibi"), PIECES)
    assert own["hf"] == "no Hugging Face family has these parts"
    assert own["ctranslate2"] == "its positions are alibi"
    said = "exports: none - not hf: one; not gguf: two"
    assert in_words({"hf": "one", "gguf": "two"}) == said


@pytest.mark.parametrize(
    "model",
    [
        RecurrentDecoder(BaselineConfig("lstm", BPE.vocab_size, d_model=16, n_layers=1)),
        RecurrentEncoderDecoder(BaselineConfig("gru", BPE.vocab_size, d_model=16, n_layers=1)),
        BaselineEncoder(BaselineConfig("cnn", BPE.vocab_size, d_model=16, n_layers=1)),
        torch.nn.Linear(3, 2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_other_models_are_refused_and_nothing_breaks(model: torch.nn.Module):
    model.config = getattr(model, "config", OwnConfig("stars", 30, 16, 1, 31))
    found = refusals(model, BPE)
    assert all(found[name] for name in ("hf", "gguf", "ctranslate2")), found


def test_training_says_it_first(corpus: Path, tmp_path: Path, in_process: Callable, tiny: dict):
    words = ["--d-model", "16", "--layers", "2", "--heads", "2", "--length", "32", "--steps", "2", "--threads", "1"]
    status, _, err = in_process("train", corpus, "--out", tmp_path / "run", "--tokenizer", "char", *words)
    assert status == 0
    said = next(line for line in err.splitlines() if "exports:" in line)
    assert "exports: hf" in said and "not gguf: its tokenizer is one of characters" in said
    assert err.index("exports:") < err.index("\nstep ")


def test_a_plan_says_it(corpus: Path, in_process: Callable):
    words = ["--preset", "tiny", "--steps", "2", "--tokenizer", "bpe", "--plan"]
    status, out, _ = in_process("train", corpus, *words)
    assert status == 0 and "exports: hf, gguf, ctranslate2" in out
    status, out, _ = in_process("train", corpus, *words, "--layout", "nanochat", "--json")
    found = json.loads(out.splitlines()[-1])["exports"]
    assert status == 0 and found["hf"] is None and found["gguf"] == "this model is nanochat"


def test_a_difference_has_a_bound_or_is_at_least_a_number():
    assert exceeding(0.1, 0.1, "they differ") == [] == exceeding(9.0, None, "they differ")
    assert exceeding(0.2, 0.1, "they differ") == ["they differ by 0.2, more than 0.1"]
    assert exceeding(float("nan"), 0.1, "they differ") == ["they differ by nan, more than 0.1"]
    assert exceeding(float("nan"), None, "they differ") == ["they differ by nan"]
    assert exceeding(float("inf"), None, "they differ") == ["they differ by inf"]


def test_a_difference_is_measured_by_the_size_of_the_numbers():
    assert magnitude(torch.tensor([[3.0, -4.0]])) == pytest.approx(12.5**0.5)
    assert magnitude(torch.full((2, 3), 0.1)) == 1.0
