"""One seed gives one run, however often it is evaluated; the rules of taking up a run again."""

import math
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import faults_harness
import pytest
from faults_harness import content, facts_of, lines_of

import headway
from headway.errors import InputError
from headway.tasks.losses import Classification, LanguageModeling
from headway.training.loop.trainer import Diverged
from headway.workflows.evaluate import evaluate
from headway.workflows.train import run as session

LIVELY = {name: value for name, value in faults_harness.LIVELY.items() if name not in ("evaluations", "save_every")}


def losses(run: Path, event: str = "step") -> dict[int, str]:
    """Loss by step, to the last bit; of two lines for one step the later."""
    key = "loss" if event == "step" else "val_loss"
    return {line["step"]: float(line[key]).hex() for line in lines_of(run) if line["event"] == event}


def train(data: Path, out: Path, options: dict[str, Any], **more: Any) -> dict[str, Any]:
    return headway.train(data, out=out, quiet=True, **{"log_every": 1, **options, **more})


@pytest.fixture(params=["corpus", "rows"])
def data(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)


def test_two_runs_with_one_seed_are_the_same_to_the_last_bit(data: Path, tmp_path: Path, tiny: dict):
    more = {**LIVELY, "token_dropout": 0.2} if data.suffix == ".csv" else LIVELY
    found = [train(data, tmp_path / name, tiny, **more) for name in ("one", "other")]
    one, other = tmp_path / "one", tmp_path / "other"
    assert len(losses(one)) == 20 and losses(one) == losses(other)
    assert losses(one, "evaluation") == losses(other, "evaluation")
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    changing = dict.fromkeys(("seconds", "out", "tokens_per_second"))
    assert found[0] | changing == found[1] | changing
    train(data, tmp_path / "third", tiny, **{**more, "seed": 4})
    assert losses(one) != losses(tmp_path / "third")


def test_evaluating_often_or_seldom_changes_no_training_loss(data: Path, tmp_path: Path, tiny: dict):
    for evaluations in (1, 20):
        train(data, tmp_path / str(evaluations), tiny, **LIVELY, evaluations=evaluations)
    assert len(losses(tmp_path / "20", "evaluation")) == 20
    assert len(losses(tmp_path / "1", "evaluation")) == 1
    assert losses(tmp_path / "1") == losses(tmp_path / "20")


@pytest.fixture
def untouched(lm_run: Path) -> Iterator[Path]:
    """A finished run that is refused, and left as it is."""
    before = content(lm_run)
    yield lm_run
    assert content(lm_run) == before


def test_a_finished_run_is_left_as_it_is_also_by_a_renamed_file(lm_run: Path, corpus: Path, tmp_path: Path, tiny: dict):
    before = content(lm_run)
    for data in (corpus, shutil.copy(corpus, tmp_path / "renamed.txt")):
        assert train(data, lm_run, tiny)["steps"] == 20
    after = content(lm_run)
    assert {name for name in before if before[name] != after.get(name)} <= {"report.html"}
    assert set(before) == set(after)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 7}, "--seed 0 (now 7)"),
        ({"steps": 23}, "--steps 20 (now 23)"),
        ({"steps": None, "time": "7s"}, "--time not given (now 7s)"),
        ({"d_model": 32, "dropout": 0.1}, "--d-model 16 (now 32), --dropout not given (now 0.1)"),
    ],
)
def test_other_options_are_refused_and_named(change: dict, named: str, untouched: Path, corpus: Path, tiny: dict):
    with pytest.raises(InputError) as raised:
        train(corpus, untouched, tiny, **change)
    assert named in str(raised.value) and "--out" in str(raised.value)


def test_other_data_are_refused(untouched: Path, corpus: Path, rows: Path, tmp_path: Path, tiny: dict):
    other = tmp_path / "corpus.txt"
    other.write_text(corpus.read_text() + "one more line\n")
    for data in (other, rows):
        with pytest.raises(InputError, match="other data"):
            train(data, untouched, tiny)
    with pytest.raises(InputError, match="other validation data"):
        train(corpus, untouched, tiny, validation=other)


def test_a_directory_with_someone_elses_model_is_not_written_over(
    lm_run: Path, corpus: Path, tmp_path: Path, tiny: dict
):
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((lm_run / name).read_bytes())
    before = content(tmp_path)
    with pytest.raises(InputError, match=r"config\.json but no headway\.json"):
        train(corpus, tmp_path, tiny)
    assert content(tmp_path) == before


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"finished": true}'])
def test_a_damaged_record_of_a_run_is_one_message(content: str, corpus: Path, tmp_path: Path, tiny: dict):
    (tmp_path / "headway.json").write_text(content)
    with pytest.raises(InputError, match=r"headway\.json"):
        train(corpus, tmp_path, tiny)
    assert [path.name for path in tmp_path.iterdir()] == ["headway.json"]


def test_two_commands_do_not_train_in_one_directory(corpus: Path, tmp_path: Path, tiny: dict, monkeypatch):
    honest, second = session.newest_checkpoint, []

    def meanwhile(*given: Any) -> Any:
        with pytest.raises(InputError, match="another command is training there") as raised:
            train(corpus, tmp_path, tiny)
        second.append(raised.value)
        return honest(*given)

    monkeypatch.setattr(session, "newest_checkpoint", meanwhile)
    assert train(corpus, tmp_path, tiny)["steps"] == 20 and len(second) == 1
    assert train(corpus, tmp_path, tiny)["steps"] == 20, "afterwards it is free again"


def test_no_time_for_a_single_step_still_leaves_a_working_model(corpus: Path, tmp_path: Path, tiny: dict):
    found = train(corpus, tmp_path / "run", {**tiny, "steps": None}, time="0.1s")
    assert found["val_loss"] > 0
    assert isinstance(headway.load(tmp_path / "run")("the", max_tokens=3), str)


def test_a_time_is_kept_and_taken_up_where_it_was_left(corpus: Path, tmp_path: Path, tiny: dict, stop_at: Callable):
    bounded = {**tiny, "steps": None, "time": "8s"}
    began = time.monotonic()
    whole = train(corpus, tmp_path / "whole", bounded)
    assert time.monotonic() - began < 3 * 8
    assert whole["steps"] > 8
    stop_at(8)
    with pytest.raises(KeyboardInterrupt):
        train(corpus, tmp_path / "stopped", bounded)
    assert train(corpus, tmp_path / "stopped", bounded)["steps"] > 8
    rates = [line["learning_rate"] for line in lines_of(tmp_path / "stopped") if line["event"] == "step"]
    assert rates[-1] < 0.2 * max(rates), "the schedule ends with the time"
    lowest = min(map(float.fromhex, losses(tmp_path / "stopped", "evaluation").values()))
    assert evaluate(tmp_path / "stopped")["val_loss"] == pytest.approx(lowest, abs=1e-6)


def test_patience_ends_a_run_that_no_longer_improves(rows: Path, tmp_path: Path, tiny: dict):
    given = {"steps": 2000, "learning_rate": 1e-9, "evaluations": 1000, "patience": 3}
    assert train(rows, tmp_path, tiny, **given)["steps"] < 100


def test_a_classifier_from_scratch_ends_after_passes_that_bring_nothing(
    rows: Path, tmp_path: Path, tiny: dict, monkeypatch: pytest.MonkeyPatch
):
    worse = count(1)
    honest = Classification.cost
    monkeypatch.setattr(Classification, "cost", lambda task, metrics: honest(task, metrics) + next(worse))
    by_time = {**tiny, "steps": None, "time": "10m", "evaluations": 40}
    train(rows, tmp_path / "free", by_time)
    lines = [line for line in lines_of(tmp_path / "free") if line["event"] == "evaluation"]
    assert [line["best"] for line in lines] == [True] + [False] * (len(lines) - 1)
    steps = [line["step"] for line in lines]
    each = steps[0] / 0.5  # steps of a pass: 40 evaluations in 20 passes
    assert (steps[-1] - steps[0]) / each == pytest.approx(4, abs=0.6), "4 passes after the best, and not 20"
    train(rows, tmp_path / "asked", {**by_time, "epochs": 7})
    plan = facts_of(tmp_path / "asked")["plan"]
    assert plan["epochs"] == 7 and plan["patience_passes"] == 0


def spoiled(monkeypatch: pytest.MonkeyPatch, calls: range, training: bool) -> None:
    """Make the loss not a number at some of its computations, in training or in evaluation."""
    honest, number = LanguageModeling.predicted, count(-1)  # the longest batch is tried first

    def predicted(task: LanguageModeling, model: Any, batch: Any) -> tuple[Any, ...]:
        logits, *others = honest(task, model, batch)
        return logits * math.nan if model.training == training and next(number) in calls else logits, *others

    monkeypatch.setattr(LanguageModeling, "predicted", predicted)


def test_single_steps_that_are_not_finite_are_passed_over_even_at_the_end(
    corpus: Path, tmp_path: Path, tiny: dict, monkeypatch: pytest.MonkeyPatch
):
    spoiled(monkeypatch, range(18, 20), training=True)
    found = train(corpus, tmp_path, tiny)
    assert found["train_loss"] is None and math.isfinite(found["val_loss"])
    assert [line["event"] for line in lines_of(tmp_path)].count("bad step") == 2


def test_a_validation_loss_that_is_no_number_is_never_the_best(corpus: Path, tmp_path: Path, tiny: dict, monkeypatch):
    spoiled(monkeypatch, range(10**6), training=False)
    with pytest.raises(Diverged, match="never finite"):
        train(corpus, tmp_path, tiny)


def test_no_options_make_two_models_of_one_run(corpus: Path, tmp_path: Path, tiny: dict):
    train(corpus, tmp_path, tiny, average=0.9)
    assert headway.load(tmp_path).model.training is False
    facts = facts_of(tmp_path)
    assert facts["finished"] and facts["options"]["average"] == 0.9


def test_without_a_limit_of_time_nothing_is_chosen_by_timing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A timing that chose now one way and now the other made two results of one command on a busy machine."""
    measure = "headway.training.hardware.measure"
    monkeypatch.setattr(f"{measure}.faster", lambda: ("onednn", {"torch": 1.0, "onednn": 2.0}))
    monkeypatch.setattr(f"{measure}.faster_precision", lambda *given: ("bfloat16", {"float32": 1.0, "bfloat16": 2.0}))
    (tmp_path / "a.txt").write_text("the cat sat on the mat\n" * 60)
    tiny = {"d_model": 64, "layers": 1, "heads": 2, "length": 16, "batch_tokens": 64, "threads": 1, "quiet": True}
    for name, options, instructions, chosen in (
        ("none", {"steps": 2}, {}, ["torch", "float32"]),
        ("built in", {"steps": 2}, {"avx512_bf16": True}, ["torch", "bfloat16"]),
        ("asked", {"steps": 2, "products": "onednn", "precision": "bfloat16"}, {}, ["onednn", "bfloat16"]),
        ("time", {"time": "5s"}, {}, ["onednn", "bfloat16"]),
    ):
        monkeypatch.setattr("torch.cpu.get_capabilities", lambda found=instructions: found)
        headway.train(tmp_path / "a.txt", out=tmp_path / name, **tiny, **options)
        facts = facts_of(tmp_path / name)
        assert [facts["plan"]["products"], facts["plan"]["precision"]] == chosen
        said = {one["option"] for one in facts["decisions"] if "nothing is timed" in one["why"]}
        assert said == {"none": {"--products", "--precision"}, "built in": {"--products"}}.get(name, set())
