"""``--model lstm`` and the like: trained, taken up, saved, used and measured as Transformers are."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from faults_harness import lines_of

import headway
from headway.errors import InputError
from headway.models.baselines import BaselineConfig, RecurrentDecoder, RecurrentEncoderDecoder
from headway.training.sizing.architecture import count_baseline, matched
from headway.workflows.verify.check import Check
from headway.workflows.verify.verify import verify

OPTIONS: dict[str, Any] = {
    "d_model": 24,
    "batch_tokens": 256,
    "steps": 30,
    "evaluations": 2,
    "threads": 1,
    "quiet": True,
}
WORDS = ["river", "stone", "cloud", "green", "quiet", "under", "seven", "house", "window", "letter", "garden"]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    draw, folder = random.Random(3), tmp_path_factory.mktemp("inputs")
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) for _ in range(300)]
    found = {name: folder / name for name in ("notes.txt", "rows.csv", "pairs.tsv")}
    found["notes.txt"].write_text("\n".join(texts))
    rows = [f"{text},{'wet' if 'river' in text or 'cloud' in text else 'dry'}" for text in texts]
    found["rows.csv"].write_text("\n".join(["text,label", *rows]))
    found["pairs.tsv"].write_text("\n".join(["en\tde", *(f"{text}\t{text.upper()}" for text in texts)]))
    return found


MODELS = {
    **{f"language model, {kind}": ("notes.txt", kind, {"length": 32}) for kind in ("rnn", "lstm", "gru")},
    **{f"classifier, {kind}": ("rows.csv", kind, {}) for kind in ("rnn", "lstm", "gru", "cnn", "bow")},
    "translator, gru": ("pairs.tsv", "gru", {"task": "translation", "tokenizer": "char"}),
}


@pytest.mark.parametrize("name", MODELS)
def test_each_is_trained_loaded_and_measured_again(name: str, inputs: dict[str, Path], tmp_path: Path):
    path, kind, more = MODELS[name]
    found = headway.train(inputs[path], out=tmp_path / "run", model=kind, **{**OPTIONS, **more})
    first = next(line for line in lines_of(tmp_path / "run") if line["event"] == "evaluation")
    assert found["val_loss"] < first["val_loss"]
    assert headway.evaluate(tmp_path / "run")["val_loss"] == pytest.approx(found["val_loss"], abs=1e-5)
    pipe = headway.load(tmp_path / "run")
    assert pipe.model.config.kind == kind and pipe.model.config.d_model == 24
    assert json.loads((tmp_path / "run" / "config.json").read_text())["model_type"] == f"headway-{kind}"
    if path == "rows.csv":
        assert set(pipe("the river")["scores"]) == {"wet", "dry"}
        assert len(pipe(["the river", "seven stone house"])) == 2
    elif path == "notes.txt":
        text = pipe("river", max_tokens=9, temperature=0.0)
        assert isinstance(text, str) and text == "".join(pipe.stream("river", max_tokens=9, temperature=0.0))
    else:
        assert isinstance(pipe("green stone"), str)


def test_the_number_of_parameters_can_be_chosen(inputs: dict[str, Path], tmp_path: Path):
    options = {**OPTIONS, "steps": 2, "d_model": None, "match_parameters": 20_000}
    for path, kind in (("rows.csv", "lstm"), ("rows.csv", "cnn"), ("notes.txt", "gru")):
        found = headway.train(inputs[path], out=tmp_path / kind, model=kind, **options)
        assert found["parameters"] == pytest.approx(20_000, rel=0.05)
    for more, said in (
        ({"model": "lstm", "d_model": 8}, "both set the width"),
        ({"model": "transformer"}, "is for baselines"),
        ({"model": "lstm", "match_parameters": 0}, "must be 1 or more"),
        ({"model": "bow", "match_parameters": 10**9}, "the nearest size of --model bow on these data is"),
    ):
        with pytest.raises(InputError, match=said):
            headway.train(inputs["rows.csv"], out=tmp_path / "refused", **{**options, **more})


def test_the_size_is_that_of_the_transformer(inputs: dict[str, Path], tmp_path: Path):
    options = {name: value for name, value in OPTIONS.items() if name != "d_model"} | {"steps": 1}
    counts = {}
    for kind in (None, "lstm", "rnn", "cnn"):
        counts[kind] = headway.train(inputs["rows.csv"], out=tmp_path / str(kind), model=kind, **options)["parameters"]
    for kind in ("lstm", "rnn", "cnn"):
        assert counts[kind] == pytest.approx(counts[None], rel=0.02), kind


@pytest.mark.parametrize("wiring", ["encoder", "decoder", "encoder-decoder"])
def test_no_other_width_comes_nearer(wiring: Any):
    classes = 3 if wiring == "encoder" else None
    config = BaselineConfig("gru", vocab_size=101, d_model=2, n_layers=2)
    for wanted in (10_000, 123_457):
        found = matched(config, wiring, wanted, classes)
        own = abs(count_baseline(found, wiring, classes) - wanted)
        for other in (found.d_model - 2, found.d_model + 2):
            assert own <= abs(count_baseline(found.but(d_model=other), wiring, classes) - wanted)


def test_counted_without_being_built():
    config = BaselineConfig("lstm", vocab_size=101, d_model=26, n_layers=2)
    for wiring, made in (("decoder", RecurrentDecoder), ("encoder-decoder", RecurrentEncoderDecoder)):
        assert count_baseline(config, wiring) == sum(p.numel() for p in made(config).parameters())  # type: ignore


@pytest.mark.parametrize(
    ("path", "options", "said"),
    [
        ("notes.txt", {"model": "cnn"}, "--model cnn is not for language_modeling, .* transformer, rnn, lstm, gru"),
        ("rows.csv", {"model": "decoder"}, "--model decoder is not for classification"),
        ("rows.csv", {"model": "lstm", "heads": 2}, "--heads is for Transformers"),
        ("rows.csv", {"model": "lstm", "preset": "tiny"}, "--preset is for Transformers"),
        ("rows.csv", {"model": "cnn", "layers": 2}, "--layers is for Transformers and recurrent"),
        ("rows.csv", {"model": "lstm", "d_model": 25}, "d.model is 25, but must be even"),
        ("rows.csv", {"model": "lstm", "from_model": "any"}, "--model lstm is trained from scratch"),
    ],
)
def test_what_does_not_go_together_is_one_message(
    path: str, options: dict[str, Any], said: str, inputs: dict[str, Path], tmp_path: Path
):
    with pytest.raises(InputError, match=said):
        headway.train(inputs[path], out=tmp_path / "run", steps=1, quiet=True, **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["language model, lstm", "classifier, cnn", "translator, gru"])
def test_a_baseline_keeps_its_promises(name: str, inputs: dict[str, Path], tmp_path: Path, monkeypatch: Any):
    path, kind, more = MODELS[name]
    skipped = Check("resume", "training", skipped="tests/science has it")
    monkeypatch.setattr("headway.workflows.verify.verify.check_resume", lambda *given: skipped)
    headway.train(inputs[path], out=tmp_path / "run", model=kind, **{**OPTIONS, "steps": 3, **more})
    found = {check["name"]: check["passed"] for check in verify(tmp_path / "run")["checks"]}
    assert found.pop("cache") is (None if name.startswith("classifier") else True)
    assert found.pop("export") is found.pop("resume") is found.pop("precision") is found.pop("engines") is None
    assert found == dict.fromkeys(["batch", "accumulation", "checkpoints"], True)


def test_verbs_for_transformers_say_so(inputs: dict[str, Path], tmp_path: Path, in_process: Any):
    run, rows = tmp_path / "run", inputs["rows.csv"]
    headway.train(rows, out=run, model="bow", **OPTIONS)
    for words in (("explain", run), ("train", rows, "--from", run)):
        in_process.refused(*words, "--quiet", said="baseline", lines=1)
    in_process.refused("export", run, "--to", "hf", "--out", tmp_path / "hf", "--quiet", lines=1)
    in_process.refused("train", rows, "--model", "lstm", "--plan", "--steps", "5", said="--plan is for Transformers")
