"""Every snippet of a model card is run through the program that it names, in the folder that holds the export."""

import json
import random
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headway
from headway.workflows.export import export

peft = pytest.importorskip("peft")
pytest.importorskip("transformers")
sys.path.append(str(Path(__file__).parents[2] / "training"))
from bases import make_base  # noqa: E402

EARLIER = Path(__file__).parents[2] / "fixtures" / "earlier"
BLOCK = re.compile(r"^With ([^:\n]+):\n\n```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OTHERS = ("llama.cpp", "CTranslate2", "ONNX Runtime")
"""Programs for which the card's snippet exports the model again."""
LORA = {"lora": 3, "steps": 4, "batch_tokens": 128, "threads": 1, "precision": "float32", "evaluations": 1}
TEXTS = ["Anna lives in Rome .", "it rained all day", "Ben met Anna"]


def snippets(place: Path) -> Iterator[tuple[str, str, str]]:
    """(program, language, code) of each snippet of a card."""
    found = [match.groups() for match in BLOCK.finditer((place / "README.md").read_text())]
    assert found and (place / "README.md").read_text().count("```") == 2 * len(found)
    yield from found


def run(code: str, language: str, in_process: Callable) -> dict[str, Any]:
    """What a snippet leaves: its own exports are made first, by ``headway``."""
    for line in code.splitlines():
        if line.removeprefix("# ").startswith("headway "):
            status, _, err = in_process(*shlex.split(line.removeprefix("# "))[1:])
            assert status == 0, err
        elif language == "sh" and shutil.which(shlex.split(line)[0]):
            subprocess.run(shlex.split(line), check=True, capture_output=True, timeout=60)
    names: dict[str, Any] = {}
    if language == "python":
        exec(code, names)
    return names


@pytest.mark.parametrize("kind", ["classification", "embedding", "image_classification", "masked_lm", "translation"])
def test_snippets_for_transformers_and_for_headway(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_process: Callable
):
    monkeypatch.chdir(EARLIER / kind)
    assert export("run", tmp_path / "out").parity.passed
    monkeypatch.chdir(tmp_path)
    programs = []
    for program, language, code in snippets(Path("out")):
        if program not in OTHERS:
            assert run(code, language, in_process)["model"] is not None
            programs.append(program)
    assert "Headway" in programs and len(programs) == 2


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of three classes, sentences with tags, and pairs of texts."""
    folder, draw = tmp_path_factory.mktemp("data"), random.Random(2)
    words = ["the", "cat", "sat", "on", "a", "mat"]
    rows = [f"{' '.join(draw.choices(words, k=5))},{('ant', 'bee', 'cow')[n % 3]}" for n in range(90)]
    (folder / "classes.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    tagged = "Anna\tB-PER\nlives\tO\nin\tO\nRome\tB-LOC\n"
    (folder / "tags.conll").write_text("\n".join(f"{tagged}{n}\tO\n" for n in range(60)))
    pairs = [f"{' '.join(draw.choices(words, k=4))},{' '.join(draw.choices(words, k=4))}" for _ in range(60)]
    (folder / "pairs.csv").write_text("text,text2\n" + "\n".join(pairs) + "\n")
    return folder


@pytest.mark.parametrize("name", ["classes.csv", "tags.conll", "pairs.csv"])
def test_the_snippet_for_peft_answers_as_the_run(
    name: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_process: Callable
):
    monkeypatch.chdir(tmp_path)
    make_base("bert", Path("base"))
    more = {"task": "embedding"} if name == "pairs.csv" else {}
    headway.train(data / name, out="run", from_model="base", quiet=True, **LORA, **more)
    found = export("run", "out", to="peft")
    assert found.made and found.parity.passed, found.parity
    pipe, code = headway.load("run"), {program: code for program, _, code in snippets(Path("out"))}
    names = run(code["peft"], "python", in_process)
    assert run(code["Headway"], "python", in_process)["model"].task == pipe.task
    if name == "pairs.csv":
        np.testing.assert_allclose(names["vectors"].numpy(), pipe(["a text", "another one"]), atol=1e-4)
        return
    for text in TEXTS:
        theirs = names["answer"](text)
        if name == "tags.conll":
            assert [(one["entity_group"], one["start"], one["end"]) for one in theirs] == [
                (one["label"], one["start"], one["end"]) for one in pipe(text)
            ]
        else:
            assert theirs[0]["label"] == pipe(text)["label"]
            assert theirs[0]["score"] == pytest.approx(pipe(text)["score"], abs=1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["language_modeling", "classification", "translation"])
def test_snippets_for_other_programs(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_process: Callable):
    for module in ("ctranslate2", "onnxruntime", "gguf", "onnxscript"):
        pytest.importorskip(module)
    monkeypatch.chdir(EARLIER / kind)
    assert export("run", tmp_path / "out").parity.passed
    monkeypatch.chdir(tmp_path)
    for program, language, code in snippets(Path("out")):
        if program in OTHERS:
            run(code, language, in_process)


def test_what_cannot_be_an_adapter_is_said_before_training(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_process: Callable
):
    """A block for the mean, or tokens that are added: what training promises, the export keeps."""
    monkeypatch.chdir(tmp_path)
    make_base("bert", Path("base"))
    headway.train(data / "pairs.csv", task="embedding", from_model="base", out="vectors", quiet=True, **LORA)
    words = ["--lora", "3", "--steps", "2", "--threads", "1", "--batch-tokens", "128"]
    for number, (base, more) in enumerate([("base", []), ("vectors", []), ("base", ["--extend-vocab", "7"])]):
        status, _, err = in_process(
            "train", data / "classes.csv", "--from", base, "--out", f"run{number}", *words, *more
        )
        assert status == 0, err
        said = next(line for line in err.splitlines() if line.startswith("exports:"))
        promised = "peft" in said.partition(" - not ")[0]
        assert promised == (number == 0), said
        status, _, err = in_process("export", f"run{number}", "--to", "peft", "--out", f"out{number}")
        assert (status == 0) == promised, err
    assert json.loads(Path("run1/headway.json").read_text())["plan"]["mean"]
