"""The model card of ``export --to hf``: huggingface_hub reads it, and it says what headway.json says."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.workflows.export import export

ModelCard = pytest.importorskip("huggingface_hub").ModelCard


def test_it_says_what_the_run_measured(classifier_run: Path, tmp_path: Path, in_process: Callable):
    facts = json.loads((classifier_run / "headway.json").read_text())
    status, _, err = in_process("export", classifier_run, "--out", tmp_path / "clf", "--license", "apache-2.0")
    assert status == 0, err
    card = ModelCard.load(tmp_path / "clf" / "README.md")
    assert card.data.license == "apache-2.0" and card.data.library_name == "transformers"
    assert card.data.pipeline_tag == "text-classification" and card.data.tags == ["headway"]
    results = {result.metric_type: result for result in card.data.eval_results}
    assert set(results) == {"accuracy", "f1", "val_loss"} and results["accuracy"].dataset_name == "rows.csv"
    assert results["accuracy"].metric_value == facts["metrics"]["accuracy"]
    low, high = facts["verdict"]["interval"]
    assert results["accuracy"].metric_name == f"accuracy (95 % interval {low:.3f} to {high:.3f})"
    for baseline in facts["baselines"]:
        assert f"| {baseline['name']} | {baseline['accuracy']:.3f} |" in card.content
    assert facts["data"]["train"] in card.content and facts["data"]["fingerprint"] in card.content
    assert "Its labels: neg, pos." in card.content and "## Limits" in card.content
    assert str(classifier_run) not in card.content and str(Path(facts["data"]["inputs"][0]).parent) not in card.content


def test_only_programs_that_can_load_it_are_named(classifier_run: Path, lm_run: Path, tmp_path: Path):
    export(classifier_run, tmp_path / "clf")
    export(lm_run, tmp_path / "lm", license=None)
    classifier, lm = ((tmp_path / name / "README.md").read_text() for name in ("clf", "lm"))
    assert (
        'pipeline("text-classification", "clf", truncation=True)' in classifier and 'headway.load("clf")' in classifier
    )
    assert "llama.cpp" not in classifier and 'onnxruntime.InferenceSession("onnx/model.onnx")' in classifier
    assert 'pipeline("text-generation", "lm")' in lm and "license:" not in lm


def test_the_programs_of_a_layout_that_all_read(tmp_path: Path):
    from export_kit import decoder

    export(decoder(tmp_path / "qwen3"), tmp_path / "out")
    text = (tmp_path / "out" / "README.md").read_text()
    for words in ("With transformers:", "With Headway:", "With llama.cpp:", "With CTranslate2:", "With ONNX Runtime:"):
        assert words in text
    assert "## Results" not in text, "nothing was measured"


def test_the_card_of_a_directory_is_kept(lm_run: Path, tmp_path: Path):
    source = shutil.copytree(lm_run, tmp_path / "a", ignore=shutil.ignore_patterns("checkpoints", "headway.json"))
    (source / "log.jsonl").unlink()
    (source / "report.html").unlink()
    (source / "README.md").write_text("# written by hand\n")
    export(source, tmp_path / "b")
    assert (tmp_path / "b" / "README.md").read_text() == "# written by hand\n"
