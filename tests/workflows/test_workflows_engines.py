"""What each engine gives: measured on the run's held-out data, stored in the run, and taken by "auto"."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import headway
from headway.errors import InputError
from headway.formats import registry
from headway.formats.exports import place_of
from headway.tasks.registry import task_named
from headway.workflows.engines import _compared, best, engines, is_same, speed_of, stored
from headway.workflows.evaluate import given_for
from headway.workflows.export import export
from headway.workflows.verify.verify import check_engines


@pytest.fixture(scope="module")
def run(classifier_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier with its export."""
    place = shutil.copytree(classifier_run, tmp_path_factory.mktemp("engines") / "run")
    assert export(place, place_of(place, "onnx"), to="onnx").made
    return place


@pytest.fixture(scope="module")
def measured(run: Path) -> list[dict]:
    return engines(str(run), limit=6.0)


def made(engine: str, each: tuple[float, float], equal: int = 50, precision: str = "float32", **more: object) -> dict:
    per_second = [{"batch": batch, "per_second": speed} for batch, speed in zip((1, 32), each, strict=True)]
    row = {"engine": engine, "precision": precision, "speeds": per_second, "compared": 50, "equal": equal}
    return {**row, "cosine": None, "problem": None, **more}


TORCH = {"few": "torch", "many": "torch"}
FAST, SLOW = made("torch", (100, 200)), made("torch", (100, 200), 48, "int8")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([FAST], ("torch", "torch")),
        ([FAST, made("onnxruntime", (150, 230))], ("onnxruntime", "onnxruntime")),
        ([FAST, made("onnxruntime", (150, 210))], ("onnxruntime", "torch")),  # hardly faster for 32 at once
        ([FAST, made("onnxruntime", (150, 230)), made("openvino", (140, 290))], ("onnxruntime", "openvino")),
        ([FAST, made("onnxruntime", (300, 180))], ("onnxruntime", "torch")),  # slower than torch for 32 at once
        ([FAST, made("onnxruntime", (101, 201))], ("torch", "torch")),  # as fast, but for noise
        ([FAST, made("onnxruntime", (300, 300), 49)], ("torch", "torch")),  # one answer differs
        ([FAST, made("onnxruntime", (300, 300), compared=0, equal=0)], ("torch", "torch")),  # nothing was compared
        ([FAST, made("onnxruntime", (1, 1), speeds=[], problem="it is damaged")], ("torch", "torch")),
        ([FAST, made("onnxruntime", (300, 300), batch_difference=9e-5)], ("onnxruntime", "onnxruntime")),
        ([FAST, made("onnxruntime", (300, 300), batch_difference=2e-4)], ("torch", "torch")),  # by its neighbours
    ],
)
def test_auto_takes_the_fastest_with_the_same_answers(found: list[dict], expected: tuple[str, str]):
    assert best(found) == {"float32": {"few": expected[0], "many": expected[1]}}


def test_in_a_lower_precision_as_many_answers_as_by_torch_must_be_equal():
    for equal, expected in ((48, "llama.cpp"), (47, "torch")):
        found = best([FAST, SLOW, made("llama.cpp", (150, 300), equal, "int8")])
        assert found == {"float32": TORCH, "int8": {"few": expected, "many": expected}}


def test_in_a_lower_precision_one_engine_answers_few_and_many():
    """Two round differently: an answer would depend on how many are asked for together."""
    few, both = made("onnxruntime", (900, 150), precision="int8"), made("llama.cpp", (150, 300), precision="int8")
    assert best([FAST, SLOW, few])["int8"] == TORCH
    assert best([FAST, SLOW, few, both])["int8"] == {"few": "llama.cpp", "many": "llama.cpp"}


def test_verify_and_bench_find_an_engine_whose_answers_depend_on_each_other(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    place = shutil.copytree(run, tmp_path / "copy")
    assert export(place, place_of(place, "onnx", "int8"), to="onnx", precision="int8").made
    check = check_engines(place)
    assert check.passed and check.value <= check.bound == 1e-4
    monkeypatch.setattr("headway.runtime.runtime._alone", lambda engine: False)
    check = check_engines(place)
    assert check.passed is False and "int8" in check.what
    rows = [row for row in engines(str(place), limit=2.0) if row["engine"] != "torch"]
    for row in rows:
        assert (row["batch_difference"] > 1e-4) is (row["precision"] == "int8"), row
        assert row["precision"] == "float32" or not is_same(row, {**row, "equal": 0})


def test_vectors_are_compared_by_their_cosine():
    draw = np.random.default_rng(1)
    vectors = list(draw.normal(size=(7, 11)))
    near, far = [one + 1e-3 * draw.normal(size=11) for one in vectors], [one[::-1] for one in vectors]
    assert _compared(vectors, vectors) == pytest.approx({"compared": 7, "equal": 7, "cosine": 1.0})
    assert _compared([*near[:6], far[6]], vectors)["equal"] == 6 and _compared(far, vectors)["cosine"] < 0.9


def test_each_engine_is_measured_beside_torch(measured: list[dict], run: Path):
    assert [row["engine"] for row in measured] == ["torch", "onnxruntime", "openvino"]
    for row in measured:
        assert row["problem"] is None and row["equal"] == row["compared"] >= 20 and row["precision"] == "float32"
        assert [speed["batch"] for speed in row["speeds"]] == [1, 32]
        assert all(speed["per_second"] > 0 for speed in row["speeds"])


def ahead(measured: list[dict]) -> list[dict]:
    """What was measured, as if ONNX Runtime was the fastest."""
    slow = [row for row in measured if row["engine"] == "torch"]
    fast = [{**row, "speeds": made("", (1e6, 1e6))["speeds"]} for row in measured if row["engine"] == "onnxruntime"]
    return [*slow, *fast]


def test_what_was_measured_is_stored_and_taken(measured: list[dict], run: Path, recwarn: pytest.WarningsRecorder):
    stored(run, ahead(measured))
    assert json.loads((run / "headway.json").read_text())["engines"]["best"] == {
        "float32": {"few": "onnxruntime", "many": "onnxruntime"}
    }
    pipe = headway.load(run, engine="auto")
    assert pipe.runtime.engine is not None and pipe.runtime.engine.name == "onnxruntime"
    assert headway.load(run).runtime.engine is None, "the default is torch"
    said = speed_of(str(run), pipe.runtime.few, None)
    assert said.startswith("few inputs at once: onnxruntime, ") and said.endswith(
        "times as fast as torch when that was measured; many: torch"
    )
    assert not recwarn.list


def test_an_engine_that_is_not_there_any_more_gives_way_to_torch(run: Path, tmp_path: Path, measured: list[dict]):
    place = shutil.copytree(run, tmp_path / "copy")
    stored(place, ahead(measured))
    shutil.rmtree(place / "exports")
    with pytest.warns(UserWarning, match=r"torch answers, since the engine that was measured cannot: .* no export in"):
        pipe = headway.load(place, engine="auto")
    assert pipe.runtime.engine is None and pipe("great cat")["label"]


def test_a_stale_export_is_said_and_not_measured(run: Path, tmp_path: Path, tiny: dict, measured: list[dict]):
    place = shutil.copytree(run, tmp_path / "copy")
    config = json.loads((place / "config.json").read_text())
    facts = json.loads((place / "headway.json").read_text())
    (place / "config.json").write_text(json.dumps(config))  # other bytes: another fingerprint
    facts = {key: value for key, value in facts.items() if key not in ("checksum", "files")}
    (place / "headway.json").write_text(json.dumps(facts))
    found = engines(str(place), limit=2.0)
    assert [row["engine"] for row in found if row["problem"]] == ["onnxruntime", "openvino"]
    assert all("another model" in row["problem"] for row in found[1:]) and best(found) == {"float32": TORCH}


def test_without_an_export_or_a_library_there_is_nothing_to_measure(
    run: Path, classifier_run: Path, monkeypatch: pytest.MonkeyPatch
):
    assert engines(str(classifier_run), limit=1.0) == []
    monkeypatch.setattr(registry, "find_spec", lambda package: None)
    assert engines(str(run), limit=1.0) == []


def test_training_again_forgets_what_was_measured(classifier_run: Path, tmp_path: Path, tiny: dict):
    place = shutil.copytree(classifier_run, tmp_path / "run")
    stored(place, [FAST])
    data = json.loads((place / "headway.json").read_text())["data"]["inputs"]
    headway.train(data, out=place, quiet=True, allow_changes=True, **{**tiny, "steps": 70})
    assert json.loads((place / "headway.json").read_text())["engines"] is None


@pytest.mark.parametrize(
    "wrong",
    [
        5,
        {"best": 3, "measured": []},
        {"best": {}},
        {"best": {"float32": "torch"}, "measured": []},
        {"best": {}, "measured": [{"engine": "torch"}]},
    ],
)
def test_a_damaged_entry_is_named(run: Path, wrong: object, tmp_path: Path):
    facts = json.loads((run / "headway.json").read_text())
    for file in run.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "headway.json").write_text(json.dumps({**facts, "engines": wrong, "checksum": None}))
    with pytest.raises(InputError, match="engines"):
        headway.load(tmp_path)


def test_a_run_without_its_data_says_so(run: Path, tmp_path: Path):
    for file in run.iterdir():
        if file.name not in ("headway.json", "exports", "log.jsonl", "report.html", "checkpoints"):
            (tmp_path / file.name).write_bytes(file.read_bytes())
    shutil.copytree(run / "exports", tmp_path / "exports")
    with pytest.raises(InputError, match="does not record its training data"):
        engines(str(tmp_path), limit=1.0)
    with pytest.raises(InputError, match=r"no headway\.json"):
        stored(tmp_path, [FAST])


PAIRS = "source,target\n" + "\n".join(f"the cat {n} sat,{n} tac eht tas" for n in range(90)) + "\n"
TAGS = "\n".join("\n".join(["anna\tB-PER", "sees\tO", f"town{n}\tB-LOC", ""]) for n in range(90)) + "\n"
DATA = {
    "translation": ("pairs.csv", PAIRS),
    "masked_lm": ("text.txt", "".join(f"the old cat number {n} sat on a mat\n" for n in range(300))),
    "language_modeling": ("text.txt", "".join(f"the old cat number {n} sat on a mat\n" for n in range(300))),
    "embedding": ("pairs.csv", PAIRS),
    "token_classification": ("tags.conll", TAGS),
}


@pytest.mark.parametrize("task", DATA)
def test_every_task_has_held_out_inputs_and_answers_to_compare(task: str, tmp_path: Path, tiny: dict):
    name, content = DATA[task]
    (tmp_path / name).write_text(content)
    headway.train(tmp_path / name, task=task, out=tmp_path / "run", quiet=True, **{**tiny, "steps": 2})
    pipe = headway.load(tmp_path / "run")
    own = task_named(task)
    inputs = own.held_out_inputs(pipe, given_for(tmp_path / "run", pipe), 7)
    assert 0 < len(inputs) <= 7 and all(isinstance(one, str) for one in inputs)
    one, other = own.normalize_answers(pipe, inputs), own.normalize_answers(pipe, inputs)
    assert len(one) == len(inputs) and _compared(one, other)["equal"] == len(inputs)
    assert all(one.split()[0] in content or "[MASK]" in one for one in inputs)


def test_the_command_line_measures_stores_and_answers(
    run: Path, tmp_path: Path, in_process: Callable, measured: list[dict]
):
    place = shutil.copytree(run, tmp_path / "copy")
    status, out, err = in_process("bench", place, "--time", "14s", "--store")
    assert status == 0, err
    assert "answers equal" in out and "onnxruntime  float32" in out and "--engine auto" in out
    known = json.loads((place / "headway.json").read_text())["engines"]
    stored(place, [known["measured"][0], {**known["measured"][1], "speeds": made("", (1e6, 1e6))["speeds"]}])
    given = (place, "great cat", "--precision", "float32")  # the bench may have stored another
    expected = in_process("classify", *given, "--json")[1]
    for verb in ("classify", "predict"):
        for engine in ("onnxruntime", "auto"):
            status, out, err = in_process(verb, *given, "--json", "--engine", engine)
            assert status == 0 and not err, err
            answer, other = (json.loads(each.splitlines()[-1])["results"] for each in (out, expected))
            assert answer[0]["label"] == other[0]["label"]
            assert answer[0]["score"] == pytest.approx(other[0]["score"], abs=1e-5)
    _, _, err = in_process("classify", *given, "--engine", "auto")
    assert "headway: few inputs at once: onnxruntime, " in err and "times as fast as torch when that was" in err
    status, out, err = in_process("classify", place, "great cat", "--engine", "onnx")
    assert status == 2 and not out and "--engine is 'onnx'; it can be auto, torch" in err and err.count("\n") == 1


def test_an_export_lies_in_the_run_where_no_other_place_is_named(
    classifier_run: Path, tmp_path: Path, in_process: Callable
):
    place = shutil.copytree(classifier_run, tmp_path / "copy")
    status, out, err = in_process("export", place, "--to", "onnx", "--precision", "int8", "--json")
    assert status == 0, err
    assert json.loads(out.splitlines()[-1])["out"] == str(place / "exports" / "onnx-int8")
    assert (place / "exports" / "onnx-int8" / "model.onnx").is_file()
    assert headway.load(place, engine="onnxruntime", precision="int8")("great cat")["label"]
    assert headway.evaluate(place)["accuracy"] == headway.evaluate(classifier_run)["accuracy"], "the run is unchanged"
