"""A run that is killed or stopped, anywhere, and taken up by the same command ends as the run left alone."""

import hashlib
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import headway
from headway.tasks.classification import Classification
from headway.training import checkpoint, session, trainer

LIVELY = {"dropout": 0.1, "accumulate": 2, "grow_batch": 2, "average": 0.9, "seed": 3}

OFTEN = """
import os, signal, sys
from dataclasses import replace
from headway.training import checkpoint, run_directory, session, trainer
trainer.SAVE_EVERY = 0.0
measured = session.measured
session.measured = lambda *given: replace(measured(*given), log_every=1)
def kill():
    os.kill(os.getpid(), signal.SIGKILL)
"""
"""Save and log at every step."""

AT_STEP = """
log = run_directory.RunDirectory.log
def killing(run, event, **values):
    if event == {event!r} and values["step"] == {step}:
        kill()
    log(run, event, **values)
run_directory.RunDirectory.log = killing
"""

IN_SAVE = """
from pathlib import Path
def killing(path, *given, write=checkpoint.write_json):
    if ".step-{step}." in str(path):
        Path(path).write_text("half")
        kill()
    return write(path, *given)
checkpoint.write_json = killing
"""

AT_RENAME = """
from pathlib import Path
rename = Path.rename
def killing(path, target):
    if path.name.startswith(".step-{step}."):
        kill()
    return rename(path, target)
Path.rename = killing
"""

IN_MODEL = """
save = run_directory.save_model
calls = []
def killing(model, path, **entries):
    calls.append(1)
    if len(calls) == {call}:
        save(model, path, **entries)
        kill()
    save(model, path, **entries)
run_directory.save_model = killing
"""

AT_THE_END = """
session._finish = lambda *given: kill()
"""

KILLS = {
    "first step": AT_STEP.format(event="step", step=1),
    "growing batch": AT_STEP.format(event="step", step=16),
    "after an evaluation": AT_STEP.format(event="evaluation", step=8),
    "in the state of a checkpoint": IN_SAVE.format(step=7),
    "before a checkpoint is committed": AT_RENAME.format(step=5),
    "between a better model and the next checkpoint": IN_MODEL.format(call=6),
    "between training and its record": AT_THE_END,
}


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process too: log every step."""
    measured = session.measured
    monkeypatch.setattr(session, "measured", lambda *given: replace(measured(*given), log_every=1))


def losses(run: Path) -> dict[int, str]:
    """Training loss by step, to the last bit; of two lines for one step the later."""
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return {line["step"]: float(line["loss"]).hex() for line in lines if line["event"] == "step"}


def outcome(run: Path) -> tuple[str, dict[int, str], dict[str, Any]]:
    facts = json.loads((run / "headway.json").read_text(encoding="utf-8"))
    known = {key: facts[key] for key in ("metrics", "best_step", "steps", "tokens", "train_loss", "finished")}
    return hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest(), losses(run), known


def words(options: dict[str, Any]) -> list[str]:
    return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]


@pytest.fixture(scope="module")
def alone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the runs left alone came to."""
    return {}


def left_alone(alone: dict[str, Any], data: Path, options: dict[str, Any], out: Path) -> Any:
    if data.suffix not in alone:
        headway.train(data, out=out, quiet=True, **options)
        alone[data.suffix] = outcome(out)
    return alone[data.suffix]


@pytest.mark.parametrize("where", KILLS)
def test_killed_and_taken_up_again(
    where: str,
    corpus: Path,
    rows: Path,
    tmp_path: Path,
    tiny: dict[str, Any],
    alone: dict[str, Any],
    headway_command: Callable[..., subprocess.CompletedProcess],
):
    data = rows if where in ("growing batch", "after an evaluation") else corpus
    options = {**tiny, **LIVELY}
    expected = left_alone(alone, data, options, tmp_path / "alone")
    out = tmp_path / "killed"
    killed = headway_command("train", data, "--out", out, *words(options), script=OFTEN + KILLS[where])
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    for path in out.glob("checkpoints/step-*"):
        assert checkpoint._problem(path) is None, "a checkpoint that has its name is whole"
    headway.train(data, out=out, quiet=True, **options)
    assert outcome(out) == expected
    assert not [path.name for path in out.rglob("*") if path.name.endswith(".tmp")]


def test_killed_in_the_middle_of_fine_tuning(
    lm_run: Path,
    corpus: Path,
    tmp_path: Path,
    headway_command: Callable[..., subprocess.CompletedProcess],
):
    """Updates of low rank and rows of new tokens are all that a checkpoint holds; the rest comes from the base."""
    options = {"lora": 3, "extend_vocab": 29, "steps": 12, "batch_tokens": 256, "threads": 1, "precision": "float32"}
    options |= {"average": 0.9, "dropout": 0.1, "evaluations": 3}
    base = {"from_model": str(lm_run)}
    headway.train(corpus, out=tmp_path / "alone", quiet=True, **base, **options)
    command = ("train", corpus, "--from", lm_run, "--out", tmp_path / "killed", *words(options))
    killed = headway_command(*command, script=OFTEN + AT_STEP.format(event="step", step=7))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    headway.train(corpus, out=tmp_path / "killed", quiet=True, **base, **options)
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "alone")


def test_a_translator_killed_in_a_pass_whose_words_are_cut_anew(
    tmp_path: Path, tiny: dict[str, Any], headway_command: Callable[..., subprocess.CompletedProcess]
):
    choose = random.Random(7)
    pairs = [tmp_path / "t.en", tmp_path / "t.de"]
    lines = [" ".join(choose.choices(["cat", "dogs", "mat", "old", "red"], k=choose.randint(2, 7))) for _ in range(97)]
    for path, made in zip(pairs, (lines, [line.upper() for line in lines]), strict=True):
        path.write_text("".join(f"{line}\n" for line in made))
    options = {**tiny, **LIVELY, "vocab": 280, "bpe_dropout": 0.3, "r_drop": 1.0, "evaluations": 3}
    headway.train(pairs, out=tmp_path / "alone", quiet=True, **options)
    command = ("train", *pairs, "--out", tmp_path / "killed", *words(options))
    killed = headway_command(*command, script=OFTEN + AT_STEP.format(event="step", step=13))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    headway.train(pairs, out=tmp_path / "killed", quiet=True, **options)
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "alone")


def test_killed_again_and_again(
    corpus: Path,
    tmp_path: Path,
    tiny: dict[str, Any],
    alone: dict[str, Any],
    headway_command: Callable[..., subprocess.CompletedProcess],
):
    options = {**tiny, **LIVELY}
    expected = left_alone(alone, corpus, options, tmp_path / "alone")
    out = tmp_path / "killed"
    for step in (3, 13):
        script = OFTEN + AT_STEP.format(event="step", step=step)
        assert headway_command("train", corpus, "--out", out, *words(options), script=script).returncode < 0
    headway.train(corpus, out=out, quiet=True, **options)
    assert outcome(out) == expected


@pytest.fixture
def stopped(corpus: Path, tmp_path: Path, tiny: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of this process that was stopped after its ninth step."""
    out = tmp_path / "stopped"
    stop_at(monkeypatch, 9)
    with pytest.raises(KeyboardInterrupt):
        headway.train(corpus, out=out, quiet=True, **{**tiny, **LIVELY})
    monkeypatch.setattr(trainer, "accumulation", accumulation)
    return out


accumulation = trainer.accumulation


def stop_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Press Ctrl-C during a step."""
    seen = []

    def stopping(*given: Any) -> int:
        seen.append(1)
        if len(seen) == step:
            signal.raise_signal(signal.SIGINT)
        return accumulation(*given)

    monkeypatch.setattr(trainer, "accumulation", stopping)


def test_stopped_during_a_step_it_is_saved_at_that_step(
    stopped: Path, corpus: Path, tiny: dict[str, Any], alone: dict[str, Any], tmp_path: Path
):
    expected = left_alone(alone, corpus, {**tiny, **LIVELY}, tmp_path / "alone")
    assert [path.name for path in (stopped / "checkpoints").iterdir()] == ["step-9"]
    assert (stopped / "report.html").exists()
    headway.train(corpus, out=stopped, quiet=True, **{**tiny, **LIVELY})
    assert outcome(stopped) == expected


@pytest.mark.parametrize("step", [4, 5], ids=["before it", "after it"])
def test_stopped_where_the_best_evaluation_is_the_last(
    step: int, rows: Path, tmp_path: Path, tiny: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    options, honest, evaluations = {**tiny, "evaluations": 5}, Classification.evaluate, []

    def worse_after_the_first(*given: Any) -> dict[str, Any]:
        found = honest(*given)
        evaluations.append(1)
        return found if len(evaluations) == 1 else {**found, "val_loss": found["val_loss"] + 100}

    monkeypatch.setattr(Classification, "evaluate", worse_after_the_first)
    monkeypatch.setattr(session, "evaluation_seconds", lambda *given: 0.0)
    headway.train(rows, out=tmp_path / "alone", quiet=True, **options)
    assert outcome(tmp_path / "alone")[2]["best_step"] == 4
    evaluations.clear()
    stop_at(monkeypatch, step)
    with pytest.raises(KeyboardInterrupt):
        headway.train(rows, out=tmp_path / "run", quiet=True, **options)
    monkeypatch.setattr(trainer, "accumulation", accumulation)
    headway.train(rows, out=tmp_path / "run", quiet=True, **options)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "alone")


def rewrite(path: Path, change: Callable[[dict[str, torch.Tensor], dict[str, Any]], None]) -> None:
    """Change a checkpoint and make its manifest agree."""
    tensors, state = load_file(path / "tensors.safetensors"), json.loads((path / "state.json").read_text())
    change(tensors, state)
    save_file(tensors, path / "tensors.safetensors")
    (path / "state.json").write_text(json.dumps(state))
    manifest = json.loads((path / "MANIFEST.json").read_text())
    manifest["files"] = {name: checkpoint._facts(path / name) for name in manifest["files"]}
    (path / "MANIFEST.json").write_text(json.dumps(manifest))


def other_randomness(tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
    tensors["random"] = torch.Generator().manual_seed(7).get_state()


def other_position(tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
    state["position"]["consumed"] = 0


def no_moments(tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
    for name in [name for name in tensors if name.startswith("optimizer.")]:
        del tensors[name]


def other_average(tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
    for name in [name for name in tensors if name.startswith("average.")]:
        tensors[name] = tensors[name.replace("average.", "model.")].clone()


def nothing(tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
    """The positive control."""


@pytest.mark.parametrize("change", [nothing, other_randomness, other_position, no_moments, other_average])
def test_each_part_of_a_checkpoint_matters(
    change: Callable[..., None],
    stopped: Path,
    corpus: Path,
    tiny: dict[str, Any],
    alone: dict[str, Any],
    tmp_path: Path,
):
    expected = left_alone(alone, corpus, {**tiny, **LIVELY}, tmp_path / "alone")
    rewrite(stopped / "checkpoints" / "step-9", change)
    headway.train(corpus, out=stopped, quiet=True, **{**tiny, **LIVELY})
    assert (outcome(stopped) == expected) == (change is nothing)


def test_without_a_whole_checkpoint_it_says_so_and_begins_again(
    stopped: Path,
    corpus: Path,
    tiny: dict[str, Any],
    alone: dict[str, Any],
    tmp_path: Path,
    capfd: pytest.CaptureFixture,
):
    expected = left_alone(alone, corpus, {**tiny, **LIVELY}, tmp_path / "alone")
    (stopped / "checkpoints" / "step-9" / "state.json").write_text("{}")
    capfd.readouterr()
    headway.train(corpus, out=stopped, **{**tiny, **LIVELY})
    shown = capfd.readouterr().err
    assert "step-9: state.json is not as its manifest says" in shown
    assert "starts again from step 0" in shown
    assert outcome(stopped) == expected


def start(data: Path, out: Path, options: dict[str, Any], script: str) -> subprocess.Popen:
    code = f"{script}\nfrom headway.cli.main import main\nmain()"
    command = [sys.executable, "-c", code, "train", data, "--out", out, *words(options)]
    return subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def wait_for(path: Path, text: str) -> None:
    for _ in range(600):
        if path.exists() and text in path.read_text(encoding="utf-8"):
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} never held {text}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_says_how_to_go_on(
    number: signal.Signals, corpus: Path, tmp_path: Path, tiny: dict[str, Any], alone: dict[str, Any]
):
    options = {**tiny, **LIVELY}
    expected = left_alone(alone, corpus, options, tmp_path / "alone")
    slow = OFTEN + "import time\nfactor = trainer.factor\n"
    slow += "trainer.factor = lambda *given: (time.sleep(0.1), factor(*given))[1]\n"
    running = start(corpus, tmp_path / "run", options, slow)
    wait_for(tmp_path / "run" / "log.jsonl", '"step": 3')
    running.send_signal(number)
    out, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert out == ""
    assert "the same command goes on" in err and str(tmp_path / "run") in err
    assert "Traceback" not in err
    steps = len(losses(tmp_path / "run"))
    assert 3 <= steps < 20
    assert (tmp_path / "run" / "checkpoints" / f"step-{steps}").is_dir()
    headway.train(corpus, out=tmp_path / "run", quiet=True, **options)
    assert outcome(tmp_path / "run") == expected


def test_a_second_signal_ends_it_at_once(corpus: Path, tmp_path: Path, tiny: dict[str, Any]):
    stuck = OFTEN + "import time\nfactor = trainer.factor\n"
    stuck += "trainer.factor = lambda share, *rest: time.sleep(60) if share > 0.2 else factor(share, *rest)\n"
    running = start(corpus, tmp_path / "run", tiny, stuck)
    wait_for(tmp_path / "run" / "log.jsonl", '"step": 5')
    time.sleep(0.2)
    running.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert running.poll() is None, "the first only asks"
    running.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, err = running.communicate(timeout=30)
    assert time.monotonic() - began < 5
    assert running.returncode == 130
    assert "Traceback" not in err
