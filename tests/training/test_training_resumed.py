"""Every task, stopped in the middle and taken up by the same command, ends as the run left alone, to the last bit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faults_harness import facts_of, lines_of, outcome

import headway

COMMON: dict[str, Any] = {
    **{"steps": 8, "batch_tokens": 256, "evaluations": 2, "log_every": 1, "threads": 1, "precision": "float32"},
    "quiet": True,
}
SHAPE: dict[str, Any] = {"d_model": 16, "layers": 2, "heads": 2}
DRAWN: dict[str, Any] = {"average": 0.9, "dropout": 0.1}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "masked": ("text.txt", {**SHAPE, "task": "masked_lm"}),
    "dialogue": ("talk.jsonl", SHAPE),
    "tags": ("tags.conll", SHAPE),
    "translation": ("two.csv", {**SHAPE, **DRAWN, "task": "translation", "r_drop": 1.0, "bpe_dropout": 0.3}),
    "images": ("images.npz", {**SHAPE, "dropout": 0.1, "augment": "flip"}),
    "text of an lstm": ("text.txt", {"d_model": 24, "model": "lstm", "dropout": 0.2}),
    "rows of an lstm": ("rows.csv", {"d_model": 24, "model": "lstm", "dropout": 0.2}),
    "new tokens": ("text.txt", {"from_model": "qwen3", "freeze": 0, "extend_vocab": 71, **DRAWN}),
    "updates of low rank": ("text.txt", {"from_model": "gpt2", "lora": 3}),
    "such updates and new tokens": ("text.txt", {"from_model": "gpt2", "lora": 3, "extend_vocab": 7, **DRAWN}),
}


@pytest.mark.parametrize("case", CASES)
def test_stopped_and_taken_up_it_ends_as_the_run_left_alone(
    case: str, files: Path, bases: dict[str, Path], tmp_path: Path, stop_at: Callable
):
    file, own = CASES[case]
    base = {"from_model": str(bases[own["from_model"]])} if "from_model" in own else {}
    given = {**COMMON, **own, **base}
    headway.train(files / file, out=tmp_path / "alone", **given)
    stop_at(4)
    with pytest.raises(KeyboardInterrupt):
        headway.train(files / file, out=tmp_path / "run", **given)
    headway.train(files / file, out=tmp_path / "run", **given)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "alone")
    one, other = ([facts_of(tmp_path / name).get(key) for key in ("data", "base")] for name in ("alone", "run"))
    assert one == other
    assert [line["step"] for line in lines_of(tmp_path / "run") if line["event"] == "resume"] == [4]
