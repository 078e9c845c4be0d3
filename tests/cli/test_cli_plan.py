"""``headway train --plan``: what would be, printed; nothing is trained and nothing is left behind."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.cli.plan import quantity
from headway.errors import InputError
from headway.training.hardware import measure
from headway.training.ranks import Ranks

TINY = ("--d-model", 16, "--layers", 2, "--heads", 2, "--length", 32, "--batch-tokens", 256, "--precision", "float32")


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_is_planned_and_nothing_written(corpus: Path, nothing: Path, in_process: Callable):
    out, err = in_process.passed("train", corpus, "--plan", *TINY, "--steps", 20, "--threads", 1)
    assert "model: 15,760 parameters" in out and "(--preset, --d-model, --layers, --heads, --length to change)" in out
    assert "together, of" in out and "training takes" in out
    assert out.splitlines()[-1].endswith(" --batch-tokens 256 --precision float32 --accumulate 1")
    assert "baseline bigram" in err
    assert list(nothing.iterdir()) == []


def test_the_plan_is_that_of_the_run(corpus: Path, lm_run: Path, nothing: Path, in_process: Callable):
    found = in_process.json("train", corpus, "--plan", *TINY, "--steps", 20, "--threads", 1, "--quiet")
    facts = json.loads((lm_run / "headway.json").read_text())
    assert found["parameters"] == facts["parameters"] and found["decisions"] == facts["decisions"]
    assert found["tokens"] == facts["tokens"] and found["layout"]["steps"] == facts["steps"] == 20
    assert found["task"] == "language_modeling" and found["hardware"]["cpu"]
    held = found["layout"]["memory"]
    assert held["weights"] == held["gradients"] == held["best"] == 4 * found["parameters"]


@pytest.mark.parametrize(
    ("task", "more"),
    [
        *(("classification", ()), ("classification", ("--layout", "bert")), ("masked_lm", ()), ("translation", ())),
        ("classification", ("--config-overrides", "gated=false")),
    ],
)
def test_other_tasks_are_planned(
    task: str, more: tuple[str, ...], rows: Path, corpus: Path, nothing: Path, in_process: Callable
):
    """The number of parameters that is announced is that of the model, its head included."""
    pairs = nothing / "pairs.tsv"
    pairs.write_text("source\ttarget\n" + "".join(f"the old cat {i}\tred dogs ran {i}\n" for i in range(60)))
    file = {"classification": rows, "masked_lm": corpus, "translation": pairs}[task]
    wide = (*more, "--d-model", 16, "--layers", 2, "--steps", 3, "--threads", 1, "--json", "--quiet")
    found = in_process.json("train", file, "--task", task, *wide, "--plan", "--gpus", 2)
    assert found["task"] == task and found["parameters"] > 0 and found["layout"]["memory"]["total"] > 0
    assert [path.name for path in nothing.iterdir()] == ["pairs.tsv"]
    said = [one["value"] for one in found["decisions"] if one["what"] == "model"]
    assert [value.partition(":")[0] for value in said] == [f"{found['parameters']:,} parameters"]


@pytest.mark.parametrize("more", [(), ("--model", "cnn"), ("--model", "bow")])
def test_a_run_announces_the_parameters_that_it_has(more: tuple[str, ...], rows: Path, nothing: Path, in_process):
    given = ("--d-model", 16, "--steps", 2, "--threads", 1, "--json", "--out", nothing / "run")
    status, out, err = in_process("train", rows, *more, *given)
    assert status == 0 and f"model: {json.loads(out.splitlines()[-1])['parameters']:,} parameters: " in err, err


def test_a_pretrained_model_is_planned_unless_it_is_fitted_at_once(
    corpus: Path, lm_run: Path, rows: Path, classifier_run: Path, nothing: Path, in_process: Callable
):
    words = ("--lora", 2, "--steps", 3, "--threads", 1, "--quiet", "--plan")
    held = in_process.json("train", corpus, "--from", lm_run, *words)["layout"]["memory"]
    assert 0 < held["gradients"] < held["weights"] and held["optimizer"] == 2 * held["gradients"]
    in_process.refused("train", rows, "--from", classifier_run, "--frozen", "--plan", "--quiet", said="--frozen")
    assert list(nothing.iterdir()) == []


def test_a_model_without_data(nothing: Path, in_process: Callable):
    words = ("--parameters", "1B", "--tokens", "20B", "--gpus", 16, "--gpu-memory", "24G", "--gpu-flops", "165T")
    out, _ = in_process.passed("train", "--plan", *words)
    assert out.startswith("1,024,180,416 parameters: 1,728 wide, 27 layers") and "on 16 GPUs: bfloat16" in out
    command = out.splitlines()[-1]
    assert command.startswith("torchrun --nnodes 2 ") and " --nproc_per_node 8 -m headway train FILE " in command
    assert "--d-model 1728 --layers 27 --heads 27" in command and "--shard" in command
    assert list(nothing.iterdir()) == []
    found = in_process.json("train", "--plan", *words)
    assert found["hardware"]["processes"] == 16 and found["hardware"]["memory"] == 24e9 and found["tokens"] == 20e9
    assert found["layout"]["sharded"] and found["layout"]["tokens_per_second"] > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--plan"], "INPUT"),
        (["--plan", "--parameters", "many"], "--parameters is 'many'; write it as 1B."),
        (["--plan", "--parameters", "-3"], "--parameters is '-3'"),
        (["--plan", "--parameters", "1B", "--tokens", "0"], "--tokens is '0'; write it as 20B."),
        (["--plan", "--parameters", "1B", "--gpu-memory", "80X"], "--gpu-memory is '80X'; write it as 80G."),
        (["--plan", "--parameters", "1B", "--gpu-flops", ""], "--gpu-flops is ''; write it as 989T."),
        (["--plan", "--parameters", "1B", "--gpus", "0"], "--gpus is 0; it must be 1 or more"),
        (["--plan", "--parameters", "1B", "--gpu-share", "40"], "--gpu-share is 40.0; it must be above 0"),
        (["--plan", "--parameters", "1B", "--gpus", "2.5"], "2.5"),
        (["--plan", "--parameters", "8B", "--gpus", "1"], "--gpus 4 would be enough"),
        (["--plan", "--parameters", "1B", "--task", "classification"], "--task needs data"),
        (["--plan", "--parameters", "1B", "--heads", "5"], "no model can be made"),
        (["--plan", "nowhere.txt"], "nowhere.txt"),
        (["--plan", "notes.txt", "--parameters", "1B"], "--parameters is for planning without a file"),
        (["--parameters", "1B"], "--parameters is for --plan"),
        (["notes.txt", "--gpus", "8"], "--gpus is for --plan"),
    ],
)
def test_what_is_wrong_is_said_once(words: list[str], said: str, nothing: Path, in_process: Callable):
    (nothing / "notes.txt").write_text("the cat sat on a mat\n" * 101)
    status, out, err = in_process("train", *words)
    assert status == 2 and out == "" and "Traceback" not in err
    assert said in err and err.count("headway: ") <= 1
    assert [path.name for path in nothing.iterdir()] == ["notes.txt"]


def test_quantities():
    found = [quantity(text, "tokens") for text in ("20B", "1.5g", "80 G", "2e9", "7", "3K", "989T", "100M")]
    assert found == [20e9, 1.5e9, 80e9, 2e9, 7, 3e3, 989e12, 1e8]
    for text in ("", "B", "1e99", "0", "1BB", "-1", "nan", "inf"):
        with pytest.raises(InputError, match="--tokens is"):
            quantity(text, "tokens")


SAME_TOKENS = {
    "in one batch": ("--steps", 60, "--batch-tokens", 512),
    "accumulated": ("--steps", 60, "--batch-tokens", 128, "--accumulate", 4),
    "in more steps": ("--steps", 240, "--batch-tokens", 128),
    "growing": ("--steps", 40, "--batch-tokens", 128, "--accumulate", 2, "--grow-batch", 5),
}


@pytest.mark.parametrize("task", ["language_modeling", "masked_lm", "conversations", "translation"])
def test_the_tokens_that_are_seen_decide_the_regularisation(task: str, corpus: Path, nothing: Path, in_process):
    lines = [f"the old cat {i} sat on a mat" for i in range(60)]
    (nothing / "pairs.tsv").write_text("source\ttarget\n" + "".join(f"{one}\t{one} too\n" for one in lines))
    talks = [[{"role": "user", "content": one}, {"role": "assistant", "content": f"{one} too"}] for one in lines]
    (nothing / "talks.jsonl").write_text("".join(json.dumps({"messages": talk}) + "\n" for talk in talks))
    file, named = {"conversations": ("talks.jsonl", ()), "translation": ("pairs.tsv", ("--task", "translation"))}.get(
        task, (corpus, ("--task", task))
    )
    found = {}
    for name, words in SAME_TOKENS.items():
        given = ("--length", 32, "--layers", 1, "--precision", "float32", "--threads", 1, "--json", "--quiet")
        planned = in_process.json("train", file, *named, *given, *words, "--plan")
        decisions = {one["what"]: (one["value"], one["why"]) for one in planned["decisions"]}
        found[name] = [*(decisions.get(what) for what in ("dropout", "decay")), planned["parameters"]]
    assert all(one == found["in one batch"] for one in found.values()), found


def test_processes_that_train_together_see_as_many_times_the_tokens(
    corpus: Path, nothing: Path, in_process: Callable, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(measure, "gradient_seconds", lambda *_: {1: (measure.STEP_OVER_GRADIENT**-1, 1000.0)})
    monkeypatch.setattr("headway.workflows.train.setup.batch_seconds", lambda *given: 0.0)
    for processes in (1, 4):
        monkeypatch.setattr(Ranks, "joined", lambda count=processes: Ranks(0, count))
        (dropout,) = (
            one
            for one in in_process.json("train", corpus, "--plan", *TINY, "--time", "9s", "--threads", 1)["decisions"]
            if one["what"] == "dropout"
        )
        assert dropout["why"].endswith(f"at {1000 * processes:,} tokens a second")
