"""Tasks of other packages: one works with every verb that applies, and broken ones are named and harm nothing."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from faults_harness import facts_of
from rows_kit import CHECKS, passed_checks
from safetensors.torch import load_file, save_file

import headway
from headway.cli.main import OF_TASKS, VERBS
from headway.errors import InputError
from headway.io.atomic_write import write_json
from headway.models.own import OwnConfig
from headway.tasks import registry
from headway.tasks.checks import own_model
from headway.training.evaluation.metric import Metric

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = (ROOT / "examples" / "own_task.py").read_text(encoding="utf-8")
STARS = ["--task", "stars"]
OPTIONS = ["--steps", "60", "--learning-rate", "0.01", "--batch-tokens", "256", "--threads", "1", "--quiet"]


def distribution(site, name, tasks, **modules):
    """An installed package: its modules, and the folder that says what it is."""
    about = site / f"{name.replace('-', '_')}-0.1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    lines = "".join(f"{task} = {module}\n" for task, module in tasks.items())
    (about / "entry_points.txt").write_text(f"[console_scripts]\nx = y:z\n\n[headway.tasks]\n{lines}")
    for module, code in modules.items():
        (site / f"{module}.py").write_text(code)
    return site


def run(site, *words, status=0):
    """``headway`` (or "-c CODE") in a process of its own, with the packages in ``site``."""
    command = [sys.executable, *([] if words[0] == "-c" else ["-m", "headway"]), *map(str, words)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(site)])}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == status, done.stdout + done.stderr
    return done


LOADS = """
import sys, headway
pipe = headway.load(sys.argv[1], task="stars")
good, bad = pipe(["great great great", "awful awful awful"])
assert pipe.task == "stars" and good > 3.5 and bad < 2.5 and pipe("great great great") == good, (good, bad)
for wrong in (lambda: headway.load_model(sys.argv[1]), lambda: headway.load(sys.argv[1], task="classification")):
    try:
        wrong()
    except headway.InputError as error:
        print(error)
"""
LOADS_DAMAGED = """
import sys, warnings, headway
warnings.simplefilter("ignore")
for place in sys.argv[1:]:
    try:
        headway.load(place)
    except headway.InputError as error:
        print(error)
"""
ASKS = """
import sys, warnings, headway
from headway.tasks import registry
warnings.simplefilter("ignore")
run, rows, out, *names = sys.argv[1:]
for name in names:
    for ask in (lambda: headway.load(run, task=name), lambda: headway.train(rows, task=name, steps=1, out=out)):
        try:
            ask()
        except headway.InputError as error:
            print(error)
print(headway.load(run).task)
print(registry.task_named("stars").spec.title)
"""
HELPS = """
import sys
from headway.cli.main import main
try:
    main(sys.argv[1:])
finally:
    assert "torch" not in sys.modules
"""


MANY = """
import contextlib, io, json, sys
from headway.cli.main import main
for words in json.loads(sys.argv[1]):
    out, err, status = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as error:
            status = error.code
    print(json.dumps([status, out.getvalue(), err.getvalue()]))
"""


def run_many(site, *commands, failing=False):
    """Several commands of ``headway`` one after the other in one process: the status, output and errors of each."""
    asked = json.dumps([[str(word) for word in words] for words in commands])
    done = [tuple(json.loads(line)) for line in run(site, "-c", MANY, asked).stdout.splitlines()]
    assert len(done) == len(commands) and (failing or not any(status for status, _, _ in done)), done
    return done


def last_lines(done):
    """What each of these commands said last, in JSON."""
    return [json.loads(out.splitlines()[-1]) for _, out, _ in done]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Where the example is installed."""
    return distribution(tmp_path_factory.mktemp("site"), "own-task", {"stars": "own_task"}, own_task=EXAMPLE)


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    """Each good word of a review is a star more."""
    path = tmp_path_factory.mktemp("reviews") / "reviews.csv"
    lines = [f"{'great ' * (n % 5)}{'awful ' * (4 - n % 5)}thing{n % 17} number {n},{1 + n % 5}" for n in range(211)]
    path.write_text("\n".join(["review,stars", *lines]) + "\n")
    return path


@pytest.fixture(scope="module")
def trained(site, reviews, tmp_path_factory):
    """A run of the example, and what ``train`` printed."""
    out = tmp_path_factory.mktemp("runs") / "stars"
    done = run(site, "train", reviews, *STARS, "--out", out, "--json", *OPTIONS)
    return out, json.loads(done.stdout.splitlines()[-1])


def test_it_learns_and_reports_its_own_metric(trained):
    assert len(EXAMPLE.splitlines()) <= 60
    out, found = trained
    assert found["task"] == "stars" and found["steps"] == 60 and found["accuracy"] is None
    (mean,) = found["baselines"]
    assert mean["name"] == "the mean" and 1.0 < mean["star_error"] < 1.5
    assert found["star_error"] < 0.7 * mean["star_error"] and math.isfinite(found["val_loss"])
    verdict = facts_of(out)["verdict"]
    assert verdict["metric"] == "star_error" and verdict["result"] == "better" and verdict["difference"] > 0
    assert verdict["paired"] and verdict["difference_interval"][0] > 0
    page = (out / "report.html").read_text()
    assert "mean error in stars" in page and "weighed mean of words (this run)" in page
    assert "The weighed mean of words beats the mean" in page and "Transformer (this run)" not in page


def test_its_model_is_written_and_read_by_its_task(trained, site):
    out, _ = trained
    config = json.loads((out / "config.json").read_text())
    assert config["model_type"] == "headway-task" and config["task"] == "stars"
    assert {field.name for field in fields(OwnConfig)} <= set(config)
    weights = load_file(out / "model.safetensors")
    assert set(weights) == {"words.weight", "telling.weight", "stars.weight", "stars.bias"}
    alone, other = run(site, "-c", LOADS, out).stdout.splitlines()
    assert "which only the package of that task reads, with `headway.load`" in alone
    assert other.endswith("this is a model for stars, not for classification.")


def test_every_verb_that_applies(trained, site, reviews, tmp_path):
    out, found = trained
    texts = "great great", "awful"
    asked = [["evaluate", out], ["evaluate", out, reviews], ["rate", out, *texts], ["predict", out, *texts]]
    asked = [[*words, "--json"] for words in [*asked, ["bench", out]]]
    asked += [["rate", out, *texts], ["rate", out, reviews, "--to", tmp_path / "answers.csv"]]
    done = run_many(site, *asked)
    again, other, rated, predicted, speed = last_lines(done[:5])
    assert again["examples"] == 21 and again["star_error"] == pytest.approx(found["star_error"], abs=1e-6)
    assert again["val_loss"] == pytest.approx(found["val_loss"], abs=1e-6)
    assert other == {**again, "seconds": other["seconds"]}  # of its own file, the held-out part
    assert rated["results"] == predicted["results"] and rated["results"][0] > rated["results"][1]
    assert {row["kind"] for row in speed["rows"]} == {"read"}
    stars, shown = zip(*(line.split("\t") for line in done[5][1].splitlines()), strict=True)
    assert shown == texts and [float(one) for one in stars] == pytest.approx(rated["results"], abs=1e-3)
    lines = (tmp_path / "answers.csv").read_text().splitlines()
    assert lines[0] == "text,answer" and len(lines) == 212


@pytest.mark.thorough
def test_verify(trained, site):
    said = run(site, "verify", trained[0], "--json", "--quiet", "--threads", "1").stdout
    names = {check["name"] for check in json.loads(said.splitlines()[-1])["checks"] if check["passed"] is None}
    assert passed_checks(said) == CHECKS - {"export"} and names == {"cache", "engines", "export", "precision"}


def test_what_does_not_apply_is_one_message(trained, site, reviews, tmp_path):
    run, wrong, text, many = trained[0], tmp_path / "wrong.csv", tmp_path / "text.txt", tmp_path / "many.csv"
    wrong.write_text("review,stars\ngood one,5\nbad one,five\n")
    text.write_text("a text\n" * 30)
    many.write_text("review,one,two\n" + "".join(f"a text {i} of many words,{i},{i}\n" for i in range(30)))
    own = "the own model of stars"
    said = {
        ("train", reviews, *STARS, "--heads", "2"): "--heads is for Transformers; stars trains a model of its own",
        ("train", reviews, *STARS, "--from", run): f"is {own}, which only the package of that task reads",
        ("train", reviews, *STARS, "--plan"): f"--plan is for Transformers only, not for {own}",
        ("train", reviews, *STARS, "--stream"): "--stream reads .parquet files only",
        ("train", reviews, *STARS, "--seeds", "2"): "--seeds is for classification",
        ("train", wrong, *STARS): "column 'stars' holds 'five', which is no value for stars (row 3)",
        ("train", text, *STARS): "running text; stars needs a table",
        ("train", many, *STARS): "Name it with --label-column",
        ("train", many, *STARS, "--label-column", "three"): "no column 'three'; found: review, one, two",
        ("compare", reviews, *STARS, "--models", "lstm,gru"): "--models: stars has no model lstm",
        ("scale", reviews, *STARS): "scale is for language_modeling and masked_lm",
        ("export", run): "which only the package of that task reads",
        ("explain", run): f"this is {own}: it has no Transformer blocks to show",
        ("attention", run, "great"): "attention cannot be shown for stars models",
        ("bench", run, "--lengths", "8,16"): f"this is {own}, and the plots need the sizes of a Transformer",
        ("classify", run, "great"): "holds a model for stars; classify needs a classifier",
    }
    asked = [[*words, *(["--out", tmp_path / "out"] if words[0] == "train" else [])] for words in said]
    for words, (status, _, error) in zip(said, run_many(site, *asked, failing=True), strict=True):
        assert status == 2 and said[words] in error and "Traceback" not in error, (words, error)
        assert error.count("headway: ") == 1
    assert not (tmp_path / "out").exists()


def test_a_model_without_its_package_says_so(trained, tmp_path):
    said = run(tmp_path, "predict", trained[0], "great", status=2).stderr
    assert said.startswith(f"headway: {trained[0]}: is a model for 'stars', a task that no installed package has")
    assert "install the package" in said and said.count("\n") == 1


def changed_run(run, out, **changes):
    """A copy of a run whose record says something else."""
    shutil.copytree(run, out)
    facts = {key: value for key, value in facts_of(out).items() if key != "checksum"}
    write_json(out / "headway.json", {**facts, **changes})
    return out


def test_a_run_of_a_task_that_is_not_there_or_a_plan_of_another(classifier_run, rows, tmp_path, tiny):
    """Its model would load as a classifier, whatever it was trained for."""
    with pytest.raises(InputError, match="is a model for 'stars', a task that no installed package has"):
        headway.load(changed_run(classifier_run, tmp_path / "named", task="stars"))
    plan = facts_of(classifier_run)["plan"] | {"model": {"task": "classification", "vocab_size": 7}}
    run = changed_run(classifier_run, tmp_path / "run", finished=False, plan=plan)
    with pytest.raises(InputError, match=r"plan\.model is the own model of classification, but this is classification"):
        headway.train(rows, out=run, quiet=True, **{**tiny, "steps": 60})


def test_values_that_are_none_can_be_skipped(site, tmp_path):
    file = tmp_path / "some.csv"
    lines = [f"great thing {n} of them,{'?' if n in (3, 5) else n % 5}" for n in range(60)]
    file.write_text("\n".join(["review,stars", *lines, ",", "empty,"]) + "\n")
    words = ["train", file, *STARS, "--steps", "1", "--threads", "1", "--out", tmp_path / "out"]
    refused, kept = run_many(site, words, [*words, "--on-bad-row", "skip"], failing=True)
    assert refused[0] == 2 and "1 row has no label in column 'stars' (row 63)" in refused[2] and kept[0] == 0
    assert "warning: 2 rows without a value left out (rows 5, 7)" in kept[2]
    assert "warning: 1 row without text or label left out (row 63)" in kept[2]
    assert "training on 52 rows, held out 6 rows" in kept[2]


def test_a_damaged_model_is_one_message(trained, site, tmp_path):
    damages = [  # what is changed in the configuration, what becomes of the weights, and what is said
        ({"d_model": 7}, None, "does not fit config.json in stars.weight, words.weight"),
        ({"vocab_size": ...}, None, "'vocab_size' is missing"),
        ({"n_layers": "two"}, None, "n_layers is 'two'"),
        ({"vocab_size": 2**30, "d_model": 2**15}, None, "model3"),
        ({}, lambda name, weight: ... if name == "stars.bias" else weight, "does not fit config.json in stars.bias"),
        ({}, lambda name, weight: weight * torch.nan, "contains NaN"),
    ]
    places = [tmp_path / f"model{number}" for number in range(len(damages))]
    for place, (config, change, _) in zip(places, damages, strict=True):
        shutil.copytree(trained[0], place, ignore=shutil.ignore_patterns("headway.json"))
        config = json.loads((place / "config.json").read_text()) | config
        (place / "config.json").write_text(json.dumps({key: v for key, v in config.items() if v is not ...}))
        if change is not None:
            kept = {name: change(name, w) for name, w in load_file(place / "model.safetensors").items()}
            kept = {name: weight for name, weight in kept.items() if weight is not ...}
            save_file(kept, place / "model.safetensors", metadata={"format": "pt"})
    said = run(site, "-c", LOADS_DAMAGED, *places).stdout.splitlines()
    for line, (_, _, words) in zip(said, damages, strict=True):
        assert words in line, line


BROKEN = {
    "raises": ("raise RuntimeError('boom\\nand more')", "importing it fails: RuntimeError: boom."),
    "leaves": ("import sys\nsys.exit(3)", "importing it fails: SystemExit: 3."),
    "older": (
        "from headway.tasks.common.text_rows import TextRows",
        "this one has no headway.tasks.common; 'A task of your own' in docs/architecture.md names what took the place",
    ),
    "needs": ("import a_package_that_is_not_there", "No module named 'a_package_that_is_not_there'."),
    "bare": ("x = 1", "bare has no SPEC."),
    "nospec": ("SPEC = {'name': 'nospec'}", "nospec.SPEC is of the type dict, expected a TaskSpec."),
    "called": ("SPEC = TaskSpec('other', 'T')", "its spec is named 'other', its entry point 'called'."),
    "verb": ("SPEC = TaskSpec('verb', 'T', 'classify')", "headway itself has a command 'classify'; choose another"),
    "lacks": (
        "class Own(Task):\n    spec = SPEC\n    def open_data(self, given): pass\nTASK = Own()",
        "importing it fails: TypeError: Can't instantiate abstract class Own with abstract methods evaluate, pipeline.",
    ),
}  # fmt: skip
LATE = {
    "wrong": ("TASK = object()", "wrong.TASK is of the type object, expected an instance of a subclass of Task"),
    "aclass": ("class Own(Task):\n    spec = SPEC\nTASK = Own", "aclass.TASK is the class Own, expected an instance"),
    "notask": ("", "notask has no TASK."),
}  # fmt: skip
HEAD = "from headway.tasks.spec import TaskSpec\nfrom headway.tasks.task import Task\n"
HEAD += "SPEC = TaskSpec('{0}', 'A title')\n"


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """Where broken packages are installed, and a good one."""
    place = tmp_path_factory.mktemp("broken")
    for name, (code, _) in {**BROKEN, **LATE}.items():
        whole = name in ("lacks", "called", "verb", *LATE)
        distribution(place, name, {name: name}, **{name: (HEAD.format(name) if whole else "") + code})
    distribution(place, "own-task", {"stars": "own_task"}, own_task=EXAMPLE)
    distribution(place, "takes-a-name", {"classification": "own_task"})
    distribution(place, "z-second", {"stars": "second"})
    trains = HEAD.format("trains").replace("title'", "title', 'train'")
    return distribution(place, "trains", {"trains": "trains"}, trains=trains)


def test_broken_ones_are_named_in_a_line_each_and_harm_nothing(broken):
    done = run(broken, "--help")
    assert "Guess how many stars a review gives." in done.stdout and "Train a model on your file." in done.stdout
    said = [line.removeprefix("headway: warning: ") for line in done.stderr.splitlines()]
    for name, (_, words) in BROKEN.items():
        expected = f"the task {name!r} of {name} 0.1 ({name}) cannot be used: "
        (line,) = [line for line in said if line.startswith(expected)]
        assert words in line
    taken = [line.split(" is left out: ") for line in said if "is left out" in line]
    assert taken == [
        ["the task 'classification' of takes-a-name 0.1 (own_task)", "headway itself has a task of that name"],
        ["the task 'stars' of z-second 0.1 (second)", "own-task 0.1 has a task of that name"],
    ]
    assert "the task 'trains' uses the verb 'train', which is another command" in said
    assert len(said) == len(BROKEN) + 3


@pytest.mark.thorough
def test_asking_for_a_broken_one_is_one_error(broken, classifier_run, rows, tmp_path):
    """And all others go on working."""
    names = list({**BROKEN, **LATE})
    said = run(broken, "-c", ASKS, classifier_run, rows, tmp_path / "x", *names).stdout.splitlines()
    assert said[-2:] == ["classification", "Star rating"] and len(said) == 2 * len(names) + 2
    for number, name in enumerate(names):
        for line in said[2 * number : 2 * number + 2]:
            assert line.startswith(f"the task {name!r} of {name} 0.1 ({name}) cannot be used: ")
            assert {**BROKEN, **LATE}[name][1] in line
    assert run(broken, "classify", classifier_run, "a good mat").stderr == ""
    error = run(broken, "train", rows, "--task", "raises", "--out", tmp_path / "x", "--quiet", status=2).stderr
    assert error.splitlines()[-1].startswith("headway: the task 'raises' of raises 0.1 (raises) cannot be used: ")
    assert "Traceback" not in error and not (tmp_path / "x").exists()


def test_a_package_laid_out_like_a_room(tmp_path):
    """Its spec and its command are read without the rest, so that help does not wait for torch."""
    distribution(tmp_path, "a-room", {"room": "a_room"})
    (tmp_path / "a_room").mkdir()
    (tmp_path / "a_room" / "__init__.py").touch()
    (tmp_path / "a_room" / "spec.py").write_text(
        "from headway.tasks.command import Command, Option\nfrom headway.tasks.spec import TaskSpec\n\n\n"
        "SPEC = TaskSpec('room', 'Room', 'enter', help='Go in.')\n\n\n"
        "class COMMAND(Command):\n    spec, does, options = SPEC, 'Go in.', (Option('door', 'Which door.'),)\n"
    )
    (tmp_path / "a_room" / "task.py").write_text("raise RuntimeError('not needed for help')")
    for words, said in ((["--help"], "Go in."), (["enter", "--help"], "Which door.")):
        assert said in run(tmp_path, "-c", HELPS, *words).stdout
    (tmp_path / "a_room" / "task.py").rename(tmp_path / "a_room" / "room.py")
    said = run(tmp_path, "train", "x.csv", "--task", "room", status=2).stderr
    assert "cannot be used: its room.py is task.py now" in said and "docs/architecture.md" in said


def test_a_package_counts_once_and_without_any_nothing_is_imported(tmp_path, monkeypatch):
    code = "import sys\nfrom headway.tasks.registry import others, usable\nassert others() == usable() == ()\n"
    run(tmp_path, "-c", code + "assert not {'importlib.metadata', 'torch'} & set(sys.modules)")
    for place in ("one", "two"):
        distribution(tmp_path / place, "own-task", {"stars": "own_task"})
    monkeypatch.setattr(sys, "path", [str(tmp_path / "one"), str(tmp_path / "two"), str(tmp_path / "none")])
    found, left_out = registry.plugins.__wrapped__(())
    assert not left_out and {name: plugin.origin for name, plugin in found.items()} == {"stars": "own-task 0.1"}


def module(forward, dtype=torch.float32, kept=False):
    """A model of a task's own, for two texts."""
    model = type("Model", (torch.nn.Module,), {"forward": forward})()
    model.word = torch.nn.Parameter(torch.zeros(7, dtype=dtype))
    model.register_buffer("mean", torch.zeros(3), persistent=kept)
    return model


def answer(self, ids, mask=None):
    return self.word[ids].sum(dim=1)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: module(answer, kept=True), "the own model of own keeps 'mean' as a buffer"),
        (lambda: module(answer, torch.float64), "has 'word' in torch.float64; expected torch.float32"),
        (lambda: torch.nn.Identity(), "has no parameters"),
        (lambda: "model", "new_model of own returns a str, expected a torch.nn.Module"),
        (lambda: module(lambda self, ids: answer(self, ids)), "forward must take ids int64 .B, T. and a mask"),
        (lambda: module(lambda self, ids, mask=None: self.word[ids].sum()), "gives a tensor .. for two texts"),
    ],
)
def test_a_model_that_could_not_be_trained_and_saved_is_refused(make, says):
    task = type("Own", (), {"new_model": lambda self, config: make()})()
    with pytest.raises(InputError, match=says):
        own_model(task, OwnConfig("own", 7))


COUNTS = {
    "self.stars = nn.Linear(width, 1)": "self.stars, self.read = nn.Linear(width, 1), nn.Parameter(torch.zeros(()), "
    "requires_grad=False)",
    "        scores = self": "        self.read += 0.01 * self.training\n        scores = (1 + self.read) * self",
}
"""A model that itself changes a parameter in training, made of the example."""
STOPS = """
import itertools, signal, sys
from headway.cli.main import main
from headway.training.loop import trainer
calls, honest = itertools.count(), trainer.accumulation
def stopping(*given):
    if next(calls) == 30:
        signal.raise_signal(signal.SIGINT)
    return honest(*given)
trainer.accumulation = stopping
main(sys.argv[1:])
"""


def changed(place, changes):
    """Where the example is installed with other code."""
    code = EXAMPLE
    for old, new in changes.items():
        assert old in code
        code = code.replace(old, new)
    return distribution(place, "own-task", {"stars": "own_task"}, own_task=code)


@pytest.mark.thorough
def test_it_starts_from_a_pretrained_model(site, reviews, classifier_run, tmp_path):
    """And goes on from its own run: with the head that this one has."""
    base, out, more = shutil.copytree(classifier_run, tmp_path / "base"), tmp_path / "run", tmp_path / "more"
    words = ["train", reviews, *STARS, *OPTIONS, "--json"]
    done = run_many(
        site,
        [*words, "--from", base, "--out", out],
        ["evaluate", out, "--json"],
        ["rate", out, "great great great great", "awful awful awful awful", "--json"],
        ["verify", out, "--json", "--quiet", "--threads", "1"],
        [*words, "--from", out, "--out", more],
    )
    found, again, rated, *_ = last_lines(done)
    assert again["star_error"] == pytest.approx(found["star_error"], abs=1e-5)
    assert found["star_error"] < 0.5 * found["baselines"][0]["star_error"]
    assert rated["results"][0] > 4 > 2 > rated["results"][1]
    assert passed_checks(done[3][1]) >= CHECKS
    first, second = facts_of(out), facts_of(more)
    heads = [one["value"] for facts in (first, second) for one in facts["decisions"] if one["what"] == "head"]
    assert heads == ["a new one, which starts untrained", f"the one of {out}"]
    assert first["kept"].get("before") is None
    assert second["kept"]["before"] == pytest.approx(found["val_loss"], abs=1e-5)
    page = (out / "report.html").read_text()
    assert "The Transformer beats the mean" in page and "weighed mean of words" not in page


def test_without_a_model_of_its_own_it_trains_a_transformer(reviews, tmp_path):
    (own,) = re.findall(r"\n    def new_model\(.*\n.*\n", EXAMPLE)
    site, out = changed(tmp_path / "site", {own: ""}), tmp_path / "run"
    sizes = ["--d-model", "32", "--layers", "1", "--heads", "2"]
    train = ["train", reviews, *STARS, *OPTIONS, *sizes, "--out", out, "--json"]
    found, again = last_lines(run_many(site, train, ["evaluate", out, "--json"]))
    assert again["star_error"] == pytest.approx(found["star_error"], abs=1e-5)
    assert found["star_error"] < 0.5 * found["baselines"][0]["star_error"]
    assert json.loads((out / "config.json").read_text())["id2label"] == {"0": "LABEL_0"}


def test_what_only_the_constructor_knows_is_refused_before_training(reviews, tmp_path):
    drawn = {"self.stars = nn.Linear(width, 1)": "self.stars, self.shift = nn.Linear(width, 1), torch.randn(width)"}
    drawn["self.words(ids))"] = "(self.words(ids) + self.shift))"
    words = ["train", reviews, *STARS, *OPTIONS, "--out", tmp_path / "run"]
    said = run(changed(tmp_path / "site", drawn), *words, status=2).stderr
    assert "new_model must build it again from its configuration alone" in said and "Traceback" not in said


@pytest.mark.thorough
def test_what_training_changes_without_a_gradient_is_resumed(reviews, tmp_path):
    site = changed(tmp_path / "site", COUNTS)
    words = ["train", reviews, *STARS, *OPTIONS, "--keep", "last"]
    run(site, *words, "--out", tmp_path / "whole")
    run(site, "-c", STOPS, *words, "--out", tmp_path / "two", status=130)
    run(site, *words, "--out", tmp_path / "two")
    whole, two = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "two"))
    assert whole["read"] > 0.5 and all(torch.equal(whole[name], two[name]) for name in whole)


@pytest.mark.thorough
def test_weights_are_not_used_with_other_code_of_their_package(trained, reviews, site, tmp_path):
    other = changed(tmp_path / "other", {"return 3 + ": "return 4 + "})
    said = "answers otherwise than when these weights were saved: the package of the task"
    assert said in run(other, "rate", trained[0], "great", status=2).stderr
    words = ["train", reviews, *STARS, *OPTIONS, "--out", tmp_path / "run"]
    run(site, "-c", STOPS, *words, status=130)
    assert said in run(other, *words, status=2).stderr
    run(site, *words)
    assert said in run(other, *words, "--more-steps", "5", status=2).stderr


SIZES = [("vocab_size", 0), ("vocab_size", True), ("d_model", 1.5), ("dropout", 1.0), ("more", []), ("width", 3)]


@pytest.mark.parametrize(("name", "value"), SIZES)
def test_sizes_that_no_model_has(name, value):
    with pytest.raises(ValueError, match=name):
        OwnConfig.from_dict({"task": "own", "vocab_size": 7, name: value})


def test_what_tasks_compare_by_are_metrics_and_their_names_are_taken():
    for name in registry.NAMES:
        spec = registry.spec(name)
        keys = [metric.key for metric in spec.metrics]
        assert len(set(keys)) == len(keys) and "val_loss" in keys
        assert {*spec.headline, *spec.compared} <= set(spec.metrics)
        assert all(metric.units for metric in spec.headline)
        assert spec.metric(keys[0]) == spec.metrics[0] and spec.metric("no_such").name == "no such"
    with pytest.raises(ValueError, match="units is 'rank', but must be one of loss, class"):
        Metric("x", "x", units="rank")
    assert {*registry.NAMES, "summarize", "dialogue"} == set(registry.values())
    assert registry.ANY in VERBS and registry.ANY not in OF_TASKS
