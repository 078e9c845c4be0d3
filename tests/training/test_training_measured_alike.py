"""The training loss that people see is measured as the validation loss: without smoothing, class weights and R-Drop."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from faults_harness import lines_of

from headway.training.health import BY_HEART

EASY = ("great", "awful")
FILLER = ("the", "lamp", "was", "on", "a", "table", "by", "our", "door")


def told_rows(draw: random.Random, count: int) -> list[tuple[str, str]]:
    """Texts that their third word decides."""
    labels = [EASY[number % 5 == 0] for number in range(count)]
    return [(" ".join([*draw.choices(FILLER, k=2), label, *draw.choices(FILLER, k=3)]), label) for label in labels]


def classes(at: Path, rows: list[tuple[str, str]]) -> Path:
    at.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    return at


def tags(at: Path, rows: list[tuple[str, str]]) -> Path:
    words = ((f"{word} {'B-X' if word in EASY else 'O'}\n" for word in text.split()) for text, _ in rows)
    at.write_text("\n".join("".join(lines) for lines in words))
    return at


def pairs(at: Path, rows: list[tuple[str, str]]) -> Path:
    at.write_text("source\ttarget\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    return at


TASKS = {
    "classification": (classes, "rows.csv", ("--balance", "--r-drop", 1), 0.1985),
    "token_classification": (tags, "rows.conll", (), 0.1985),
    "translation": (pairs, "rows.tsv", ("--r-drop", 1, "--text-column", "source", "--second-column", "target"), 0.3),
}
"""How its data are written, its options, and a bound of the loss that smoothing alone leaves to a perfect model."""


@pytest.mark.parametrize("task", TASKS)
def test_both_losses_are_measured_alike(task: str, tmp_path: Path, in_process: Callable):
    write, name, options, smoothed = TASKS[task]
    path = write(tmp_path / name, told_rows(random.Random(3), 200))
    words = ("--d-model", 32, "--layers", 1, "--dropout", 0, "--label-smoothing", 0.1, "--threads", 1, "--log-every", 1)
    words = (*words, *(("--token-dropout", 0) if task != "translation" else ()), "--learning-rate", 0.01, *options)
    given = ("--task", task, "--steps", 60, *words, "--precision", "float32", "--out", tmp_path / "run")
    status, out, err = in_process("train", path, *given, "--quiet", "--json")
    assert status == 0, err
    found = json.loads(out.splitlines()[-1])
    lines = lines_of(tmp_path / "run")
    (last,) = [line for line in lines if line["event"] == "evaluation"][-1:]
    assert found["train_loss"] == [line for line in lines if line["event"] == "step"][-1]["loss"] < 0.8 * smoothed
    assert last["train_loss"] == pytest.approx(last["val_loss"], abs=0.05)


def test_a_model_that_smoothing_keeps_from_certainty_has_memorised_nothing(tmp_path: Path, in_process: Callable):
    path = classes(tmp_path / "rows.csv", told_rows(random.Random(5), 410))
    words = ("--preset", "tiny", "--steps", 120, "--evaluations", 12, "--threads", 1, "--precision", "float32")
    status, _, err = in_process("train", path, "--out", tmp_path / "run", *words)
    assert status == 0 and BY_HEART not in err
    evaluations = [json.loads(one) for one in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    losses = [one["val_loss"] for one in evaluations if one["event"] == "evaluation"]
    assert losses[-1] > 1.1 * min(losses), "smoothing has raised it"
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Validation loss rose" in page and "memorised" not in page and "in training with dropout<" in page
