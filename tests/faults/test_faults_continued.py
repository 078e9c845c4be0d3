"""A run that is continued: its rate rises and falls again, it never ends worse, and a kill changes nothing."""

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from faults_harness import KILL, LIVELY, TINY, Forker, facts_of, lines_of, outcome, words
from faults_hooks import AT_RESUME, AT_STEP, ONCE_SAVED
from safetensors.torch import load_file

import headway
from headway.cli.train import summary
from headway.errors import InputError
from headway.workflows.evaluate import evaluate

MORE = {"more_steps": 15}
QUIET: dict[str, Any] = {"quiet": True}


@pytest.fixture(scope="module")
def finished(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A run of 20 steps that is complete, with everything that could make two runs differ; copy it."""
    options = {**TINY, **LIVELY}
    out = tmp_path_factory.mktemp("finished") / "run"
    headway.train(corpus, out=out, **QUIET, **options)
    return out, options


@pytest.fixture(scope="module")
def left_alone(finished: Any, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, continued for 15 steps without a fault; look, but do not write."""
    out = tmp_path_factory.mktemp("continued") / "run"
    shutil.copytree(finished[0], out)
    headway.train(corpus, out=out, **QUIET, **MORE, save_every="0.001s")
    return out


def test_the_rate_rises_and_falls_again(finished: Any, left_alone: Path):
    rates = {line["step"]: line["learning_rate"] for line in lines_of(left_alone) if line["event"] == "step"}
    assert max(rates) == 35 and rates[21] < rates[22] > rates[35]
    highest = max(rate for step, rate in rates.items() if step <= 20)
    assert rates[20] < 0.4 * highest < 0.9 * max(rate for step, rate in rates.items() if step > 20)
    facts, before = facts_of(left_alone), facts_of(finished[0])
    assert facts["steps"] == 35 and facts["finished"] and facts["options"] == before["options"]
    assert facts["continued"] == [{"more_time": None, "more_steps": 15}]
    assert facts["metrics"]["val_loss"] < before["metrics"]["val_loss"] and facts["kept"]["gained"]
    assert facts["kept"]["since"] == 20 and facts["kept"]["before"] == pytest.approx(before["metrics"]["val_loss"])
    first = next(line for line in lines_of(left_alone)[::-1] if line["event"] == "evaluation" and line["step"] == 20)
    assert first["val_loss"] == pytest.approx(before["metrics"]["val_loss"]), "it is measured before the first step"


@pytest.mark.parametrize(
    "scripts",
    [
        [AT_RESUME],
        [AT_STEP.format(event="continued", step=20)],
        [AT_STEP.format(event="evaluation", step=20)],
        [AT_STEP.format(event="step", step=21)],
        [ONCE_SAVED.format(step=27)],
        [AT_STEP.format(event="end", step=35)],
        [AT_RESUME, ONCE_SAVED.format(step=23), AT_RESUME, AT_STEP.format(event="step", step=31)],
    ],
    ids=["at once", "at its start", "at the first evaluation", "first step", "once saved", "at its end", "four times"],
)
def test_killed_and_resumed_to_the_last_bit(
    scripts: list[str], finished: Any, left_alone: Path, corpus: Path, tmp_path: Path, forker: Forker
):
    out = tmp_path / "run"
    shutil.copytree(finished[0], out)
    command = ("train", corpus, "--out", out, *words({**MORE, "save_every": "0.001s"}))
    for script in scripts:
        killed = forker(*command, script=KILL + script)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = forker(*command)
    assert done.returncode == 0, done.stderr
    assert outcome(out) == outcome(left_alone)
    ours, theirs = facts_of(out), facts_of(left_alone)
    assert all(ours[key] == theirs[key] for key in ("continued", "kept", "verdict", "baselines"))
    newest = "checkpoints/step-35/tensors.safetensors"
    one, other = load_file(out / newest), load_file(left_alone / newest)
    assert one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)


def test_the_first_command_goes_on_with_a_continued_run_that_was_killed(
    finished: Any, left_alone: Path, corpus: Path, tmp_path: Path, forker: Forker
):
    (run, options), out = finished, tmp_path / "run"
    shutil.copytree(run, out)
    script = KILL + ONCE_SAVED.format(step=27)
    assert forker("train", corpus, "--out", out, *words(MORE), script=script).returncode == -signal.SIGKILL
    done = forker("train", corpus, "--out", out, *words(options))
    assert done.returncode == 0, done.stderr
    assert outcome(out) == outcome(left_alone)


def test_it_is_continued_as_often_as_it_is_asked(left_alone: Path, finished: Any, corpus: Path, tmp_path: Path):
    shutil.copytree(left_alone, tmp_path / "run")
    again = headway.train(corpus, out=tmp_path / "run", **QUIET, more_steps=5)
    assert again["steps"] == 40 and len(facts_of(tmp_path / "run")["continued"]) == 2
    assert facts_of(tmp_path / "run")["kept"]["since"] == 35
    headway.train(corpus, out=tmp_path / "run", **QUIET, **finished[1])  # the first command: it is complete
    assert facts_of(tmp_path / "run")["steps"] == 40


def test_by_time(finished: Any, corpus: Path, tmp_path: Path):
    shutil.copytree(finished[0], tmp_path / "run")
    more = headway.train(corpus, out=tmp_path / "run", **QUIET, more_time="4s")
    assert more["steps"] > 20 and facts_of(tmp_path / "run")["continued"] == [{"more_time": "4s", "more_steps": None}]


@pytest.fixture(scope="module")
def good(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A run that has learnt what there is to learn; copy it."""
    tiny = {"d_model": 16, "layers": 1, "heads": 2, "length": 32, "batch_tokens": 512, "steps": 60, "threads": 1}
    options = {**tiny, "precision": "float32", "learning_rate": 0.02, "evaluations": 3, "optimizer": "adamw"}
    out = tmp_path_factory.mktemp("good") / "run"
    headway.train(corpus, out=out, **QUIET, **options)
    return out, options


@pytest.mark.parametrize("options", [{"more_steps": 12}, {"steps": 72}])
def test_a_continued_run_never_ends_worse_and_says_when_nothing_was_gained(
    options: dict[str, Any], good: Any, corpus: Path, tmp_path: Path
):
    """At a rate that destroys everything, by either way of going on."""
    (run, before), out = good, tmp_path / "run"
    shutil.copytree(run, out)
    given = {**before, **options, "learning_rate": 5.0, "allow_changes": True}
    found, known = headway.train(corpus, out=out, **QUIET, **given), facts_of(run)
    assert found["val_loss"] == known["metrics"]["val_loss"] and found["steps"] == 72
    ours, theirs = (load_file(place / "model.safetensors") for place in (out, run))
    assert ours.keys() == theirs.keys() and all(ours[name].equal(theirs[name]) for name in ours)
    recorded = facts_of(out)
    kept = recorded["kept"]
    assert kept["gained"] is False and kept["step"] == known["best_step"] == 60
    assert kept["last"]["val_loss"] > found["val_loss"]
    told = " ".join(summary(found, "", recorded))
    assert "Training gained nothing over the model that it continued from at step 60" in told
    assert "The weights of step 60 are kept; the validation loss rose after it" in told


def test_from_a_run_on_the_same_data_never_ends_worse_either(good: Any, corpus: Path, tmp_path: Path):
    """The model is measured before its first step, and stays where nothing was gained."""
    harmful = {"steps": 12, "learning_rate": 5.0, "threads": 1, "precision": "float32", "evaluations": 3, "length": 32}
    found = headway.train(corpus, out=tmp_path / "run", from_model=str(good[0]), **QUIET, **harmful)
    before = facts_of(good[0])["metrics"]["val_loss"]
    assert found["val_loss"] == pytest.approx(before, abs=1e-5)
    assert found["baselines"][-1]["name"] == "the model before training"
    assert found["baselines"][-1]["val_loss"] == pytest.approx(before, abs=1e-5)
    recorded = facts_of(tmp_path / "run")
    assert recorded["kept"]["step"] == 0 and recorded["kept"]["gained"] is False
    assert "Training gained nothing over the model that it began from" in " ".join(summary(found, "", recorded))
    assert evaluate(tmp_path / "run")["val_loss"] == pytest.approx(before, abs=1e-5)


def test_keep_last_ends_with_the_last_weights(corpus: Path, tmp_path: Path, tiny: dict):
    rising = {**tiny, "learning_rate": 2.0, "evaluations": 5, "seed": 1}
    runs = {keep: headway.train(corpus, out=tmp_path / keep, **QUIET, **rising, keep=keep) for keep in ("best", "last")}
    kept = facts_of(tmp_path / "last")["kept"]
    assert kept["step"] == 20 and kept["by"] == "last"
    lines = [line for line in lines_of(tmp_path / "last") if line["event"] == "evaluation"]
    evaluated = {line["step"]: line["val_loss"] for line in lines}
    assert runs["last"]["val_loss"] == evaluated[20] and runs["best"]["val_loss"] == min(evaluated.values())
    assert evaluate(tmp_path / "last")["val_loss"] == pytest.approx(evaluated[20], abs=1e-5)


def test_what_cannot_be_continued_is_refused(finished: Any, corpus: Path, rows: Path, tmp_path: Path):
    with pytest.raises(InputError, match=f"--more-time continues a run, but {tmp_path}/none holds none"):
        headway.train(corpus, out=tmp_path / "none", **QUIET, more_time="5s")
    assert not (tmp_path / "none").exists()
    with pytest.raises(InputError, match="both given; a run is continued by one of them"):
        headway.train(corpus, out=finished[0], **QUIET, more_time="5s", more_steps=3)
    with pytest.raises(InputError, match="--seed 3 "):
        headway.train(corpus, out=finished[0], **QUIET, more_steps=3, seed=8)
    with pytest.raises(InputError, match=r"holds a run (on other data|with other options)"):
        headway.train(rows, out=finished[0], **QUIET, more_steps=3)
    assert facts_of(finished[0])["finished"] and "continued" not in facts_of(finished[0])
