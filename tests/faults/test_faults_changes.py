"""A run that is taken up otherwise than it began: what changed is named, and it goes on only where that is allowed."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faults_harness import TINY, facts_of, lines_of, outcome

import headway
from headway.errors import InputError
from headway.training.options import TrainOptions

REFUSED: dict[str, Any] = {"d_model": 32, "length": 16, "seed": 9, "vocab": 300, "tokenizer": "char", "average": 0.5}
ALLOWED: dict[str, Any] = {"learning_rate": 1e-3, "batch_tokens": 128, "steps": 40, "max_grad_norm": 0.5, "warmup": 0.1}


@pytest.fixture(scope="module")
def begun(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A run that is complete; look, but do not write."""
    options = {**TINY, "layers": 1, "steps": 10}
    headway.train(corpus, out=(place := tmp_path_factory.mktemp("begun") / "run"), quiet=True, **options)
    return place, options


@pytest.mark.parametrize("name", [*REFUSED, *ALLOWED])
def test_what_changed_is_named_with_what_it_was(name: str, begun: Any, corpus: Path):
    (place, options), value = begun, {**REFUSED, **ALLOWED}[name]
    before = options.get(name, TrainOptions().value(name))
    before = "not given" if before is None else before
    said = rf"holds a run with other options.*--{name.replace('_', '-')} {before}.*\(now {value}\)"
    with pytest.raises(InputError, match=said) as raised:
        headway.train(corpus, out=place, quiet=True, **{**options, name: value})
    assert ("--allow-changes" in str(raised.value)) == (name in ALLOWED)
    if name in REFUSED:
        with pytest.raises(InputError, match="cannot change during a run"):
            headway.train(corpus, out=place, quiet=True, allow_changes=True, **{**options, name: value})


def test_other_data_are_refused_and_the_way_on_is_named(begun: Any, corpus: Path, tmp_path: Path):
    place, options = begun
    (tmp_path / "corpus.txt").write_text(corpus.read_text() + "more\n")
    with pytest.raises(InputError, match=r"holds a run on other data than .*--from"):
        headway.train(tmp_path / "corpus.txt", out=place, quiet=True, **options)


def test_the_same_file_with_another_content_is_said_to_have_changed(tmp_path: Path, tiny: dict):
    corpus, out = tmp_path / "corpus.txt", tmp_path / "run"
    corpus.write_text("the cat sat on a mat\n" * 300)
    headway.train(corpus, out=out, quiet=True, **{**tiny, "steps": 2})
    corpus.write_text("the cat sat on a mat\n" * 299 + "the cat\n")
    with pytest.raises(InputError, match=r"corpus\.txt has changed since the run began\. Restore the file.*--from"):
        headway.train(corpus, out=out, quiet=True, **{**tiny, "steps": 2})


def test_a_run_that_is_complete_is_given_more_steps(corpus: Path, tmp_path: Path, tiny: dict):
    options = {**tiny, "evaluations": 5, "log_every": 1}
    first = headway.train(corpus, out=tmp_path / "run", quiet=True, **options)
    more = headway.train(corpus, out=tmp_path / "run", quiet=True, allow_changes=True, **{**options, "steps": 60})
    assert more["steps"] == 60 and more["val_loss"] < first["val_loss"]
    lines = lines_of(tmp_path / "run")
    (changed,) = [line for line in lines if line["event"] == "changed"]
    assert changed["step"] == 20 and changed["options"] == {"steps": 60}
    assert [line["step"] for line in lines if line["event"] == "evaluation"][-3:] == [36, 48, 60]
    rates = {line["step"]: line["learning_rate"] for line in lines if line["event"] == "step"}
    assert rates[21] > rates[20] and rates[60] < rates[40], "the schedule is that of the longer run"
    facts = facts_of(tmp_path / "run")
    assert facts["options"]["steps"] == 60 and facts["finished"]
    again = outcome(tmp_path / "run")
    headway.train(corpus, out=tmp_path / "run", quiet=True, **{**options, "steps": 60})
    assert outcome(tmp_path / "run") == again


@pytest.fixture
def stopped(rows: Path, tmp_path: Path, tiny: dict, stop_at: Callable) -> Path:
    """A run on rows that was stopped in its first pass."""
    stop_at(7)
    with pytest.raises(KeyboardInterrupt):
        headway.train(rows, out=tmp_path / "run", quiet=True, **tiny)
    stop_at()
    return tmp_path / "run"


def test_with_other_batches_the_next_pass_begins(stopped: Path, rows: Path, tiny: dict, capfd: pytest.CaptureFixture):
    headway.train(rows, out=stopped, allow_changes=True, **{**tiny, "batch_tokens": 200, "learning_rate": 1e-3})
    assert "the rest of this epoch is skipped" in capfd.readouterr().err
    plan = facts_of(stopped)["plan"]
    assert plan["batch_tokens"] == 200 and plan["learning_rate"] == 1e-3
    assert lines_of(stopped)[-1]["event"] == "end"


def test_steps_that_are_taken_already_are_said(stopped: Path, rows: Path, tiny: dict, capfd: pytest.CaptureFixture):
    headway.train(rows, out=stopped, allow_changes=True, **{**tiny, "steps": 3})
    assert "it is already beyond --steps 3" in capfd.readouterr().err
    assert facts_of(stopped)["steps"] == 7


def test_how_often_is_saved_and_logged_may_change_by_itself(stopped: Path, rows: Path, tiny: dict):
    headway.train(
        rows, out=stopped, quiet=True, **{**tiny, "save_every": "1h", "log_every": 3, "on_save_error": "stop"}
    )
    assert [line["step"] for line in lines_of(stopped) if line["event"] == "step"][-2:] == [15, 18]


def test_a_run_without_checkpoints_is_not_begun_anew_by_changes(begun: Any, corpus: Path, tmp_path: Path):
    place, options = begun
    shutil.copytree(place, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    with pytest.raises(InputError, match=r"no checkpoint can be used, so the run cannot resume: .*is empty"):
        headway.train(corpus, out=tmp_path / "run", quiet=True, allow_changes=True, **{**options, "steps": 20})
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before
