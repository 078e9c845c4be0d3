"""``tune``: what is tried, what is kept, what is given up, and what a kill leaves."""

import json
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from faults_harness import KILL, Forker, words

import headway
from headway.cli.tune import lines as lines_of
from headway.errors import InputError, RunFailed
from headway.science import search
from headway.science import tune as module
from headway.science.search import Range, time_of_each
from headway.science.trials import LEAST_FOR_IMPORTANCE, Trials
from headway.science.tune import tune
from headway.tasks.classification import data as classification
from headway.training.hardware.memory import OutOfMemory
from headway.training.loop.trainer import Diverged, Interrupted
from headway.training.options import TrainOptions
from headway.training.progress import Progress
from headway.training.store.checkpoint import SaveFailed
from headway.training.store.run_directory import RunDirectory
from headway.workflows.evaluate import evaluate

SMALL: dict[str, Any] = {
    **{"d_model": 16, "layers": 1, "length": 16, "steps": 6, "threads": 1, "precision": "float32", "evaluations": 3},
    **{"tokenizer": "word", "r_drop": 0.0, "batch_tokens": 128, "log_every": 1},
}


class Said(Progress):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


class Stub:
    """Stands for ``run_training``: the loss follows from the options, falls in the course, and ends as ``plan`` says.

    ``plan`` has what the n-th call raises at half of its run.
    """

    def __init__(self, plan: dict[int, BaseException] | None = None):
        self.plan, self.tried = plan or {}, []

    def loss(self, options: TrainOptions) -> float:
        assert options.optimisation.learning_rate and options.optimisation.dropout is not None
        return abs(options.optimisation.learning_rate - 2e-3) * 100 + abs(options.optimisation.dropout - 0.2) + 0.1

    def __call__(self, inputs: Any, options: TrainOptions, *, out: Path, progress: Progress, **given: Any) -> Any:
        self.tried.append(options)
        run = RunDirectory(out)
        run.create()
        (out / "checkpoints").mkdir()
        facts = {"task": "classification", "options": options.flat(), "plan": {}, "data": {}, "finished": False}
        run.update(**facts, parameters=7, baselines=[])
        value = self.loss(options)
        for quarter in range(1, 5):
            if quarter == 2 and len(self.tried) - 1 in self.plan:
                raise self.plan[len(self.tried) - 1]
            progress.evaluated(quarter / 4, value * 4 / quarter)
        (out / "model.safetensors").write_text(f"{value}")
        metrics = {"val_loss": value, "accuracy": 0.75, "per_class": {name: {"support": 8} for name in "ab"}}
        run.update(metrics=metrics, steps=8, finished=True)
        return run


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Stub]:
    """Let trials end as planned, without training, and without the baselines that are reported beside them."""
    monkeypatch.setattr(classification, "classification_baselines", lambda *given: ([], ""))

    def planned(plan: dict[int, BaseException] | None = None) -> Stub:
        made = Stub(plan)
        monkeypatch.setattr(module, "run_training", made)
        return made

    return planned


def searched(rows: Path, out: Path, trials: int = 7, **more: Any) -> dict[str, Any]:
    progress = more.pop("progress", None)
    options = TrainOptions(**{**SMALL, "evaluations": 4, "d_model": None, "batch_tokens": None, **more})
    return tune([rows], options, trials=trials, out=out, progress=progress)


def essence(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What a search came to, without times and without what was interrupted."""
    settled = [one for one in found["trials"] if one["state"] != "interrupted"]
    return [(one["state"], one["value"], one["options"], one["preset"]) for one in settled]


def test_the_first_is_the_preset_and_the_best_is_kept(rows: Path, tmp_path: Path, stub: Callable):
    made, said = stub(), Said()
    found = searched(rows, tmp_path, progress=said)
    assert json.loads(json.dumps(found)) == found
    assert len(found["trials"]) == len(made.tried) == 7 and found["measure"] == "val_loss"
    first, preset = made.tried[0], found["trials"][0]
    assert (first.optimisation.learning_rate, first.optimisation.dropout) == (1e-3, 0.3)
    assert (first.architecture.d_model, first.architecture.layers) == (128, 1)
    assert preset["preset"] and preset["options"]["learning_rate"] == 1e-3
    assert found["preset"]["value"] == preset["value"]
    assert {options.run.seed for options in made.tried} == {0} and {options.run.steps for options in made.tried} == {6}
    assert len({options.optimisation.learning_rate for options in made.tried}) == 7, "every trial is another one"
    complete = {one["number"]: one["value"] for one in found["trials"] if one["state"] == "complete"}
    best, second = sorted(complete, key=complete.__getitem__)[:2]
    assert (found["best"]["trial"], found["best"]["value"]) == (best, complete[best]) and found["out"] == str(tmp_path)
    of_second = found["noise"]["second"]
    assert (of_second["trial"], of_second["value"]) == (second, complete[second])
    assert of_second["interval"][0] < 0 < of_second["interval"][1], "so small a difference of 21 rows is not sure"
    assert found["noise"]["accuracy_error"] == pytest.approx((0.75 * 0.25 / 16) ** 0.5)
    assert "21 rows" in found["noise"]["held_out"]
    said_so = " ".join(lines_of(found, ["rows.csv"]))
    apart = of_second["interval"]
    assert f"worse in val_loss; its accuracy is lower by 0.0000 (95 % interval {apart[0]:.3f} to" in said_so
    of_best = tmp_path / f"trials/{best:03}"
    assert (tmp_path / "model.safetensors").read_text() == (of_best / "model.safetensors").read_text()
    facts = json.loads((tmp_path / "headway.json").read_text())
    assert facts["tuning"]["trial"] == best and facts["tuning"]["finished"]
    assert facts["options"] == json.loads((of_best / "headway.json").read_text())["options"]
    assert not list(tmp_path.glob("trials/*/checkpoints")) and not (tmp_path / "checkpoints").exists()
    lines = [line for line in said.lines if " of 7, trial " in line]
    assert len(lines) == 7 and "the preset: val_loss" in lines[0] and f"(best: trial {best}, val_loss" in lines[-1]


def test_what_is_behind_is_given_up(rows: Path, tmp_path: Path, stub: Callable):
    stub()
    found = searched(rows, tmp_path, trials=12)
    pruned = [one for one in found["trials"] if one["state"] == "pruned"]
    assert pruned and pruned[0]["number"] >= 4, "the first four are always trained to their end"
    for one in pruned:
        (line,) = (tmp_path / f"trials/{one['number']:03}/log.jsonl").read_text().splitlines()
        assert json.loads(line)["event"] == "pruned" and one["metrics"] == {}
        assert one["number"] != found["best"]["trial"]


def test_importance_finds_what_matters(tmp_path: Path):
    """Of a value that follows from one option alone."""
    trials = Trials(tmp_path / "tune.db", seed=3)
    space = {name: Range(0.5, 0.0, 1.0) for name in ("dropout", "token_dropout", "label_smoothing")}
    for number in range(19):
        if number in (LEAST_FOR_IMPORTANCE - 1, LEAST_FOR_IMPORTANCE):
            assert (trials.importance(list(space)) is None) is (number < LEAST_FOR_IMPORTANCE)
        trial = trials.next(space, evaluations=1, planned=19)
        trial.end("complete", float(trial.options["token_dropout"]) ** 2)
    shares = trials.importance(list(space))
    assert shares is not None and set(shares) == set(space) and sum(shares.values()) == pytest.approx(1)
    assert next(iter(shares)) == "token_dropout" and shares["token_dropout"] > 0.8


def test_what_fails_is_not_the_end(rows: Path, tmp_path: Path, stub: Callable):
    stub({1: OutOfMemory("at step 3"), 2: Diverged("not finite"), 3: SaveFailed("no room"), 4: InputError("no model")})
    found = searched(rows, tmp_path)
    failed = [(one["number"], one["problem"].split(".")[0]) for one in found["trials"] if one["state"] == "failed"]
    assert [number for number, _ in failed] == [1, 2, 3, 4] and failed[0][1].startswith("out of memory at step 3")
    assert [said for _, said in failed[1:]] == ["not finite", "no room", "no model"]
    assert len(found["trials"]) == 7 and found["best"]["trial"] not in (1, 2, 3, 4)


def test_when_all_fail_there_is_one_message(rows: Path, tmp_path: Path, stub: Callable):
    stub({number: Diverged(f"not finite, {number}") for number in range(3)})
    with pytest.raises(RunFailed, match=r"none of 3 trials gave a model\. The last: not finite, 2") as error:
        searched(rows, tmp_path, trials=3)
    assert "\n" not in str(error.value) and not (tmp_path / "model.safetensors").exists()


class Killed(BaseException):
    """Ends a search as a kill does: nothing of it is caught."""


def test_a_search_that_was_killed_goes_on_as_one_left_alone(rows: Path, tmp_path: Path, stub: Callable):
    stub()
    alone = searched(rows, tmp_path / "alone")
    killed = stub({0: Killed(), 3: Killed(), 5: Killed()})
    said = Said()
    for _ in range(3):
        with pytest.raises(Killed):
            searched(rows, tmp_path / "killed")
    found = searched(rows, tmp_path / "killed", progress=said)
    assert essence(found) == essence(alone) and len(killed.tried) == 10
    assert [one["number"] for one in found["trials"] if one["state"] == "interrupted"] == [0, 3, 5]
    assert found["best"]["options"] == alone["best"]["options"]
    assert any("trial 5 was interrupted" in line for line in said.lines)
    seen = [(tmp_path / name / "model.safetensors").read_text() for name in ("alone", "killed")]
    assert seen[0] == seen[1]


def test_ctrl_c_is_taken_up_too(rows: Path, tmp_path: Path, stub: Callable):
    stub()
    alone = searched(rows, tmp_path / "alone", trials=3)
    stub({1: Interrupted()})
    with pytest.raises(Interrupted):
        searched(rows, tmp_path / "stopped", trials=3)
    assert essence(searched(rows, tmp_path / "stopped", trials=3)) == essence(alone)


def test_more_trials_go_on_and_other_searches_are_refused(rows: Path, tmp_path: Path, stub: Callable):
    made, out, said = stub(), tmp_path / "out", Said()
    first = searched(rows, out, trials=3)
    again = searched(rows, out, trials=3, progress=said)
    assert len(made.tried) == 3 and essence(again) == essence(first) and "this search is complete" in said.lines[-1]
    more = searched(rows, out, trials=5, save_every="7s")
    assert len(made.tried) == 5 and essence(more)[:3] == essence(first)
    with pytest.raises(InputError, match=r"other options: --dropout not given\. "):
        searched(rows, out, trials=5, dropout=0.1)
    other = tmp_path / "other.csv"
    other.write_text(rows.read_text() + "great,pos\n")
    with pytest.raises(InputError, match="other data"):
        searched(other, out, trials=5)
    with pytest.raises(InputError, match="--trials is 1; it must be from 2 to 10,000"):
        searched(rows, out, trials=1)
    (out / "tune.db").write_bytes(b"no database" * 1000)
    with pytest.raises(InputError, match=r"tune\.db: cannot be used"):
        searched(rows, out, trials=5)
    (out / "tune.db").unlink()
    with pytest.raises(InputError, match=r"tune\.db: this file is missing"):
        searched(rows, out, trials=5)
    assert len(made.tried) == 5


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"seeds": 3}, r"--seeds is not for tune: tune first"),
        ({"shard": True}, r"--shard is not for tune"),
        ({"from_model": "runs/x", "steps": None, "frozen": True}, r"--frozen is not for tune"),
        ({"bpe_dropout": 0.1}, r"--bpe-dropout is for text_to_text and translation"),
    ],
)
def test_what_makes_no_search_is_refused(more: dict[str, Any], said: str, rows: Path, tmp_path: Path):
    if "from_model" in more:
        more = {**more, **dict.fromkeys(("layers", "tokenizer", "r_drop", "evaluations"))}
    with pytest.raises(InputError, match=said):
        searched(rows, tmp_path / "out", **more)
    assert not (tmp_path / "out").exists()


def test_another_run_is_left_alone(rows: Path, classifier_run: Path):
    before = sorted(classifier_run.rglob("*"))
    with pytest.raises(InputError, match="holds another run"):
        searched(rows, classifier_run)
    assert sorted(classifier_run.rglob("*")) == before


def test_without_optuna_the_extra_is_named(rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=r"pip install 'headway\[tune\]'"):
        searched(rows, tmp_path / "out")
    assert not (tmp_path / "out").exists()


class Clock:
    """A clock that is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.now = 1000.0
        for place in (module, search):
            monkeypatch.setattr(place, "time", SimpleNamespace(monotonic=lambda: self.now, time=lambda: self.now))


def test_time_is_shared_and_trials_that_do_not_fit_are_not_begun(
    rows: Path, tmp_path: Path, stub: Callable, monkeypatch: pytest.MonkeyPatch
):
    clock, made, said = Clock(monkeypatch), stub(), Said()
    loss = made.loss
    given: dict[str, Any] = {"steps": None, "time": "110s", "progress": said}

    def slow(options: TrainOptions) -> float:
        clock.now += 24.0  # a little more than its share
        return loss(options)

    made.loss = slow  # type: ignore[method-assign]
    found = searched(rows, tmp_path, trials=5, **given)
    assert {options.run.time for options in made.tried} == {"19.000s"}, "95 % of 110 - 10 s, in five"
    assert len(made.tried) == 4 and any("the time is over after 4 of 5 trials" in line for line in said.lines)
    assert found["seconds"] == pytest.approx(96.0)
    again = searched(rows, tmp_path, trials=5, **given)
    assert len(made.tried) == 4 and len(again["trials"]) == 4, "what earlier commands took counts"
    assert len(searched(rows, tmp_path, trials=5, **{**given, "time": "140s"})["trials"]) == 5
    assert {options.run.time for options in made.tried} == {"19.000s"}, "all trials of a search are alike"


def test_short_times_have_fewer_trials_or_are_refused(monkeypatch: pytest.MonkeyPatch):
    clock, said = Clock(monkeypatch), Said()
    assert time_of_each("30m", 20, clock.now - 4, said) == f"{0.95 * (1800 - 4 - 10) / 20:.3f}s" and not said.lines
    assert time_of_each("61s", 20, clock.now, said) == f"{0.95 * 51 / 4:.3f}s"
    assert "about 4 of them fit" in said.lines[0]
    with pytest.raises(InputError, match=r"--time 31s is not enough .* about 32 s"):
        time_of_each("31s", 20, clock.now, said)
    assert time_of_each("32s", 20, clock.now, said)


@pytest.fixture(scope="module")
def real(rows: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a search of three real trials gives; look, but do not write."""
    return tune([rows], TrainOptions(**SMALL), trials=3, out=tmp_path_factory.mktemp("real") / "tuned")


def test_the_model_is_that_of_its_options(real: dict[str, Any], rows: Path, tmp_path: Path):
    """Nothing stubbed: the saved model is what ``train`` makes with the same options, to the last bit."""
    found = real
    shutil.copytree(real["out"], tmp_path / "tuned")
    assert found["accuracy"] is not None and set(found["space"]) == {
        *("learning_rate", "dropout", "label_smoothing", "token_dropout")
    }
    headway.train(rows, out=tmp_path / "again", quiet=True, **found["options"])
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("tuned", "again")]
    assert models[0] == models[1]
    assert headway.load(tmp_path / "tuned")("a great cat")["label"] in ("pos", "neg")
    assert evaluate(tmp_path / "tuned")["val_loss"] == pytest.approx(found["best"]["value"], rel=1e-6)
    losses = [one["value"] for one in found["trials"]]
    assert len(set(losses)) == 3 and found["best"]["value"] == min(losses)
    shutil.rmtree(tmp_path / "tuned" / "trials")
    headway.load(tmp_path / "tuned")  # it stands by itself


IN_ITS_SECOND = """
trials = [0]
train = session.train
def counted(*given):
    trials[0] += 1
    return train(*given)
session.train = counted
evaluated = trainer._evaluate
def evaluate(*given):
    evaluated(*given)
    if trials[0] == 2:
        kill()
trainer._evaluate = evaluate
"""
AFTER_ITS_FIRST = """
from headway.science import trials
end = trials.Trial.end
def ended(*given, **more):
    end(*given, **more)
    kill()
trials.Trial.end = ended
"""
WITHOUT_PLOTS = "import sys; sys.modules['matplotlib.figure'] = None"


def test_killed_within_a_trial_and_between_two(real: dict[str, Any], rows: Path, tmp_path: Path, forker: Forker):
    command = ("tune", rows, "--trials", 3, *words(SMALL), "--quiet", "--json", "--out", tmp_path / "killed")
    for script in (IN_ITS_SECOND, AFTER_ITS_FIRST):  # the first trial, and half of the second; the second again
        killed = forker(*command, script=KILL + script)
        assert killed.returncode == -9, killed.stderr
    done = forker(*command, script=WITHOUT_PLOTS)
    assert done.returncode == 0 and "plots" in done.stderr, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert essence(found) == essence(real)
    assert [one["state"] for one in found["trials"]].count("interrupted") == 1 and len(found["trials"]) == 4
    models = [(Path(place) / "model.safetensors").read_bytes() for place in (real["out"], found["out"])]
    assert models[0] == models[1]


def test_a_draw_depends_on_the_seed_and_on_nothing_else(tmp_path: Path):
    space = {"dropout": Range(0.1, 0.0, 0.5), "layers": Range(2, 1, 17, whole=True)}
    drawn = []
    for number, seed in enumerate((0, 0, 1)):
        random.seed(number)
        trials = Trials(tmp_path / f"{number}.db", seed)
        trials.first({"dropout": 0.1, "layers": 2})
        tried = [trials.next(space, evaluations=1, planned=3) for _ in range(2)]
        drawn.append([trial.options for trial in tried])
    assert drawn[0] == drawn[1] and drawn[0][1] != drawn[2][1]
    assert [one[0] for one in drawn] == [{"dropout": 0.1, "layers": 2}] * 3
