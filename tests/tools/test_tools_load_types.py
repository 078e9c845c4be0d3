"""The types of ``headway.load`` are those of the registry, whose order decides nothing."""

import random
import sys
from collections import Counter
from pathlib import Path

import pytest

import headway
from headway.tasks import registry

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
import load_types


def test_they_are_what_the_registry_says():
    assert load_types.FILE.read_text() == load_types.written(), "run python tools/load_types.py"
    assert load_types.KEYWORDS.read_text() == load_types.keywords_written(), "run python tools/load_types.py"


def test_no_two_tasks_that_read_the_same_have_a_head_in_common():
    """But where ``problem_type`` of ``config.json`` tells them apart."""
    heads = Counter((one.reads, one.problem, *head) for one in map(registry.spec, registry.NAMES) for head in one.heads)
    assert set(heads.values()) == {1}


def test_in_any_order_models_are_of_the_same_task(
    lm_run: Path, classifier_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for run in (lm_run, classifier_run):
        headway.save_model(headway.load_model(run), tmp_path / run.name)  # which names no task
        for file in run.glob("tokenizer*"):
            (tmp_path / run.name / file.name).write_bytes(file.read_bytes())
        task = headway.load(run).task
        for seed in range(5):
            monkeypatch.setattr(
                registry, "NAMES", tuple(random.Random(seed).sample(registry.NAMES, len(registry.NAMES)))
            )
            assert headway.load(tmp_path / run.name).task == task
