"""What is timed before a run by time, what a run by steps decides without timing, and that both are recorded."""

from pathlib import Path
from typing import Any

import pytest
import torch
from faults_harness import facts_of

import headway
from headway.training.hardware import measure
from headway.training.loop import thread_parallel as shares
from headway.training.sizing import presets
from headway.training.sizing.presets import text_decay, text_dropout

TEXT = "a tale of two cities that nobody has read to its end; " * 200


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, a batch takes no time to evaluate, so that gradients are timed."""
    monkeypatch.setattr("headway.workflows.train.setup.batch_seconds", lambda *given: 0.0)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "tale.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def plan_of(run: Path) -> dict[str, Any]:
    return facts_of(run)["plan"]


def options(**more: Any) -> dict[str, Any]:
    return {"tokenizer": "char", "d_model": 32, "layers": 1, "length": 16, "quiet": True, **more}


@pytest.mark.parametrize(("alone", "apart", "expected"), [(1.0, 2.0, 1), (2.0, 1.0, 2)])
def test_by_time_the_faster_way_is_taken_and_recorded(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: float, apart: float, expected: int
):
    monkeypatch.setattr(shares, "TRIED_WORK", 0)
    seconds = {1: alone, 2: apart}
    asked = []

    def timed(job: Any, plan: Any, counts: Any, most: float) -> dict[int, tuple[float, float]]:
        asked.append((list(counts), most))
        return {count: (seconds[count], 256.0) for count in counts}

    monkeypatch.setattr(measure, "gradient_seconds", timed)
    headway.train(text, out=tmp_path / "run", time="4s", threads=2, **options())
    assert asked == [([1, 2], pytest.approx(4 * measure.PROBE_SHARE))]
    plan = plan_of(tmp_path / "run")
    assert plan["shares"] == expected
    said = next(line for line in plan["decisions"] if line["what"] == "threads")
    assert f"{alone:g} s in each operation" in said["why"] and f"{apart:g} s by rows" in said["why"]
    headway.train(text, out=tmp_path / "run", time="6s", threads=2, allow_changes=True, **options())
    assert len(asked) == 1, "a run that is continued follows what was decided"
    assert plan_of(tmp_path / "run")["shares"] == expected


def test_by_steps_nothing_is_timed(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shares, "LEAST_WORK", 0)
    monkeypatch.setattr(measure, "gradient_seconds", lambda *_: pytest.fail("timed"))
    headway.train(text, out=tmp_path / "one", steps=2, threads=2, **options())
    assert plan_of(tmp_path / "one")["shares"] == 2
    monkeypatch.setattr(shares, "MOST_GRADIENT", 10)
    headway.train(text, out=tmp_path / "other", steps=2, threads=2, **options())
    assert plan_of(tmp_path / "other")["shares"] == 1, "a gradient that is large for its batch is computed once"


def test_the_probe_changes_nothing_and_keeps_to_its_time(monkeypatch: pytest.MonkeyPatch, text: Path, tmp_path: Path):
    found: list[Any] = []
    original = measure.gradient_seconds

    def watched(job: Any, plan: Any, counts: Any, most: float) -> Any:
        model = job.model
        before, random = [p.detach().clone() for p in model.parameters()], torch.get_rng_state()
        result = original(job, plan, counts, most)
        assert all(torch.equal(p, b) and p.grad is None for p, b in zip(model.parameters(), before, strict=True))
        assert torch.equal(random, torch.get_rng_state()) and model.training
        found.append((result, original(job, plan, counts, 0.0)))
        return result

    monkeypatch.setattr(measure, "gradient_seconds", watched)
    headway.train(text, out=tmp_path / "run", time="20s", epochs=1, **options())
    (result, hurried), *more = found
    assert not more and hurried == {}, "where one batch takes too long, nothing is decided by it"
    assert set(result) == {1} and result[1][0] > 0 and result[1][1] > 0


def test_regularisation_follows_the_pace_that_was_measured(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for pace, passes in ((1e9, presets.TEXT_EPOCHS), (1.0, 0.0)):
        monkeypatch.setattr(measure, "gradient_seconds", lambda *given, pace=pace: {1: (1.0, pace)})
        headway.train(text, out=tmp_path / f"{pace}", time="3s", **options())
        plan = plan_of(tmp_path / f"{pace}")
        assert plan["model"]["dropout"] == text_dropout(passes) and plan["weight_decay"] == text_decay(passes)
        for what, value in (("dropout", text_dropout(passes)), ("decay", text_decay(passes))):
            said = [line for line in plan["decisions"] if line["what"] == what]
            assert len(said) == 1 and said[0]["value"].split()[0] == f"{value:g}"
            assert "passes over the text" in said[0]["why"]
    headway.train(text, out=tmp_path / "asked", time="3s", dropout=0.3, weight_decay=0.02, **options())
    asked = plan_of(tmp_path / "asked")
    assert asked["model"]["dropout"] == 0.3 and asked["weight_decay"] == 0.02


def test_more_passes_never_mean_less_regularisation():
    passes = (0.01, 1, 3, 5, 9, 17, 30, 300)
    dropout, decay = list(map(text_dropout, passes)), list(map(text_decay, passes))
    assert dropout == sorted(dropout) and dropout[0] == dropout[3] == 0.0 < dropout[5]
    assert dropout[-1] == presets.MOST_DROPOUT
    assert decay == sorted(decay) and decay[2] == 0.0 < decay[3] and decay[-1] == presets.MOST_DECAY
