"""A run that is killed or stopped, anywhere, and taken up by the same command ends as the run left alone."""

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from faults_harness import KILL, LIVELY, Forker, content, facts_of, lines_of, made_pairs, outcome, words
from faults_hooks import AT_RESUME, AT_STEP, KILLS, ONCE_SAVED
from safetensors.torch import load_file

import headway
from headway.data.batches.batch_source import Position
from headway.errors import InputError
from headway.tasks.losses import Classification
from headway.training.loop.prefetch import Prefetch
from headway.training.store import checkpoint
from headway.workflows.train import run as session


@pytest.mark.parametrize("where", KILLS)
def test_killed_and_taken_up_again(
    where: str, corpus: Path, rows: Path, tmp_path: Path, tiny: dict, expected: Callable, forker: Forker, monkeypatch
):
    data = rows if where in ("growing batch", "after an evaluation") else corpus
    options, out, cache = {**tiny, **LIVELY}, tmp_path / "killed", str(tmp_path / "cache")
    monkeypatch.setenv("HEADWAY_CACHE", cache)
    killed = forker("train", data, "--out", out, *words(options), script=KILL + KILLS[where], HEADWAY_CACHE=cache)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    for path in out.glob("checkpoints/step-*"):
        assert checkpoint._problem(path) is None, "a checkpoint that has its name is whole"
    headway.train(data, out=out, quiet=True, **options)
    assert outcome(out) == expected(data, options)
    assert not [path.name for path in out.rglob("*") if path.name.endswith(".tmp")]


def test_a_run_without_a_checkpoint_says_that_it_begins_again(
    corpus: Path, tmp_path: Path, tiny: dict, forker: Forker, capsys: pytest.CaptureFixture
):
    options, out, begins = {**tiny, "steps": 4, "log_every": 1}, tmp_path / "run", "training begins again"
    killed = forker("train", corpus, "--out", out, *words(options), script=KILL + AT_STEP.format(event="step", step=1))
    assert killed.returncode == -signal.SIGKILL and begins not in killed.stderr, killed.stderr
    headway.train(corpus, out=out, **options)
    assert f"{out}: it was stopped before its first checkpoint: {begins}" in capsys.readouterr().err


def test_killed_in_the_middle_of_fine_tuning(
    lm_run: Path, corpus: Path, tmp_path: Path, expected: Callable, forker: Forker
):
    """Updates of low rank and rows of new tokens are all that a checkpoint holds; the rest comes from the base."""
    options = {"lora": 3, "extend_vocab": 29, "steps": 12, "batch_tokens": 256, "threads": 1, "precision": "float32"}
    options |= {"average": 0.9, "dropout": 0.1, "evaluations": 3, "log_every": 1, "save_every": "0.001s"}
    base = {"from_model": str(lm_run)}
    command = ("train", corpus, "--from", lm_run, "--out", tmp_path / "killed", *words(options))
    killed = forker(*command, script=KILL + AT_STEP.format(event="step", step=7))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    headway.train(corpus, out=tmp_path / "killed", quiet=True, **base, **options)
    assert outcome(tmp_path / "killed") == expected(corpus, {**base, **options})


def test_killed_again_and_again_and_while_it_is_taken_up(
    corpus: Path, tmp_path: Path, tiny: dict, expected: Callable, forker: Forker
):
    options, out = {**tiny, **LIVELY}, tmp_path / "killed"
    reading = "found = session.newest_checkpoint\nsession.newest_checkpoint = lambda *given: (found(*given), kill())\n"
    scripts = [ONCE_SAVED.format(step=3), reading, AT_RESUME]
    scripts += [AT_STEP.format(event="step", step=13), AT_STEP.format(event="step", step=14)]
    before: dict[str, bytes] = {}
    for count, script in enumerate(scripts):
        killed = forker("train", corpus, "--out", out, *words(options), script=KILL + script)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        if count < 3:
            saved = {str(path): path.read_bytes() for path in out.glob("checkpoints/step-*/*")}
            assert saved, "there is a checkpoint to be taken up"
            assert count == 0 or saved == before, "what is taken up is not changed by it"
            before = saved
    headway.train(corpus, out=out, quiet=True, **options)
    assert outcome(out) == expected(corpus, options)


TASKS: dict[str, dict[str, Any]] = {
    "language_modeling": {},
    "masked_lm": {"task": "masked_lm"},
    "classification": {},
    "translation": {"vocab": 280, "bpe_dropout": 0.3, "r_drop": 1.0},
    "embedding": {"task": "embedding", "text_column": "en", "second_column": "de"},
}


def data_of(task: str, corpus: Path, rows: Path, folder: Path) -> Any:
    if task not in ("translation", "embedding"):
        return rows if task == "classification" else corpus
    pairs = made_pairs(folder)
    if task == "translation":
        return pairs
    lines = zip(*(path.read_text().splitlines() for path in pairs), strict=True)
    (folder / "pairs.tsv").write_text("en\tde\n" + "".join(f"{one}\t{other}\n" for one, other in lines))
    return folder / "pairs.tsv"


@pytest.mark.parametrize("task", TASKS)
def test_stopped_after_every_single_step(
    task: str, corpus: Path, rows: Path, tmp_path: Path, tiny: dict, expected: Callable, stop_at: Callable, monkeypatch
):
    """In warm-up, in the first pass and later ones, at their ends, beside evaluations; the examples are the same."""
    data, seen = data_of(task, corpus, rows, tmp_path / "data"), []
    following = Prefetch.next

    def noting(batches: Prefetch, at: Position) -> Any:
        seen.append((at, batches.batch_source.examples(at)))
        return following(batches, at)

    monkeypatch.setattr(Prefetch, "next", noting)
    options = {**tiny, **LIVELY, **TASKS[task], "warmup": 0.2, "steps": 14}
    if task in ("embedding", "masked_lm"):
        options["accumulate"] = 1
    whole = expected(data, options)
    reference, steps = list(seen), 0
    seen.clear()
    while not (tmp_path / "run" / "headway.json").exists() or not facts_of(tmp_path / "run")["finished"]:
        steps += 1
        stop_at(1)
        assert steps < 20
        try:
            headway.train(data, out=tmp_path / "run", quiet=True, **options)
        except KeyboardInterrupt:
            assert (tmp_path / "run" / "checkpoints" / f"step-{steps}").is_dir()
    assert outcome(tmp_path / "run") == whole
    assert seen == reference and len(seen) > 14, "the same examples in the same order"
    passes = [[n for at, numbers in seen if at.epoch == epoch for n in numbers] for epoch in (0, 1, 2)]
    if task not in ("language_modeling", "masked_lm") and passes[2]:
        assert sorted(passes[0]) == sorted(passes[1]) == list(range(len(passes[0]))), "each once in every pass"
        assert passes[0] != passes[1]


@pytest.fixture
def stopped(corpus: Path, tmp_path: Path, tiny: dict, stop_at: Callable) -> Path:
    """A run of this process that was stopped after its ninth step."""
    out = tmp_path / "stopped"
    stop_at(9)
    with pytest.raises(KeyboardInterrupt, match=r"stopped and saved in .*stopped; run .* again to resume$"):
        headway.train(corpus, out=out, quiet=True, **{**tiny, **LIVELY, "patience": 50})
    stop_at()
    return out


def test_stopped_during_a_step_it_is_saved_at_that_step(stopped: Path):
    assert {path.name for path in (stopped / "checkpoints").iterdir()} == {"step-8", "step-9"}
    assert (stopped / "report.html").exists()
    assert lines_of(stopped)[-1]["event"] == "interrupted"


@pytest.mark.parametrize("step", [4, 5], ids=["before it", "after it"])
def test_stopped_where_the_best_evaluation_is_the_last(
    step: int, rows: Path, tmp_path: Path, tiny: dict, monkeypatch: pytest.MonkeyPatch, stop_at: Callable
):
    options, honest, evaluations = {**tiny, "evaluations": 5, "log_every": 1}, Classification.evaluate, []

    def worse_after_the_first(*given: Any) -> dict[str, Any]:
        found = honest(*given)
        evaluations.append(1)
        return found if len(evaluations) == 1 else {**found, "val_loss": found["val_loss"] + 100}

    monkeypatch.setattr(Classification, "evaluate", worse_after_the_first)
    monkeypatch.setattr(session, "evaluation_seconds", lambda *given: 0.0)
    monkeypatch.setattr(session, "try_longest", lambda *given: None)
    headway.train(rows, out=tmp_path / "alone", quiet=True, **options)
    assert outcome(tmp_path / "alone")[2]["best_step"] == 4
    evaluations.clear()
    stop_at(step)
    with pytest.raises(KeyboardInterrupt):
        headway.train(rows, out=tmp_path / "run", quiet=True, **options)
    stop_at()
    headway.train(rows, out=tmp_path / "run", quiet=True, **options)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "alone")


def rewrite(path: Path, change: Callable[[dict[str, torch.Tensor], dict[str, Any]], None]) -> None:
    """Change a checkpoint and make its manifest agree."""
    tensors = {name: value for part in path.glob("*.safetensors") for name, value in load_file(part).items()}
    state = json.loads((path / "state.json").read_text())
    change(tensors, state)
    checkpoint._write(path, tensors, None)
    (path / "state.json").write_text(json.dumps(state))
    manifest = json.loads((path / "MANIFEST.json").read_text())
    manifest["files"] = {name: checkpoint._facts(path / name) for name in manifest["files"]}
    (path / "MANIFEST.json").write_text(json.dumps(manifest))


def no_moments(tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
    for name in [name for name in tensors if name.startswith("optimizer.")]:
        del tensors[name]


def other_average(tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
    for name in [name for name in tensors if name.startswith("average.")]:
        tensors[name] = tensors[name.replace("average.", "model.")].clone()


CHANGES: dict[str, Callable[..., Any]] = {
    "nothing": lambda tensors, state: None,
    "randomness": lambda tensors, state: tensors.update(random=torch.Generator().manual_seed(7).get_state()),
    "position": lambda tensors, state: state["position"].update(consumed=0),
    "step, by which the learning rate goes": lambda tensors, state: state.update(step=state["step"] - 1),
    "moments": no_moments,
    "average": other_average,
    "best, than which nothing is better": lambda tensors, state: state.update(best_loss="-inf"),
    "patience, which ends": lambda tensors, state: state.update(stale=49, best_loss=-1e9),
}


@pytest.mark.parametrize("part", CHANGES)
def test_each_part_of_a_checkpoint_matters(part: str, stopped: Path, corpus: Path, tiny: dict, expected: Callable):
    options = {**tiny, **LIVELY, "patience": 50}
    rewrite(stopped / "checkpoints" / "step-9", CHANGES[part])
    headway.train(corpus, out=stopped, quiet=True, **options)
    assert (outcome(stopped) == expected(corpus, options)) == (part == "nothing")


@pytest.mark.parametrize("lost", ["damaged", "removed", "a file"])
def test_without_a_whole_checkpoint_nothing_begins_again_by_itself(
    lost: str, stopped: Path, corpus: Path, tmp_path: Path, tiny: dict, expected: Callable
):
    folder, options = stopped / "checkpoints", {**tiny, **LIVELY, "patience": 50}
    folder.rename(tmp_path / "elsewhere")
    if lost == "damaged":
        shutil.copytree(tmp_path / "elsewhere", folder)
        for name in ("step-8", "step-9"):
            (folder / name / "state.json").write_text("{}")
    elif lost == "a file":
        folder.write_text("")
    before = content(stopped)
    said = r"step-9: state\.json differs from its manifest.*step-8" if lost == "damaged" else "is empty"
    refused = rf"no checkpoint can be used.*{said}.*--from"
    with pytest.raises(InputError, match="is a file, but must be a directory" if lost == "a file" else refused):
        headway.train(corpus, out=stopped, **options)
    assert content(stopped) == before
    shutil.rmtree(folder) if folder.is_dir() else folder.unlink(missing_ok=True)
    (tmp_path / "elsewhere").rename(folder)
    headway.train(corpus, out=stopped, quiet=True, **options)
    assert outcome(stopped) == expected(corpus, options)
