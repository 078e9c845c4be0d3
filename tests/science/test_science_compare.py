"""``compare``: equal terms for all models, one training each in a process, and advice that follows from the rows."""

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

import headway
from headway.errors import InputError, RunFailed
from headway.reports.comparison import write_comparison
from headway.science import compare as comparing
from headway.science.compare import HELD_OUT, advice, compare
from headway.science.comparison import Comparison, candidates, fitting, remember
from headway.tasks.registry import spec
from headway.training.progress import NoProgress
from headway.workflows.command import peak_until_end, trained, words_of

WORDS = ["river", "stone", "cloud", "green", "quiet", "under", "seven", "house", "window", "letter", "garden"]


def compared(inputs: Path, out: Path, models: Sequence[str] = (), **words: Any) -> dict[str, Any]:
    return compare(Comparison([str(inputs)], list(models), **words), out, NoProgress())


@pytest.fixture(scope="module")
def rows_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = random.Random(3)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) for _ in range(120)]
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    path.write_text("\n".join(["text,label", *(f"{text},{'ab'['river' in text]}" for text in texts)]))
    return path


@pytest.fixture(scope="module")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = random.Random(4)
    path = tmp_path_factory.mktemp("text") / "notes.txt"
    path.write_text("\n".join(" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) for _ in range(300)))
    return path


def test_all_have_the_same_terms(rows_file: Path, tmp_path: Path, in_this_process: list[dict[str, Any]]):
    comparison = Comparison([str(rows_file)], ["transformer", "lstm"], time="60s", trials=2, seeds=3, seed=5)
    found = compare(comparison, tmp_path / "out", NoProgress())
    assert comparison.share == 15.0
    assert len(in_this_process) == 2 * (2 + 3 - 1)
    for number, options in enumerate(in_this_process):
        assert options["time"] == "15.000s" and options["split_seed"] == "5"
        assert options["seed"] == ["5", "5", "6", "7"][number % 4]
        assert ("learning_rate" in options) is (number % 4 == 1) or number % 4 > 1
    assert [row["model"] for row in found["rows"]] == ["transformer", "lstm"]
    assert found["metric"] == "accuracy" and found["advice"]
    for row in found["rows"]:
        assert len(row["values"]) == len(row["metrics"]) == len(row["curves"]) == 3 and len(row["trials"]) == 2
        assert row["mean"] == pytest.approx(statistics.mean(row["values"]))
        low, high = row["interval"]
        assert low <= row["mean"] <= high
        best = max(trial["accuracy"] for trial in row["trials"])
        assert row["values"][0] == best, "the best trial is the first seed"
        assert row["memory_mb"] == 123 and row["latency_ms"] > 0 and row["throughput"] > 0
        assert [at["length"] for at in row["lengths"]] == [8, 16]
    assert json.loads((tmp_path / "out" / "compare.json").read_text())["rows"][1]["model"] == "lstm"
    write_comparison(found, tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {f"{name}.{kind}" for name in ("quality", "curves", "speed", "lengths") for kind in ("png", "svg")} <= names
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<svg") == 4 and "lstm" in page
    assert "http" not in page.replace("http://www.w3.org", "").replace("http-equiv", "")


@pytest.mark.parametrize("match", ["parameters", "tokens", "time"])
def test_what_is_matched_is_equal(match: str, text_file: Path, tmp_path: Path, in_this_process: list[dict[str, Any]]):
    found = compared(text_file, tmp_path / "out", ["transformer", "gru"], match=match, options={"length": 16})
    first, second = found["rows"]
    assert second["parameters"] == pytest.approx(first["parameters"], rel=0.1)
    if match == "tokens":
        assert in_this_process[1]["steps"] == str(first["steps"]) and "time" not in in_this_process[1]
        assert second["size"]["dropout"] == first["size"]["dropout"]
        assert second["size"]["evaluations"] == first["size"]["evaluations"]
        assert second["tokens"] == first["tokens"]
    assert first["metric"] == "bits_per_byte" and first["mean"] > 0


def test_parts_differ_in_nothing_else(text_file: Path, tmp_path: Path, in_this_process: list[dict[str, Any]]):
    found = compared(text_file, tmp_path / "out", vary="positions", options={"length": 8})
    rows = {row["model"]: row for row in found["rows"]}
    assert list(rows) == ["rotary", "learned", "sinusoidal", "alibi", "relative", "none"] == [*rows]
    assert found["match"] == "tokens" and found["vary"] == "positions"
    for name, row in rows.items():
        assert row["steps"] == rows["rotary"]["steps"] and row["tokens"] == rows["rotary"]["tokens"]
        assert {**row["size"]} == {**rows["rotary"]["size"]}
        assert [one["loss"] is not None for one in row["longer"]] == [True, name != "learned", name != "learned"]
    assert in_this_process[1]["config_overrides"] == "positions=learned"
    assert {one["products"] for one in in_this_process[1:]} == {rows["rotary"]["size"]["products"]}
    write_comparison(found, tmp_path / "out")
    assert (tmp_path / "out" / "longer.png").exists()


def test_heads_are_varied_at_one_width(rows_file: Path, tmp_path: Path, in_this_process: list[dict[str, Any]]):
    found = compared(rows_file, tmp_path / "out", vary="heads", match="time")
    assert [row["size"]["n_heads"] for row in found["rows"]] == [1, 2, 4, 8]
    assert len({row["parameters"] for row in found["rows"]}) == 1
    assert all("time" in options for options in in_this_process)


def test_masked_models_are_compared_by_their_loss(
    text_file: Path, tmp_path: Path, in_this_process: list[dict[str, Any]]
):
    options = {"task": "masked_lm", "length": 16, "tokenizer": "word"}
    found = compared(text_file, tmp_path / "out", vary="heads", options=options)
    assert found["task"] == "masked_lm" and found["metric"] == "val_loss" and found["advice"]
    assert [row["size"]["n_heads"] for row in found["rows"]] == [1, 2, 4, 8]
    assert all(row["mean"] > 0 and row["throughput"] > 0 and "longer" not in row for row in found["rows"])
    write_comparison(found, tmp_path / "out")
    assert "validation loss (lower is better)" in (tmp_path / "out" / "quality.svg").read_text()


@pytest.mark.parametrize("kind", ["pairs", "images"])
def test_vectors_and_images_are_compared_by_accuracy(kind: str, tmp_path: Path, in_this_process: list[dict[str, Any]]):
    draw = random.Random(5)
    if kind == "pairs":
        file, options = tmp_path / "pairs.csv", {"task": "embedding", "length": 16}
        lines = [" ".join(draw.choices(WORDS, k=5)) for _ in range(120)]
        file.write_text("\n".join(["first,second", *(f"{line},{' '.join(line.split()[::-1])}" for line in lines)]))
    else:
        file, options = tmp_path / "images.npz", {"task": "image_classification"}
        images = np.random.default_rng(0).integers(0, 256, (60, 8, 8, 3), dtype=np.uint8)
        np.savez(file, images=images, labels=np.array(["dark", "light"] * 30))
    found = compared(file, tmp_path / "out", vary="heads", options=options)
    assert found["metric"] == "accuracy" and len(found["rows"]) == 4
    assert all(0 <= row["mean"] <= 1 and row["throughput"] > 0 for row in found["rows"])
    write_comparison(found, tmp_path / "out")
    assert (tmp_path / "out" / "report.html").exists()


def test_recall_makes_its_own_text(tmp_path: Path, in_this_process: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headway.science.comparison.recall_text", lambda seed: "=a123?a=b99999?b" * 500)
    monkeypatch.setattr("headway.science.comparison.WINDOW", 20)
    monkeypatch.setattr("headway.science.long_texts.SEQUENCES", 8)
    comparison = Comparison([], ["transformer", "gru"], recall=True)
    found = compare(comparison, tmp_path / "out", NoProgress())
    for row in found["rows"]:
        assert [one["distance"] for one in row["recall"]][:2] == [8, 16]
        assert all(0 <= one["accuracy"] <= 1 for one in row["recall"])
    write_comparison(found, tmp_path / "out")
    assert (tmp_path / "out" / "recall.svg").exists()
    again = compare(comparison, tmp_path / "out", NoProgress())
    assert [row["values"] for row in again["rows"]] == [row["values"] for row in found["rows"]]
    with pytest.raises(InputError, match=r"leave out notes\.txt"):
        compare(Comparison(["notes.txt"], ["transformer", "gru"], recall=True), tmp_path / "other", NoProgress())


def test_the_test_file_is_measured_and_nothing_chosen_by_it(
    rows_file: Path, tmp_path: Path, in_this_process: list[dict[str, Any]]
):
    other = tmp_path / "test.csv"
    other.write_text("text,label\nriver stone,b\nhouse,a\nseven,a\nriver,b\ngarden letter,a\n")
    comparison = Comparison([str(rows_file)], ["bow", "cnn"], test=str(other))
    found = compare(comparison, tmp_path / "out", NoProgress())
    assert found["measured_on"] == str(other)
    for row in found["rows"]:
        assert row["values"][0] * 5 == pytest.approx(round(row["values"][0] * 5))
        assert all(str(other) not in map(str, options.values()) for options in in_this_process)


def test_a_model_that_fails_is_a_row(rows_file: Path, tmp_path: Path, in_this_process: Any, monkeypatch: Any):
    honest = comparing.trained

    def failing(words: list[str], *rest: Any) -> Any:
        if "lstm" in words:
            raise RunFailed("out of memory")
        return honest(words, *rest)

    monkeypatch.setattr(comparing, "trained", failing)
    found = compared(rows_file, tmp_path / "out", ["lstm", "bow"])
    assert found["rows"][0] == {"model": "lstm", "failed": "out of memory"} and found["rows"][1]["mean"] > 0
    assert found["advice"][0] == "lstm is left out: out of memory."


def test_a_comparison_of_which_all_or_the_first_fail_fails(rows_file: Path, tmp_path: Path, monkeypatch: Any):
    monkeypatch.setattr(comparing, "trained", Mock(side_effect=RunFailed("out of memory")))
    first = "which the others are matched to, failed: out of memory"
    for words, said in (
        ({"models": ["lstm", "bow"]}, "no model could be trained; lstm: out of memory"),
        ({"models": ["transformer", "lstm"], "match": "parameters"}, first),
        ({"vary": "ffn"}, first),
    ):
        with pytest.raises(RunFailed, match=said):
            compared(rows_file, tmp_path / said[:5] / words.get("vary", "models"), **words)


def test_what_cannot_be_is_said_before_anything_is_trained(rows_file: Path, text_file: Path, tmp_path: Path):
    def refused(said: str, inputs: Path, **words: Any) -> None:
        with pytest.raises(InputError, match=said):
            compared(inputs, tmp_path / "out", **words)
        assert not (tmp_path / "out").exists()

    refused("--model cnn is not for language_modeling", text_file, models=["transformer", "cnn"])
    refused("--seed is -1", rows_file, models=["lstm", "bow"], seed=-1)
    refused("no-such.csv", rows_file, models=["lstm", "bow"], test=str(tmp_path / "no-such.csv"))
    other = tmp_path / "other.csv"
    other.write_text("words,label\nriver stone,a\n")
    refused("text", rows_file, models=["lstm", "bow"], test=str(other))


def test_a_pretrained_model_keeps_its_tokenizer_and_reads_as_many_tokens():
    comparison = Comparison(["x.csv"], ["transformer", "a/b"], match="tokens", options={"tokenizer": "bpe"})
    size = {"batch_tokens": 512, "d_model": 16, "products": "torch"}
    own = comparison.options_of(candidates(["transformer", "a/b"])[1], {"steps": 7, "size": size})
    assert own["steps"] == 7 and own["time"] is None and own["batch_tokens"] == 512 and "tokenizer" not in own
    with pytest.raises(RunFailed, match="no number of tokens to match"):
        comparison.options_of(candidates(["transformer", "a/b"])[0], {"steps": 0, "size": size})


def test_threads_reach_the_trainings(rows_file: Path, tmp_path: Path, in_process: Callable, monkeypatch: Any):
    asked: list[Any] = []

    def noted(comparison: Comparison, *_: Any) -> Any:
        asked.append(comparison.options)
        raise InputError("enough")

    monkeypatch.setattr(comparing, "compare", noted)
    threads = torch.get_num_threads()
    try:
        assert in_process("compare", rows_file, "--models", "bow,cnn", "--threads", "1", "--out", tmp_path)[0] == 2
        assert asked == [{"threads": 1}] and torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)


def test_the_real_command_is_run_and_its_memory_known(rows_file: Path, tmp_path: Path):
    said: list[str] = []
    words = words_of([rows_file], {"steps": 2, "d_model": 16, "model": "bow", "batch_tokens": 64, "time": None})
    peak = trained(words, tmp_path / "run", said.append)
    assert peak is None or 50e6 < peak < 8e9
    assert headway.load(tmp_path / "run").model.config.kind == "bow"
    with pytest.raises(RunFailed, match="holds a run with other options"):
        trained([*words, "--seed", "3"], tmp_path / "run", said.append)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_comparison_that_is_stopped_stops_what_it_trains(rows_file: Path, tmp_path: Path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "headway", "compare", str(rows_file), "--models", "lstm,cnn", "--time", "10m"]
    asked = subprocess.Popen([*command, "--out", str(out)], stderr=subprocess.PIPE, text=True)
    log = out / "runs" / "lstm" / "trial-0" / "log.jsonl"
    until = time.monotonic() + 60
    while not (log.exists() and '"event": "step"' in log.read_text()) and time.monotonic() < until:
        time.sleep(0.1)
    asked.terminate()
    said = asked.communicate(timeout=60)[1].splitlines()[-1]
    assert said == f"headway: stopped; run the same command again to resume the comparison in {out}"
    assert asked.returncode == 130
    steps = log.read_text()
    time.sleep(1)
    assert log.read_text() == steps, "nothing trains on unseen"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_the_memory_is_that_of_the_training_alone():
    mine = b"x" * 600_000_000
    code = "import time; held = b'x' * 90_000_000; time.sleep(0.5)"
    peak = peak_until_end(subprocess.Popen([sys.executable, "-c", code]))
    assert peak is not None and 90e6 < peak < 200e6 < len(mine)


def test_a_comparison_goes_on_with_its_own_words_alone(rows_file: Path, tmp_path: Path, in_this_process: Any):
    words = ([str(rows_file)], ["bow", "cnn"])
    remember(Comparison(*words), tmp_path / "out")
    remember(Comparison(*words), tmp_path / "out")
    with pytest.raises(InputError, match="comparison with other seed, time"):
        compare(Comparison(*words, seed=1, time="1m"), tmp_path / "out", NoProgress())
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("keep")
    with pytest.raises(InputError, match="holds other files and no comparison"):
        compare(Comparison(*words), tmp_path / "other", NoProgress())


@pytest.mark.parametrize(
    ("models", "said"),
    [
        (["lstm"], "two models or more"),
        (["lstm", "lstm"], "each named once"),
        (["lstm", "sru"], "there is no model 'sru'"),
        (["bow", "headway"], "there is no model 'headway'"),
    ],
)
def test_models_that_cannot_be_compared(models: list[str], said: str):
    with pytest.raises(InputError, match=said):
        candidates(models)


@pytest.mark.parametrize("task", ["regression", "masked_lm"])
def test_a_task_with_transformers_alone_names_what_it_has_not(task: str):
    transformer, bow = candidates(["transformer", "bow"])
    assert fitting(transformer, spec(task)).options == {}
    with pytest.raises(InputError, match=f"{task} has no model bow"):
        fitting(bow, spec(task))
    assert (fitting(transformer, spec("classification")), fitting(bow, spec("classification"))) == (transformer, bow)


def test_terms_that_cannot_be_kept():
    for changes, said in (
        ({"match": "speed"}, "time, parameters, tokens"),
        ({"trials": 0}, "from 1 to 7"),
        ({"time": "5x"}, "--time is '5x'"),
        ({"seeds": 0}, "1 or more"),
        ({"vary": "ffn"}, "either --models, or --vary"),
        ({"models": []}, "either --models, or --vary"),
        ({"inputs": []}, "expected an input, or --recall"),
        ({"inputs": [], "recall": True, "test": "x.csv"}, "leave out --test"),
        ({"inputs": [], "recall": True, "options": {"length": 9}}, "leave out --length"),
        ({"inputs": [], "recall": True, "models": ["transformer", "bow"]}, "of running text .*, not bow"),
        ({"models": [], "vary": "norm", "match": "parameters"}, "compares models of equal sizes"),
        ({"match": "parameters", "models": ["lstm", "transformer"]}, "name a Transformer first"),
        ({"match": "parameters", "models": ["transformer", "decoder"]}, "baselines to transformer, but not decoder"),
    ):
        with pytest.raises(InputError, match=said):
            Comparison(**{"inputs": ["any"], "models": ["transformer", "lstm"], **changes})  # type: ignore[arg-type]


def row(model: str, mean: float, behind: list[float] | None = None, **more: Any) -> dict[str, Any]:
    usual = {"throughput": 100.0, "parameters": 1000, "memory_mb": 500.0, "lengths": [], "interval": [0.1, 0.95]}
    usual |= {"optimizer": "adamw", "precision": "float32", "pretrained": False, "behind": 0.02}
    return {"model": model, "mean": mean, "behind_interval": behind, **usual, **more}


def told(*rows: dict[str, Any], better: int = 1, **more: Any) -> str:
    usual = {"metric": "accuracy", "seeds": 3, "trials": 2, "measured_on": "test.csv"}
    return " ".join(advice({"rows": list(rows), **usual, **more}, better=better))


def test_a_model_is_advised_where_the_paired_intervals_exclude_zero():
    apart = told(row("a", 0.9), row("b", 0.88, [0.01, 0.03]))
    assert apart.startswith(
        "Take a: its accuracy is the best, 0.9, 95 % interval 0.1 to 0.95, better than b (0.88, behind by 0.02, 95 % "
        "interval 0.01 to 0.03)."
    )
    assert told(row("a", 0.9, [0.01, 0.03]), row("b", 0.88), better=-1).startswith("Take b")
    equal = told(
        row("a", 0.9), row("b", 0.88, [-0.01, 0.05], throughput=900.0, parameters=7), row("c", 0.5, [0.2, 0.3])
    )
    assert equal.startswith("a has the best accuracy, 0.9") and "Take" not in equal and "c (" not in equal
    assert (
        "may be as good, since the interval includes 0: b (0.88, behind by 0.02, 95 % interval -0.01 to 0.05)" in equal
    )
    assert "b is the fastest (900 per second), b is the smallest (7 parameters)" in equal


def test_without_a_paired_test_no_model_is_advised():
    said = told(row("a", 0.9), row("b", 0.5))
    assert said.startswith("a has the best accuracy, 0.9")
    assert "b: there is no paired test of accuracy against a" in said and "Take" not in said and "as good" not in said


def test_advice_on_speed_memory_lengths_and_what_was_not_done():
    slow, quick = row("a", 0.9), row("b", 0.7, throughput=500.0, memory_mb=100.0)
    said = told(slow, quick, seeds=1, trials=1)
    assert "b answers 5.0 times as many" in said and "took 500 MB at its peak, b 100 MB" in said
    assert "see --seeds" in said and "see --trials" in said
    assert "chosen by the held-out part" in told(slow, quick, measured_on=HELD_OUT)
    unknown = [{**one, "memory_mb": None} for one in (slow, quick)]
    assert "peak" not in told(*unknown) and "peak" not in told(slow, unknown[1]) + told(unknown[0], quick)
    grown = [{"length": 16, "microseconds": 1.0}, {"length": 64, "microseconds": 4.0}]
    assert "64 tokens against 16" in told(row("a", 0.9, lengths=grown), row("b", 0.1, lengths=grown))
    read = [{"length": 8, "loss": 2.0}, {"length": 16, "loss": 1.9}, {"length": 32, "loss": 2.5}]
    stuck = [*read[:2], {"length": 32, "loss": None}]
    assert "in training: a +25.0% loss, b cannot." in told(row("a", 0.9, longer=read), row("b", 0.1, longer=stuck))
    assert "windows" not in told(row("a", 0.9, longer=[{"length": 8, "loss": None}] * 3))
    far = [{"distance": 8, "accuracy": 1.0}, {"distance": 512, "accuracy": 0.06}]
    assert "a 100% at 8 tokens and 6% at 512." in told(row("a", 0.9, recall=far))
    alone = told(row("a", 0.9, interval=None, precision="bfloat16", optimizer="muon", pretrained=True))
    assert alone == (
        "Take a: its accuracy is the best, 0.9. Trained with muon in bfloat16 (a). a keeps its recipe of fine-tuning."
    )
