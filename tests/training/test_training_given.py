"""Options that are given: with any value, also their default; what is recorded of a run is what was done."""

import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from faults_harness import facts_of

import headway
from headway.errors import InputError
from headway.hub.directory import load_model
from headway.training.options import OPTIONS, TrainOptions
from headway.training.store.contents import read_log
from headway.training.store.facts import FILE, LEFT_BY_RUNS
from headway.workflows.train.dry_run import decided

QUICK: dict[str, Any] = {"threads": 1, "precision": "float32", "quiet": True}
SHAPE: dict[str, Any] = {"d_model": 16, "layers": 1, "heads": 2, "length": 24}
SMALL: dict[str, Any] = {**QUICK, **SHAPE, "evaluations": 1}


@pytest.fixture
def stopped(rows: Path, tmp_path: Path, stop_at: Callable) -> Callable[..., Path]:
    """A run of a classifier that was stopped before its fifth step, or another one."""

    def make(at: int = 5, **options: Any) -> Path:
        stop_at(at)
        with pytest.raises(KeyboardInterrupt):
            headway.train(rows, out=tmp_path / "run", **{**QUICK, "log_every": 1, **options})
        stop_at()
        return tmp_path / "run"

    return make


def test_with_changes_allowed_the_number_of_rows_changes(stopped: Callable, rows: Path):
    run = stopped(**SHAPE, steps=8, batch_size=8)
    assert facts_of(run)["plan"]["batch_tokens"] == 8 * 24
    headway.train(rows, out=run, **QUICK, log_every=1, **SHAPE, steps=8, batch_size=2, allow_changes=True)
    plan, options = facts_of(run)["plan"], facts_of(run)["options"]
    assert (plan["batch_size"], plan["batch_tokens"], options["batch_size"]) == (2, 48, 2)
    tokens = [line["tokens"] for line in read_log(run, "step")]
    assert all(0 < after - before <= 48 for before, after in pairwise(tokens[4:]))


def test_what_is_left_out_with_changes_allowed_stays_and_is_recorded(stopped: Callable, rows: Path):
    run = stopped(**SHAPE, steps=8, learning_rate=0.0123, epochs=7, schedule="constant_then_decay", warmup=0.0)
    headway.train(rows, out=run, **QUICK, log_every=1, steps=12, allow_changes=True)
    options, plan = facts_of(run)["options"], facts_of(run)["plan"]
    assert (options["steps"], options["learning_rate"], options["epochs"], options["d_model"]) == (12, 0.0123, 7, 16)
    assert (plan["learning_rate"], plan["epochs"], facts_of(run)["steps"]) == (0.0123, 7, 12)
    assert read_log(run, "changed")[0]["options"] == {"steps": 12}
    assert 0.011 < max(line["learning_rate"] for line in read_log(run, "step")[4:]) < 0.0123
    with pytest.raises(InputError, match=r"--learning-rate 0\.0123 \(now not given\)"):
        headway.train(rows, out=run, **QUICK, **SHAPE, steps=12)


FORMER = {
    **{"accumulate": (3, 1), "warmup": (0.4, 0.02), "keep": ("last", "best"), "patience": (5, 0)},
    **{"max_grad_norm": (0.5, 1.0), "grow_batch": (2, 1)},
}
"""What an option was before, and its default."""


@pytest.mark.thorough
@pytest.mark.parametrize("name", FORMER)
@pytest.mark.parametrize("more", [{"more_steps": 2}, {}], ids=["continued", "resumed"])
def test_an_option_with_its_default_value_is_given(name: str, more: dict[str, int], rows: Path, tmp_path: Path):
    former, default = FORMER[name]
    headway.train(rows, out=tmp_path, **SMALL, steps=3, **{name: former})
    with pytest.raises(InputError, match=rf"--{name.replace('_', '-')} {former} \(now {default}\)"):
        headway.train(rows, out=tmp_path, **SMALL, steps=3, **more, **{name: default})
    headway.train(rows, out=tmp_path, **QUICK, **{**(more or {"steps": 5}), name: default}, allow_changes=True)
    found = facts_of(tmp_path)
    assert found["options"][name] == found["plan"].get(name, default) == default and found["steps"] == 5
    if name == "keep":
        assert found["kept"]["by"] == "best"


def test_the_command_tells_a_default_that_is_given_from_one_that_is_not(
    rows: Path, tmp_path: Path, in_process: Any, tiny_words_but: Callable
):
    train = ("train", rows, "--out", tmp_path, "--quiet")
    in_process.passed(*train, *tiny_words_but(steps=3, accumulate=2))
    in_process.refused(*train, "--more-steps", 2, "--accumulate", 1, said="--accumulate 2 (now 1)")
    in_process.passed(*train, "--more-steps", 2)
    assert facts_of(tmp_path)["options"]["accumulate"] == 2


@pytest.mark.parametrize("other", [{"epochs": 1}, {"steps": 9}, {"time": "9s"}], ids=str)
def test_a_continuation_has_one_bound(other: dict[str, Any], rows: Path, tmp_path: Path):
    headway.train(rows, out=tmp_path, **SMALL, steps=3)
    name = next(iter(other))
    with pytest.raises(InputError, match=f"--more-steps bounds the continuation, --{name} a whole run; leave out"):
        headway.train(rows, out=tmp_path, **QUICK, more_steps=6, **other, allow_changes=True)
    found = headway.train(rows, out=tmp_path, **SMALL, steps=3, more_steps=6)  # as the run has it: nothing changes
    assert found["steps"] == 9 and facts_of(tmp_path)["options"]["epochs"] is None


def test_steps_instead_of_a_time_have_no_epochs_of_its_own(stopped: Callable, rows: Path):
    run = stopped(**SHAPE, time="20s")
    assert facts_of(run)["plan"]["epochs"] == 20 and facts_of(run)["plan"]["patience_passes"] == 4.0
    headway.train(rows, out=run, **QUICK, steps=6, allow_changes=True)
    plan = facts_of(run)["plan"]
    assert (plan["epochs"], plan["patience_passes"], facts_of(run)["options"]["time"]) == (None, 0.0, None)
    assert not [one for one in plan["decisions"] if one["what"] == "passes"], "which was announced for the time"


@pytest.fixture(scope="module")
def encoder(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("bases") / "encoder"
    headway.train(corpus, task="masked_lm", out=place, **SMALL, steps=2)
    return str(place)


@pytest.mark.parametrize("at", [2, 5], ids=["in the first part", "in the second part"])
def test_a_run_that_adapts_goes_on_with_other_options(at: int, encoder: str, stopped: Callable, rows: Path):
    options = {"from_model": encoder, "adapt": True}
    run = stopped(at, **options, steps=3)
    assert ("plan" in facts_of(run)) == (at == 5)
    again = {**QUICK, **options, "steps": 4, "max_grad_norm": 0.5}
    with pytest.raises(InputError, match=r"--steps 3 \(now 4\)"):
        headway.train(rows, out=run, **again)
    found = headway.train(rows, out=run, **again, allow_changes=True)
    assert found["steps"] == 4 and facts_of(run)["plan"]["max_grad_norm"] == 0.5
    assert facts_of(run / "adapted")["steps"] == (4 if at == 2 else 3), "what is complete is left as it is"


def test_a_run_that_adapts_for_a_time_is_resumed_by_the_same_command(encoder: str, stopped: Callable, rows: Path):
    options = {"from_model": encoder, "adapt": True, "time": "8s", "max_grad_norm": 0.5}  # so that there are steps
    run = stopped(2, **options)
    time = facts_of(run / "adapted")["options"]["time"]
    found = headway.train(rows, out=run, **QUICK, **options)
    assert found["steps"] > 0 and facts_of(run / "adapted")["options"]["time"] == time


TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "language_modeling": ("text.txt", {}),
    "masked_lm": ("text.txt", {"task": "masked_lm"}),
    "classification": ("rows.csv", {}),
    "embedding": ("two.csv", {"task": "embedding"}),
    "translation": ("two.csv", {"task": "translation"}),
    "token_classification": ("tags.conll", {}),
    "dialogue": ("talk.jsonl", {}),
    "image_classification": ("images.npz", {}),
}
"""The file of each task, and the options with which it is read."""


@pytest.fixture(scope="module")
def bases(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """A run of a task, with a dropout of 0.4, made when it is first asked for."""
    place = tmp_path_factory.mktemp("bases")

    def made(task: str) -> str:
        if not (place / task).exists():
            file, options = TASKS[task]
            sizes = {"d_model": 16, "layers": 1, "heads": 2, "dropout": 0.4}
            headway.train(files / file, out=place / task, **QUICK, **options, **sizes, steps=1, evaluations=1)
        return str(place / task)

    return made


def plan_of(files: Path, task: str, **options: Any) -> Any:
    file, own = TASKS[task]
    return decided(
        [files / file], TrainOptions(**{"steps": 2, "threads": 1, "precision": "float32", **own, **options})
    ).plan


@pytest.mark.parametrize("task", TASKS)
def test_warm_up_is_as_given(task: str, files: Path, bases: Callable):
    """The usual one is what the help says."""
    usual = 0.05 if task == "image_classification" else 0.02
    for options, by_itself in (({}, usual), ({"from_model": bases(task)}, 0.06)):
        found = [plan_of(files, task, **options, warmup=warmup).warmup for warmup in (0.0, 0.01, 0.02, 0.2, None)]
        assert found == [0.0, 0.01, 0.02, 0.2, by_itself]
    assert "0.02; of images 0.05; with --from 0.06" in OPTIONS["warmup"].metadata["help"]


@pytest.mark.parametrize("task", TASKS)
def test_adam_has_no_weight_decay_unless_it_is_given(task: str, files: Path, bases: Callable):
    for options in ({}, {"from_model": bases(task)}):
        found = [plan_of(files, task, **options, optimizer="adam", weight_decay=decay) for decay in (None, 0.3)]
        assert [plan.weight_decay for plan in found] == [0.0, 0.3]
    if task in ("image_classification", "classification"):
        assert plan_of(files, task, optimizer="adamw").weight_decay == 0.1
    assert "with --optimizer adam an L2 penalty" in OPTIONS["weight_decay"].metadata["help"]


@pytest.mark.parametrize("task", TASKS)
def test_dropout_is_that_of_the_run_it_begins_from(task: str, files: Path, bases: Callable):
    assert plan_of(files, task, from_model=bases(task)).config.dropout == 0.4
    plan = plan_of(files, task, from_model=bases(task), dropout=0.0)
    assert plan.config.dropout == 0.0
    (model,) = (one for one in plan.decisions if one["what"] == "model")
    assert model["value"].endswith("dropout 0") and "--dropout" in model["option"]


@pytest.mark.parametrize("task", ["classification", "token_classification", "image_classification"])
def test_a_head_is_kept_by_the_names_of_its_classes(
    task: str, files: Path, bases: Callable, tmp_path: Path, capsys: pytest.CaptureFixture
):
    """Also where a base, not a run, has them in another order: it answers as before its first step."""
    run, (file, own) = Path(bases(task)), TASKS[task]
    turned = tmp_path / "turned"
    shutil.copytree(run, turned, ignore=lambda *_: [FILE, *LEFT_BY_RUNS, "trained_texts"])
    labels, model = headway.load(run).labels[::-1], load_model(run)
    with torch.no_grad():
        for p in model.head.out.parameters():
            p.copy_(p.flip(0))
    headway.save_model(model, turned)
    config = json.loads((turned / "config.json").read_text())
    named = {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
    (turned / "config.json").write_text(json.dumps({**config, **named}))
    found = {}
    for place in (run, turned):
        out = tmp_path / f"from-{place.name}"
        options = {**own, "threads": 1, "precision": "float32", "steps": 1, "evaluations": 1, "known_to": str(run)}
        headway.train(files / file, out=out, from_model=str(place), **options, learning_rate=1e-9, average=0.0)
        assert f"head: the one of {place}, with its {len(labels)} classes" in capsys.readouterr().err
        found[place] = facts_of(out)
        before = found[place]["baselines"][-1]
        assert before["name"] == "the model before training"
        rows = {label: load_model(out).head.out.weight[i] for i, label in enumerate(found[place]["labels"])}
        known = {label: model.head.out.weight[i] for i, label in enumerate(labels)}
        assert all(torch.allclose(rows[label], known[label], atol=1e-6) for label in labels)
    assert found[turned]["labels"] == labels and found[run]["labels"] == labels[::-1]
    losses = [one["baselines"][-1]["val_loss"] for one in found.values()]
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)


@pytest.mark.parametrize("way", ["frozen", "contrastive"])
def test_a_default_of_an_earlier_version_is_none_that_was_given(way: str):
    """An earlier Headway recorded --warmup 0.02 of every run; a linear classifier has no warmup."""
    record = {way: True, "from_model": "base", "warmup": 0.02, "seed": 3}
    found = TrainOptions.of_record(record)
    assert found.named == {way: True, "from_model": "base", "seed": 3}
    assert TrainOptions.of_record({**record, way: False}).optimisation.warmup == 0.02
    with pytest.raises(InputError, match="--warmup is for training the whole model"):
        TrainOptions(**record)
