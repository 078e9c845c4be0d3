"""Classifiers from a sentence encoder of every family: what was trained is what `transformers` reads and answers."""

import json
from pathlib import Path

import pytest
import torch
import transformers
from bases import FAMILIES, tokenizer

import headway
from headway.errors import InputError
from headway.hub.directory import load_model, save_model
from headway.hub.fine_tune import SPREAD, for_classification
from headway.models.adapt.freeze import first_blocks
from headway.models.heads import ClassificationHead, PoolingHead
from headway.tasks.fitting import kept_blocks
from headway.training.loop.state import Training
from headway.training.optimizers import optimizers
from headway.training.store.facts import read_facts, write_facts
from headway.workflows.evaluate import evaluate

WAYS = {
    "all of it": {"steps": 5, "evaluations": 1, "learning_rate": 3e-3},
    "frozen": {"frozen": True},
    "contrastive": {"contrastive": True},
}
QUICK = {"threads": 1, "precision": "float32", "quiet": True}
TEXTS = [f"{a} {b} {c}" for a in ("the old", "a red") for b in ("cat", "dog", "door") for c in ("sat", "on a mat", "")]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A sentence encoder of every family, in the layout of sentence-transformers, with weights drawn at random."""
    places = {}
    for family, values in FAMILIES.items():
        words = tokenizer("wordpiece", "encoder")
        cls = getattr(transformers, f"{family}Model")
        model = cls(cls.config_class(**{**values, "pad_token_id": words.pad}))
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for p in model.parameters():
                if p.dim() > 1:
                    p.copy_(0.2 * torch.randn(p.shape, generator=generator))
        places[family] = tmp_path_factory.mktemp(family)
        model.save_pretrained(places[family])
        ours = load_model(places[family])
        ours.head = PoolingHead("mean")
        save_model(ours, places[family])
        words.save(places[family], max_length=57)
        assert (places[family] / "modules.json").exists()
    return places


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_pipeline_of_transformers_answers_as_the_run_does(
    family: str, way: str, bases: dict[str, Path], rows: Path, tmp_path: Path
):
    found = headway.train(rows, from_model=str(bases[family]), out=tmp_path, **WAYS[way], **QUICK)
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == [f"{family}ForSequenceClassification"]
    assert not (tmp_path / "modules.json").exists()
    auto = transformers.AutoModelForSequenceClassification
    _, report = auto.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
    theirs = transformers.pipeline("text-classification", str(tmp_path), device="cpu")(TEXTS, batch_size=4)
    ours = headway.load(tmp_path)(TEXTS)
    assert [one["label"] for one in ours] == [one["label"] for one in theirs]
    assert [one["score"] for one in ours] == pytest.approx([one["score"] for one in theirs], abs=1e-4)
    assert len({round(one["score"], 4) for one in ours}) > 5, "too alike to show anything"
    assert evaluate(tmp_path)["val_loss"] == pytest.approx(found["val_loss"], abs=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_the_last_matrix_reads_is_the_normalised_mean(
    family: str, bases: dict[str, Path], rows: Path, tmp_path: Path
):
    headway.train(rows, from_model=str(bases[family]), frozen=True, out=tmp_path, **QUICK)
    model, bare = (load_model(path).requires_grad_(False) for path in (tmp_path, bases[family]))
    bare = first_blocks(bare, kept_blocks(2))
    bare.head = None
    ids = torch.tensor([[5, 6, 7, 8, 9], [10, 11, 12, 0, 0]])
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    read = model.head.vector(model.stack(ids, mask), mask)
    x = bare(ids, mask)
    means = torch.stack([x[0].mean(dim=0), x[1, :3].mean(dim=0)])
    expected = torch.nn.functional.layer_norm(means, means.shape[-1:])
    read = torch.nn.functional.layer_norm(read, read.shape[-1:])
    assert torch.cosine_similarity(read, expected).min() > 0.99
    assert model.head.vector(model.stack(ids, mask), mask).std(dim=-1).min() > 0.5 * SPREAD


def test_a_classifier_of_another_shape_is_not_gone_on_with(bases: dict[str, Path]):
    """As an earlier version began it: one matrix on the mean, without the dense layer of the family's classifier."""
    model = for_classification(load_model(bases["Bert"]), 2)
    begun = Training(model, optimizers(model, "adamw", 1e-3, 0.0), None)
    tensors, plain = begun.saved()
    begun.restore(tensors, plain)
    earlier = {name: tensor for name, tensor in tensors.items() if ".head.dense" not in name}
    with pytest.raises(InputError, match=r"another shape \(only one of the two has head\.dense\.bias\)"):
        begun.restore(earlier, plain)


def test_low_rank_updates_leave_the_layer_of_the_mean_as_it_is(bases: dict[str, Path], rows: Path, tmp_path: Path):
    headway.train(rows, from_model=str(bases["Bert"]), lora=2, steps=4, out=tmp_path, **QUICK)
    last = load_model(tmp_path).stack.blocks[-1]
    assert not last.feedforward.layer.up.weight.any() and not last.attention.layer.qkv.weight[:48].any()
    assert torch.equal(last.attention.layer.qkv.weight[48:], torch.eye(24))


def test_a_run_in_the_earlier_layout_is_loaded_and_measured(bases: dict[str, Path], rows: Path, tmp_path: Path):
    """One matrix on mean vectors, in the layout of sentence-transformers."""
    headway.train(rows, from_model=str(bases["Bert"]), frozen=True, out=tmp_path, **QUICK)
    labels = json.loads((tmp_path / "config.json").read_text())["id2label"]
    earlier = load_model(bases["Bert"])
    earlier.head = ClassificationHead(earlier.config, 2, dense=False, normalise=True)
    save_model(earlier, tmp_path, id2label=labels)
    assert (tmp_path / "modules.json").exists()
    write_facts(tmp_path, read_facts(tmp_path) or {})  # it vouches for the files that are there now
    assert set(headway.load(tmp_path)("the old cat")["scores"]) == set(labels.values())
    assert 0 < evaluate(tmp_path)["val_loss"] < 5
