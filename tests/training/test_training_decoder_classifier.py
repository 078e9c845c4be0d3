"""Classifiers that begin from a decoder: trained, saved in the family's own class, read by other programs."""

import json
from pathlib import Path

import pytest

import headway
from headway.errors import InputError
from headway.hub.directory import load_model
from headway.hub.fine_tune import for_classification
from headway.tasks.classification.task import Classifier
from headway.workflows.evaluate import evaluate
from headway.workflows.export import export

OPTIONS = {"threads": 1, "precision": "float32", "evaluations": 1, "quiet": True}


@pytest.mark.parametrize("kind", ["gpt2", "gpt2-bare", "llama", "qwen3"])
def test_a_decoder_becomes_a_classifier_of_its_family(kind: str, bases: dict[str, Path], rows: Path, tmp_path: Path):
    run = tmp_path / "run"
    found = headway.train(rows, out=run, from_model=str(bases[kind]), steps=9, **OPTIONS)
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    assert config["architectures"][0].endswith("ForSequenceClassification")
    assert config["pad_token_id"] is not None and set(config["label2id"]) == {"pos", "neg"}
    assert not (run / "generation_config.json").exists()
    pipe = headway.load(run)
    assert isinstance(pipe, Classifier)
    texts = ["the old cat is awful", "a", "the dog was wonderful and the day was long", ""]
    together, alone = pipe(texts), [pipe(text) for text in texts]
    for one, other in zip(together, alone, strict=True):
        assert one["scores"] == pytest.approx(other["scores"], abs=1e-5)
    assert evaluate(run)["val_loss"] == pytest.approx(found["val_loss"], abs=1e-5)
    written = export(run, tmp_path / "export")
    assert written.parity.checked and written.parity.passed and written.task == "classification"


def test_only_the_last_token_of_a_text_is_read(bases: dict[str, Path]):
    model = load_model(bases["gpt2"])
    head = for_classification(model, 3).head
    assert head.pooling == "last" and head.dense is None and head.out.bias is None


REFUSED = {
    "an encoder-decoder": ("t5", {}, "t5: is an encoder-decoder"),
    "a family without classes": ("nanochat", {}, "nanochat has no classifier"),
    "frozen vectors": ("gpt2", {"frozen": True}, "is a decoder, and --frozen needs an encoder"),
    "tuned vectors": ("llama", {"contrastive": True}, "is a decoder, and --contrastive"),
    "hidden tokens": (
        "gpt2",
        {"adapt": True},
        r"gpt2: is not an encoder with a \[MASK\], .* --adapt starts with; .* leave that option out",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_is_refused(what: str, bases: dict[str, Path], rows: Path, tmp_path: Path):
    kind, options, said = REFUSED[what]
    with pytest.raises(InputError, match=said):
        headway.train(rows, out=tmp_path / "run", from_model=str(bases[kind]), quiet=True, **options)
    assert not (tmp_path / "run").exists()


def test_a_decoder_without_logits_answers_nothing(bases: dict[str, Path]):
    with pytest.raises(InputError, match=r"config\.json: the task of this model is unknown"):
        headway.load(bases["gpt2-bare"])
