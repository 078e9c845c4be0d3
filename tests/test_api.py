"""The public names, what importing costs, and the contracts of the Python calls."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import torch

import headway
from headway.errors import RunFailed
from headway.training.keywords import TrainKeywords
from headway.training.options import OPTIONS

NAMES = [
    *("Batch", "Decoder", "Encoder", "EncoderDecoder", "InputError", "TransformerConfig"),
    *("bench", "compare", "evaluate", "export", "fit", "load", "load_model", "save_model", "train", "verify"),
]

SEALED = """
import socket
def refused(*given, **more):
    raise AssertionError("a socket was opened")
socket.socket.__init__ = socket.create_connection = socket.getaddrinfo = refused
import sys, json, headway
corpus, rows, out, tiny = sys.argv[1:4] + [json.loads(sys.argv[4])]
headway.train(corpus, out=out + '/lm', quiet=True, **tiny)
headway.train(rows, out=out + '/clf', quiet=True, **tiny)
headway.load(out + '/lm')('the', max_tokens=3), headway.load(out + '/clf')('great')
"""


def python(code, *words):
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_public_names():
    assert headway.__all__ == NAMES and len(NAMES) <= 24 and set(NAMES) <= set(dir(headway))
    for name in NAMES:
        assert getattr(headway, name).__doc__, name
    with pytest.raises(AttributeError, match=r"'trian'; it has .*train"):
        headway.trian  # noqa: B018


def best_of_five(code):
    """Seconds and the modules imported, of the fastest run."""
    report = "\nimport json, sys\nprint(json.dumps([seconds, sorted(sys.modules)]))"
    runs = [json.loads(python(code + report).stdout.splitlines()[-1]) for _ in range(5)]
    seconds, modules = min(runs)
    return seconds, set(modules)


TIMED = "import time\nbegan = time.perf_counter()\n{}\nseconds = time.perf_counter() - began"


HELP = "import io, sys\nout, sys.stdout = sys.stdout, io.StringIO()\nfrom headway.cli.main import main\n"
HELP += "main(['--help'])\ntext, sys.stdout = sys.stdout.getvalue(), out"


@pytest.mark.parametrize(("code", "most"), [("import headway", 3 * 0.3), (HELP, 3 * 0.5)], ids=["import", "help"])
def test_importing_and_help_are_quick_and_do_not_import_torch(code, most):
    seconds, modules = best_of_five(TIMED.format(code))
    assert not {"torch", "numpy", "sklearn", "transformers", "tokenizers"} & modules
    assert seconds < most


def test_train_returns_what_json_prints_and_writes_under_runs(corpus, tmp_path, tiny, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = headway.train(corpus, quiet=True, **tiny)
    out, err = capfd.readouterr()
    assert out == "" and err == ""
    assert json.loads(json.dumps(found)) == found
    assert {"task", "seconds", "out", "parameters", "steps", "tokens", "val_loss", "baselines"} <= set(found)
    assert found["out"] == str(Path("runs") / "corpus") and Path(found["out"], "model.safetensors").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        *(
            ({"layres": 3}, "layres"),
            ({"layers": "3"}, "--layers"),
            ({"time": -90}, "--time"),
            ({"steps": 0}, "--steps"),
        ),
        ({"task": "translating"}, "--task is 'translating'; it can be image_classification, translation, summarize"),
    ],
)
def test_options_that_mean_nothing(corpus, options, said):
    with pytest.raises(headway.InputError, match=said):
        headway.train(corpus, quiet=True, **options)
    with pytest.raises(headway.InputError, match="no input"):
        headway.train(steps=2, quiet=True)


def test_load_gives_the_pipeline_of_the_task(lm_run, classifier_run):
    for run, task in ((lm_run, "language_modeling"), (str(classifier_run), "classification")):
        pipe = headway.load(run)
        assert pipe.task == task
        assert isinstance(pipe.model, torch.nn.Module) and not pipe.model.training
        assert pipe.tokenizer.decode(pipe.tokenizer.encode("the cat")).strip() == "the cat"
        assert headway.load(run, task=task).task == task
    with pytest.raises(headway.InputError, match="this is a model for language_modeling, not for classification"):
        headway.load(lm_run, task="classification")
    with pytest.raises(headway.InputError, match=r"the task is 'poetry'; it can be .*translation"):
        headway.load(lm_run, task="poetry")


def test_evaluate_returns_what_json_prints(classifier_run, rows, in_process):
    code, out, _ = in_process("evaluate", classifier_run, rows, "--json")
    printed = json.loads(out.splitlines()[-1])
    for data in (rows, str(rows), [rows]):
        found = headway.evaluate(classifier_run, data)
        assert code == 0 and {**found, "seconds": 0} == {**printed, "seconds": 0} and list(found) == list(printed)
    assert headway.evaluate(classifier_run)["examples"] == headway.evaluate(classifier_run, rows)["examples"]
    with pytest.raises(headway.InputError, match="cannot be used: expected names of files"):
        headway.evaluate(classifier_run, [3])


@pytest.mark.parametrize(
    ("verb", "options", "more"),
    [
        ("export", {"to": "onnx", "precision": "int8"}, []),
        pytest.param("verify", {}, ["passed"], marks=pytest.mark.thorough),
        pytest.param("bench", {"time": "2s"}, [], marks=pytest.mark.thorough),
    ],
)
def test_a_verb_from_python_returns_what_json_prints(
    verb: str,
    options: dict,
    more: list,
    classifier_run: Path,
    in_process,
    capsys: pytest.CaptureFixture,
    tmp_path: Path,
):
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    place = {} if verb != "export" else {"out": tmp_path / "a"}
    code, out, _ = in_process(
        verb, classifier_run, *words, *(f"--{name}={value}" for name, value in place.items()), "--json"
    )
    printed = json.loads(out.splitlines()[-1])
    capsys.readouterr()
    quiet = {} if verb == "export" else {"quiet": True}
    found = getattr(headway, verb)(classifier_run, **options, **quiet, **place)
    said, warned = capsys.readouterr()
    assert code == 0 and said == ""
    assert all(line.startswith("warning: there was no time") for line in warned.splitlines()), warned  # in 2 s
    assert json.loads(json.dumps(found)).keys() == {*printed, *more} and found["task"] == printed["task"]
    assert list(found)[:2] == ["task", "seconds"]


def test_an_export_that_differs_is_an_error_in_python(
    classifier_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headway.formats.hf.export.max_difference", lambda *_: 1.0)
    with pytest.raises(RunFailed, match="nothing was left"):
        headway.export(classifier_run, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_the_options_of_train_are_known_by_name_and_type():
    expected = {}
    for name, option in OPTIONS.items():
        kind = eval(option.type) if isinstance(option.type, str) else option.type
        expected[name] = kind | float if option.metadata["duration"] else kind  # a time may be a number of seconds
    assert get_type_hints(TrainKeywords) == expected
    assert get_args(headway.train.__annotations__["options"]) == (TrainKeywords,)


TYPED = """
from headway.tasks.answers import Label, Labels, Span

one: Label = headway.load("run", task="classification")("a")
some: list[Labels] = headway.load("run", task="multi_label")(["a"])
score: float = headway.load("run", task="token_classification")("a")[0]["score"]
spans: list[list[Span]] = headway.load("run", task="token_classification")([["a", "b"]])
wrong: str = one["scores"]  # type: ignore[assignment]
nothing = one["answer"]  # type: ignore[typeddict-item]
"""


@pytest.mark.thorough
def test_the_python_of_the_readme_is_typed(tmp_path):
    """All blocks as one program, by mypy in strict mode; the package itself is checked by its own settings."""
    root = Path(__file__).parent.parent
    blocks = re.findall(r"^```python\n(.*?)^```$", (root / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "readme.py").write_text("\n".join([*blocks, TYPED]))
    words = ["--strict", "--follow-imports=silent", "--ignore-missing-imports", f"--cache-dir={root / '.mypy_cache'}"]
    command = [sys.executable, "-m", "mypy", "--config-file=", *words, str(tmp_path / "readme.py")]
    found = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "MYPYPATH": str(root / "src")})
    assert found.returncode == 0, found.stdout + found.stderr


def test_load_model_gives_the_bare_module(lm_run, classifier_run):
    decoder, encoder = headway.load_model(lm_run), headway.load_model(str(classifier_run))
    assert isinstance(decoder, headway.Decoder) and isinstance(encoder, headway.Encoder)
    ids = torch.randint(5, 23, (3, 7))
    mask = torch.ones(3, 7, dtype=torch.bool)
    for model, shape in ((decoder, (3, 7, decoder.config.vocab_size)), (encoder, (3, 2))):
        assert not model.training
        assert {p.dtype for p in model.parameters()} == {torch.float32}
        assert model(ids).shape == shape
        assert torch.equal(model(ids), model(ids, mask=mask)) or (model(ids) - model(ids, mask=mask)).abs().max() < 1e-5


def test_save_model_and_load_model_are_a_round_trip(lm_run, classifier_run, tmp_path):
    for run in (lm_run, classifier_run):
        model = headway.load_model(run)
        headway.save_model(model, tmp_path / run.name)
        again = headway.load_model(tmp_path / run.name)
        weights = again.state_dict()
        assert again.config == model.config and weights.keys() == model.state_dict().keys()
        assert all(torch.equal(weight, weights[name]) for name, weight in model.state_dict().items())


@pytest.mark.parametrize("place", [None, 3, b"run", ["run"]])
def test_what_is_no_place_of_a_model(place):
    for load in (headway.load, headway.load_model):
        with pytest.raises(headway.InputError, match=r"the place of a model is .*; expected a path, or an id"):
            load(place)


@pytest.mark.parametrize("name", ["file", "file/model", "taken"])
def test_saving_where_nothing_can_be_written(lm_run, tmp_path, name):
    (tmp_path / "file").write_text("")
    (tmp_path / "taken" / "model.safetensors" / "in the way").mkdir(parents=True)
    with pytest.raises(headway.InputError, match=f"{name}: cannot be written .*; name another directory"):
        headway.save_model(headway.load_model(lm_run), tmp_path / name)


@pytest.mark.thorough
def test_nothing_opens_a_socket(corpus, rows, tmp_path, tiny):
    found = python(SEALED, corpus, rows, tmp_path, json.dumps(tiny))
    assert found.returncode == 0, found.stderr
