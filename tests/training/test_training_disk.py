"""What a run keeps on disk: each weight once when it is finished, all of it to go on exactly, and ``headway clean``."""

import shutil
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from faults_harness import ENDED, content, words

import headway
from headway.errors import InputError
from headway.training.loop import trainer
from headway.training.store.checkpoint import newest_checkpoint
from headway.training.store.cleaning import clean
from headway.training.store.contents import sizes
from headway.training.store.run_directory import RunDirectory
from headway.workflows.train import run as session


@pytest.fixture
def run(lm_run: Path, tmp_path: Path) -> Path:
    """A finished run to write in."""
    return shutil.copytree(lm_run, tmp_path / "run")


def failing(call: int, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluation ends with an error."""
    evaluate, calls = trainer._evaluate, count(1)

    def then_fail(*given: Any) -> None:
        evaluate(*given)
        if next(calls) == call:
            raise error

    monkeypatch.setattr(trainer, "_evaluate", then_fail)


def checkpoints(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def parts(run: Path) -> set[str]:
    [path] = (run / "checkpoints").iterdir()
    return {found.name for found in path.iterdir()}


def whole(run: Path) -> dict[str, torch.Tensor]:
    """All tensors of the newest checkpoint, wherever they are kept."""
    found, problems = newest_checkpoint(run / "checkpoints")
    assert found is not None and not problems
    return found[0]


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_a_finished_run_keeps_each_weight_once(average: float, corpus: Path, tmp_path: Path, tiny: dict):
    run = tmp_path / "run"
    headway.train(corpus, out=run, quiet=True, save_every="0.05s", average=average, **tiny)
    assert checkpoints(run) == ["step-20"]
    assert "best.safetensors" not in parts(run)
    tensors = whole(run)
    saved = dict(headway.load_model(run).named_parameters())
    best = {name.removeprefix("best."): value for name, value in tensors.items() if name.startswith("best.")}
    assert same(best, {name: saved[name].detach() for name in best}) and best.keys() == saved.keys()
    model = (run / "model.safetensors").stat().st_size
    assert sizes(run).resume < (4.2 if average else 3.2) * model, "moments, and weights that differ from the best"
    assert sizes(run).use >= model and sizes(run).snapshots == 0


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_to_go_on_is_exact_with_and_without_what_was_left_out(
    average: float, corpus: Path, tmp_path: Path, tiny: dict, monkeypatch: pytest.MonkeyPatch
):
    """The same run, once with every weight in its checkpoint, goes on to the same weights."""
    for name in ("once", "twice"):
        with monkeypatch.context() as patch:
            if name == "twice":
                patch.setattr(session, "keep_once", lambda run, progress: None)
            headway.train(corpus, out=tmp_path / name, quiet=True, average=average, **tiny)
    once, twice = tmp_path / "once", tmp_path / "twice"
    assert {"best.safetensors", "model.safetensors"} <= parts(twice) and "best.safetensors" not in parts(once)
    assert same(whole(once), whole(twice))
    for run in (once, twice):
        more = {**tiny, "steps": 31, "average": average, "allow_changes": True}
        headway.train(corpus, out=run, quiet=True, **more)
    assert same(whole(once), whole(twice))
    assert (once / "model.safetensors").read_bytes() == (twice / "model.safetensors").read_bytes()


def test_killed_on_its_way_on_it_still_has_all(corpus: Path, tmp_path: Path, tiny: dict, monkeypatch):
    """The saved model is replaced by a better one before the next checkpoint: the old best is in the checkpoint."""
    run, alone = tmp_path / "run", tmp_path / "alone"
    for place in (run, alone):
        headway.train(corpus, out=place, quiet=True, **tiny)
    more = {**tiny, "steps": 40, "evaluations": 20, "allow_changes": True}
    headway.train(corpus, out=alone, quiet=True, **more)
    before = (run / "model.safetensors").read_bytes()
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        failing(3, SystemExit(9), patch)  # as a kill: nothing is saved on the way out
        headway.train(corpus, out=run, quiet=True, **more)
    assert (run / "model.safetensors").read_bytes() != before
    headway.train(corpus, out=run, quiet=True, **more)
    assert same(whole(run), whole(alone))


def test_another_model_in_its_place_is_noticed(run: Path, corpus: Path, tiny: dict):
    model = headway.load_model(run)
    with torch.no_grad():
        next(model.parameters()).add_(1e-7)
    headway.save_model(model, run)
    with pytest.raises(InputError, match=r"model\.safetensors, which now holds another model"):
        headway.train(corpus, out=run, quiet=True, **{**tiny, "steps": 31, "allow_changes": True})


def spoiled(run: Path) -> int:
    """What kills leave in a run; its bytes."""
    (run / f".model.safetensors.{ENDED}.tmp").write_bytes(bytes(1009))
    (run / "checkpoints" / f".step-9.{ENDED}.tmp").mkdir()
    (run / "checkpoints" / f".step-9.{ENDED}.tmp" / "tensors.safetensors").write_bytes(bytes(2003))
    older = run / "checkpoints" / "step-3"
    shutil.copytree(run / "checkpoints" / "step-20", older)
    (older / "MANIFEST.json").write_text("{}")
    return 1009 + 2003 + sum(path.stat().st_size for path in older.iterdir())


def test_clean_frees_what_is_not_needed(run: Path, lm_run: Path, corpus: Path, tiny: dict, in_process: Any):
    before = content(run)
    bytes_left = spoiled(run)
    found = in_process.json("clean", run)
    assert set(found) == {"task", "seconds", "freed"} and found["task"] == "language_modeling"
    assert found["freed"] == bytes_left and content(run) == before
    out, _ = in_process.passed("clean", run)
    assert "nothing to free" in out and "--checkpoints" in out
    whole_run = sizes(run)
    assert in_process.json("clean", run, "--checkpoints")["freed"] == whole_run.resume
    assert not (run / "checkpoints").exists()
    assert headway.load(run)("the cat", max_tokens=3, seed=1) == headway.load(lm_run)("the cat", max_tokens=3, seed=1)
    assert "this run is complete" in in_process("train", corpus, "--out", run, *words(tiny))[2]
    more = words({**tiny, "steps": 31})
    in_process.refused("train", corpus, "--out", run, *more, "--allow-changes", said=("is empty", "--from"))


def test_clean_finishes_what_training_could_not(corpus: Path, tmp_path: Path, tiny: dict, monkeypatch):
    """Killed at the very end, a run has two checkpoints and every weight in them; so has one of an older Headway."""
    monkeypatch.setattr(session, "keep_once", lambda run, progress: None)
    headway.train(corpus, out=tmp_path / "run", quiet=True, save_every="0.05s", **(tiny | {"evaluations": 20}))
    tensors = whole(tmp_path / "run")
    assert len(checkpoints(tmp_path / "run")) == 2
    assert clean(tmp_path / "run") > 0
    assert checkpoints(tmp_path / "run") == ["step-20"] and "best.safetensors" not in parts(tmp_path / "run")
    assert same(whole(tmp_path / "run"), tensors) and clean(tmp_path / "run") == 0


def test_an_unfinished_run_keeps_all_of_its_newest_whole_checkpoint(
    corpus: Path, tmp_path: Path, tiny: dict, monkeypatch: pytest.MonkeyPatch
):
    alone, run = tmp_path / "alone", tmp_path / "run"
    options = {**tiny, "save_every": "0.001s", "evaluations": 20}
    headway.train(corpus, out=alone, quiet=True, **options)
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="stopped"):
        failing(8, RuntimeError("stopped"), patch)  # the checkpoint that is being written is finished
        headway.train(corpus, out=run, quiet=True, **options)
    assert len(checkpoints(run)) == 2
    newest = max((run / "checkpoints").iterdir(), key=lambda path: int(path.name.removeprefix("step-")))
    (newest / "state.json").write_text("damaged")
    assert clean(run) > 0
    assert len(checkpoints(run)) == 1 and newest.name not in checkpoints(run)
    assert {"best.safetensors", "model.safetensors", "tensors.safetensors"} <= parts(run)
    headway.train(corpus, out=run, quiet=True, **options)
    assert same(whole(run), whole(alone))


def test_clean_refuses_what_is_not_a_run(corpus: Path, tmp_path: Path, in_process: Any):
    folder = tmp_path / "folder"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    for path, said in ((folder, "is not a run"), (tmp_path / "none", "no such run"), (corpus, "no such run")):
        in_process.refused("clean", path, "--checkpoints", said=said)
    (folder / "headway.json").write_text("[]")
    assert in_process("clean", folder)[0] == 2
    assert (folder / "notes.txt").read_text() == "mine" and (folder / "checkpoints").is_dir()


def test_clean_waits_for_no_training(run: Path, in_process: Any):
    spoiled(run)
    with RunDirectory(run).locked(clear=False):
        assert "--out" not in in_process.refused("clean", run, said="another command is training there")
    assert (run / f".model.safetensors.{ENDED}.tmp").exists() and len(checkpoints(run)) == 3


def test_clean_follows_no_links(run: Path, lm_run: Path, tmp_path: Path, in_process: Any):
    elsewhere = shutil.copytree(lm_run, tmp_path / "elsewhere")
    spoiled(elsewhere)
    kept = content(elsewhere)
    shutil.rmtree(run / "checkpoints")
    for name, target in (("checkpoints", "checkpoints"), ("snapshots", "."), ("adapted", "."), ("seed-0", ".")):
        (run / name).symlink_to(elsewhere / target, target_is_directory=True)
    (run / ".x.1.tmp").symlink_to(elsewhere / "headway.json")
    in_process.passed("clean", run, "--checkpoints", "--snapshots")
    assert content(elsewhere) == kept
    assert all((run / name).is_symlink() for name in ("checkpoints", "snapshots", "adapted", "seed-0", ".x.1.tmp"))
    (tmp_path / "link").symlink_to(elsewhere)
    in_process.refused("clean", tmp_path / "link", "--checkpoints", said="is a link")
    (run / "checkpoints").unlink()
    shutil.copytree(lm_run / "checkpoints", run / "checkpoints")
    (run / "checkpoints" / "step-3").symlink_to(elsewhere / "checkpoints" / "step-20")
    assert in_process("clean", run)[0] == 0 and (run / "checkpoints" / "step-3").is_symlink()
    assert content(elsewhere) == kept


def test_without_a_model_its_checkpoints_are_all_there_is(run: Path, in_process: Any):
    (run / "config.json").unlink()
    in_process.refused("clean", run, "--checkpoints", said="would be lost")
    assert checkpoints(run) == ["step-20"]


def test_runs_in_a_run_are_cleaned_with_it(rows: Path, tmp_path: Path, tiny: dict):
    run = tmp_path / "run"
    headway.train(rows, out=run, quiet=True, seeds=2, snapshots=True, **tiny)
    found = sizes(run)
    assert found.snapshots > 0 and found.resume > 0
    assert not (run / "snapshots").exists(), "a copy of the best run has no second copy of these"
    assert clean(run, checkpoints=True, snapshots=True) == found.resume + found.snapshots
    assert sizes(run).total == found.use
    assert headway.load(run)("a great cat")["label"] in ("pos", "neg")


def test_sizes_are_said(rows: Path, tmp_path: Path, tiny_words: list[str], in_process: Any):
    run = tmp_path / "run"
    out, _ = in_process.passed("train", rows, "--out", run, *tiny_words)
    assert "to use the model" in out and "to resume the run" in out and "headway clean" in out
    page = (run / "report.html").read_text()
    assert "On disk" in page and "to resume the run" in page
    assert sizes(run).use > (run / "model.safetensors").stat().st_size
