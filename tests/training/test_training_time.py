"""The time that a run keeps to, from the beginning of its process, and the share of evaluation, by sizes."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from faults_harness import facts_of, lines_of

import headway
from headway.training.loop.schedule import ENDING, MOST_LOAD, Load

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "on", "over", "mat", "hill", "red", "blue", "slow", "quick"]
SMALL = {"d_model": 16, "layers": 1, "heads": 2, "length": 32, "threads": 1, "quiet": True}


def lines(count: int) -> list[str]:
    draw = random.Random(5)
    return [" ".join(draw.choices(WORDS, k=24)) for _ in range(count)]


def test_the_clock_starts_with_the_process(headway_command: Callable, tmp_path: Path):
    (tmp_path / "a.txt").write_text("\n".join(lines(60)))
    words = ("train", tmp_path / "a.txt", "--out", tmp_path / "run", "--steps", 1, "--d-model", 16, "--layers", 1)
    done = headway_command(*words, "--json", "--quiet", script="import time\ntime.sleep(1.5)")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["seconds"] > 1.5


def test_a_busy_machine_gets_more_time_for_its_end(monkeypatch: pytest.MonkeyPatch):
    wall, worked = [100.0], [7.0]
    monkeypatch.setattr("headway.training.loop.schedule.time.monotonic", lambda: wall[0])
    monkeypatch.setattr("headway.training.loop.schedule.time.thread_time", lambda: worked[0])
    load, found = Load(), []
    for wall[0], worked[0] in ((101.0, 8.0), (103.0, 8.0), (200.0, 8.0)):
        found.append(load.ending)
    assert found == [ENDING, 3 * ENDING, MOST_LOAD * ENDING]


@pytest.mark.parametrize("kind", ["text", "rows"])
def test_evaluation_keeps_to_its_share_of_the_tokens(kind: str, tmp_path: Path):
    """Few steps and much that is held out: evaluations read a part of it, and the kept weights are measured on all."""
    file, out, some = tmp_path / ("a.txt" if kind == "text" else "a.csv"), tmp_path / "run", lines(6000)
    rows = ["text,label", *(f"{line},{'yes' if 'cat' in line else 'no'}" for line in some)]
    file.write_text("\n".join(some if kind == "text" else rows))
    headway.train(file, out=out, steps=20, batch_tokens=256, **SMALL)
    facts = facts_of(out)
    part = facts["plan"]["validation_part"]
    assert part > 1 and any(f"one of every {part} batches" in one["value"] for one in facts["decisions"])
    logged = lines_of(out)
    losses = {one["step"]: one["val_loss"] for one in logged if one["event"] == "evaluation"}
    assert len(losses) == 10 and facts["metrics"]["val_loss"] != losses[facts["best_step"]]
    again = headway.evaluate(out)
    assert again["val_loss"] == pytest.approx(facts["metrics"]["val_loss"], abs=1e-5)
    assert facts["kept"]["val_loss"] == facts["metrics"]["val_loss"]
    assert facts["kept"]["evaluated_loss"] == losses[facts["best_step"]]
    headway.train(file, out=tmp_path / "asked", steps=20, batch_tokens=256, evaluations=10, **SMALL)
    assert facts_of(tmp_path / "asked")["plan"]["validation_part"] == 1
    few = tmp_path / ("few.txt" if kind == "text" else "few.csv")
    few.write_text("\n".join(some[:99] if kind == "text" else rows[:100]))
    headway.train(few, out=tmp_path / "few", steps=20, batch_tokens=256, **SMALL)
    assert facts_of(tmp_path / "few")["plan"]["validation_part"] == 1


@pytest.mark.parametrize(("share", "looked_at"), [(0.0, 16), (1.0, 21)])
def test_a_report_looks_at_as_many_rows_as_there_is_time_for(
    share: float, looked_at: int, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headway.tasks.rows_data.LOOKING", share)
    options = {"d_model": 16, "layers": 1, "heads": 2, "threads": 1, "precision": "float32", "quiet": True}
    headway.train(rows, out=tmp_path / "run", time="12s", epochs=1, **options)
    assert facts_of(tmp_path / "run")["shown"]["looked_at"] == looked_at
