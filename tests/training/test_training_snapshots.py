"""``--snapshots``: the model of each evaluation, a model directory of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from faults_harness import lines_of, words

import headway
from headway.training.store.run_directory import RunDirectory
from headway.workflows.evaluate import evaluate


@pytest.mark.parametrize("task", ["text", "rows"])
def test_each_is_the_model_that_was_evaluated(task: str, corpus: Path, rows: Path, tiny: dict, tmp_path: Path):
    data = corpus if task == "text" else rows
    options: dict[str, Any] = {**tiny, "evaluations": 3, "average": 0.9, "dropout": 0.2, "quiet": True}
    headway.train(data, out=tmp_path / "run", snapshots=True, **options)
    headway.train(data, out=tmp_path / "without", **options)
    lines = [line for line in lines_of(tmp_path / "run") if line["event"] == "evaluation"]
    found = {path.name for path in (tmp_path / "run" / "snapshots").iterdir()}
    assert found == {f"step-{line['step']}" for line in lines} and len(found) == 3
    for line in lines:
        place = tmp_path / "run" / "snapshots" / f"step-{line['step']}"
        assert evaluate(place)["val_loss"] == pytest.approx(line["val_loss"], abs=1e-5)
    last, other = headway.load_model(tmp_path / "run"), headway.load_model(tmp_path / "without")
    for one, two in zip(last.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two), "training is the same with and without"
    assert not (tmp_path / "without" / "snapshots").exists()


def test_a_snapshot_that_cannot_be_saved_does_not_end_training(
    corpus: Path, tiny: dict, tmp_path: Path, in_process: Callable, monkeypatch: pytest.MonkeyPatch
):
    honest = RunDirectory.save_snapshot

    def full(self: RunDirectory, step: int, *given: Any) -> None:
        (self.path / "snapshots").write_text("a file is in the way")
        honest(self, step, *given)

    monkeypatch.setattr(RunDirectory, "save_snapshot", full)
    status, _, said = in_process("train", corpus, "--out", tmp_path / "run", *words(tiny), "--snapshots")
    assert status == 0 and "snapshots" in said and "cannot be saved" in said and "Training continues" in said
    assert headway.load(tmp_path / "run")("a", max_tokens=2) is not None
