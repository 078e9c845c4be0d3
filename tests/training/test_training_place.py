"""Where a run may be: a place that is absent, empty or a run; nothing that is not its own is taken or removed."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bases import make_base
from faults_harness import ENDED, Forker, content, facts_of, outcome, words

import headway
from headway.errors import InputError
from headway.training.store.run_directory import RunDirectory

KILLING = """
import os, signal
from headway.training.store.run_directory import RunDirectory
RunDirectory.{} = lambda *given, **more: os.kill(os.getpid(), signal.SIGKILL)
"""
ROWS = {"steps": 4, "evaluations": 1}


@pytest.mark.parametrize(
    "held", ["notes.txt", ".notes.tmp", ".env", "model.safetensors", "checkpoints/x", ".a.notes.tmp", "tokenizer.json"]
)
def test_a_folder_with_anything_else_is_refused_and_left_as_it_was(
    held: str, corpus: Path, tmp_path: Path, tiny: dict, in_process: Callable
):
    place = tmp_path / "mine"
    (place / held).parent.mkdir(parents=True)
    (place / held).write_text("mine")
    (place / f".model.safetensors.{ENDED}.tmp").write_text("of a killed command")
    before = content(place)
    status, _, err = in_process("train", corpus, "--out", place, *words(tiny))
    name = held.partition("/")[0]
    assert status == 2 and f"{place}: holds {name} but no headway.json" in err and "--out" in err, err
    assert content(place) == before


def test_the_root_of_the_machine_is_no_run(corpus: Path, tiny: dict):
    with pytest.raises(InputError, match=r"^/: holds .* but no headway\.json, so it is not a run of headway"):
        headway.train(corpus, out="/", quiet=True, **tiny)


def test_a_folder_of_our_own_temporary_files_is_empty_and_only_those_of_ended_processes_go(
    corpus: Path, tmp_path: Path, tiny: dict
):
    run = tmp_path / "run"
    left = [run / f".model.safetensors.{ENDED}.tmp", run / f".checked.{ENDED}.tmp" / "config.json"]
    kept = run / f".config.json.{os.getppid()}.tmp"
    for path in (*left, kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half")
    headway.train(corpus, out=tmp_path / "run", quiet=True, **{**tiny, "steps": 2})
    assert [path.name for path in (tmp_path / "run").rglob(".*")] == [kept.name]


def test_a_run_keeps_hidden_files_of_the_users(corpus: Path, tmp_path: Path, tiny: dict):
    run = tmp_path / "run"
    headway.train(corpus, out=run, quiet=True, **{**tiny, "steps": 2})
    mine = [run / ".mine.tmp", run / ".a.b.tmp", run / "checkpoints" / ".step-mine.tmp"]
    for path in mine:
        path.write_text("mine")
    headway.train(corpus, out=run, quiet=True, **{**tiny, "steps": 3, "allow_changes": True})
    assert all(path.read_text() == "mine" for path in mine)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param("save_processor", {}, marks=pytest.mark.thorough),
        ("save_model", {}),
        pytest.param("save_processor", {"seeds": 2}, marks=pytest.mark.thorough),
    ],
    ids=["before the tokenizer", "while saving is tried", "the first of several seeds"],
)
def test_a_run_that_was_killed_at_its_beginning_is_a_run(
    name: str, options: dict[str, Any], rows: Path, tmp_path: Path, tiny: dict, forker: Forker
):
    run, chosen = tmp_path / "run", {**tiny, **ROWS, **options}
    killed = forker("train", rows, "--out", run, *words(chosen), script=KILLING.format(name))
    assert killed.returncode < 0, killed.stderr
    facts = facts_of(run)
    assert facts["task"] == "classification" and "plan" not in facts
    done = forker("train", rows, "--out", run, *words(chosen))
    assert done.returncode == 0, done.stderr
    alone = forker("train", rows, "--out", tmp_path / "alone", *words(chosen))
    assert alone.returncode == 0
    assert outcome(run) == outcome(tmp_path / "alone")


IN_ADAPTED = """
import os, signal
from headway.training.store.run_directory import RunDirectory
honest = RunDirectory.save_processor
def killing(run, *given):
    if run.path.name == "adapted":
        os.kill(os.getpid(), signal.SIGKILL)
    honest(run, *given)
RunDirectory.save_processor = killing
"""


def test_a_run_that_was_killed_while_it_adapted_its_base_is_a_run(rows: Path, tmp_path: Path, forker: Forker):
    base = make_base("bert", tmp_path / "base")
    given = ("train", rows, "--out", tmp_path / "run", "--from", base, "--adapt", "--threads", 1, "--steps", 3)
    assert forker(*given, script=IN_ADAPTED).returncode < 0
    done = forker(*given)
    assert done.returncode == 0 and (tmp_path / "run" / "config.json").exists(), done.stderr


def test_what_is_refused_before_it_begins_leaves_nothing(rows: Path, tmp_path: Path, tiny: dict):
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "new" / "run", tmp_path / "empty"):
        with pytest.raises(InputError):
            headway.train(rows, out=out, quiet=True, **{**tiny, "heads": 3})
        with pytest.raises(InputError):
            headway.train(rows, out=out, quiet=True, seeds=2, **{**tiny, "heads": 3})
    assert [path.name for path in tmp_path.iterdir()] == ["empty"] and not list((tmp_path / "empty").iterdir())


def test_a_record_of_nothing_is_no_run_to_use_or_to_clean(tmp_path: Path, in_process: Callable):
    RunDirectory(tmp_path / "run").create("classification")
    for command, said in (
        (("classify", tmp_path / "run", "x"), "no config.json"),
        (("clean", tmp_path / "run"), "is not a run"),
    ):
        status, _, err = in_process(*command)
        assert status == 2 and said in err and "Traceback" not in err, err
