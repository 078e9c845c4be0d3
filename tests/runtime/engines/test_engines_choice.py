"""Which engine answers: what is refused, with one message, and what "auto" takes."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import headway
from headway.errors import InputError
from headway.formats import exports, registry
from headway.formats.exports import open_engine, place_of
from headway.formats.registry import ENGINES, SPECS, check_engine
from headway.hub.directory import load_model, save_model
from headway.hub.fingerprint import RECORD
from headway.io.regular_file import sha256
from headway.models.wirings import Ensemble

SAID = r"it can be auto, torch, ctranslate2, onnxruntime, openvino or llama\.cpp\."


@pytest.mark.parametrize("name", ["tensorrt", "", None, "ONNXRuntime", 3])
def test_what_is_no_engine_is_named(name: object, exported: Callable):
    with pytest.raises(InputError, match=SAID):
        check_engine(name)
    with pytest.raises(InputError, match=SAID):
        headway.load("nowhere", engine=name)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SPECS)
def test_a_library_that_is_missing_is_named_with_its_extra(name: str, exported: Callable, monkeypatch):
    run = exported("language_modeling" if SPECS[name].decoders else "classification")
    monkeypatch.setattr(registry, "find_spec", lambda package: None)
    with pytest.raises(InputError) as raised:
        headway.load(run, engine=name)
    spec = SPECS[name]
    said = f"--engine {name} needs {spec.package}: pip install 'headway[{spec.extra}]', then run this command again."
    assert str(raised.value) == said


@pytest.mark.parametrize("precision", [None, "int8"])
def test_a_missing_export_is_said_with_the_command_that_makes_it(precision: str | None, copied: Callable):
    run = copied("language_modeling")
    shutil.rmtree(run / "exports")
    how = "" if precision is None else " --precision int8"
    with pytest.raises(InputError, match=rf"there is no export in .*`headway export {run} --to onnx{how}` makes it\.$"):
        headway.load(run, engine="onnxruntime", precision=precision)


def test_an_export_of_other_weights_is_refused(copied: Callable):
    run = copied("language_modeling")
    model = load_model(run)
    with torch.no_grad():
        next(model.parameters()).mul_(1.5)
    kept = {file: (run / file).read_bytes() for file in ("config.json",)}
    save_model(model, run)
    for file, content in kept.items():
        (run / file).write_bytes(content)
    with pytest.raises(
        InputError, match=rf"another model than .* holds now; `headway export {run} --to onnx` replaces"
    ):
        headway.load(run, engine="onnxruntime")
    assert headway.load(run)("the cat", max_tokens=3)


def test_an_export_from_before_engines_has_no_fingerprint_and_is_refused(copied: Callable):
    run = copied("classification")
    path = place_of(run, "onnx") / RECORD
    record = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in record.items() if key != "model"}))
    with pytest.raises(InputError, match="another model"):
        headway.load(run, engine="onnxruntime")


def spoil_graph(place: Path) -> None:
    path = place / "model.onnx"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def spoil_record(place: Path) -> None:
    (place / RECORD).write_text("{")


def other_record(place: Path) -> None:
    record = json.loads((place / RECORD).read_text())
    (place / RECORD).write_text(json.dumps({**record, "files": {"../../model.safetensors": "0"}}))


def no_checksums(place: Path) -> None:
    spoil_graph(place)
    record = json.loads((place / RECORD).read_text())
    (place / RECORD).write_text(json.dumps({**record, "files": {}}))


def no_graph(place: Path) -> None:
    (place / "model.onnx").unlink()


def unusable_graph(place: Path) -> None:
    """A file that the record vouches for, and the library cannot read."""
    (place / "model.onnx").write_bytes(b"no graph")
    record = json.loads((place / RECORD).read_text())
    record["files"]["model.onnx"] = sha256(place / "model.onnx")
    (place / RECORD).write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (spoil_graph, r"model\.onnx: is damaged: it has changed since it was exported"),
        (spoil_record, r"headway_export\.json"),
        (other_record, r"headway_export\.json: is damaged"),
        (no_checksums, r": headway_export\.json does not name this file, .*`headway export .* replaces the export\."),
        (no_graph, r"model\.onnx: is damaged: .* or cannot be read"),
        (unusable_graph, r"--engine onnxruntime cannot use .*/exports/onnx: "),
    ],
)
def test_a_damaged_export_is_one_message(spoil: Callable, said: str, copied: Callable):
    run = copied("classification")
    spoil(place_of(run, "onnx"))
    with pytest.raises(InputError, match=said) as raised:
        headway.load(run, engine="onnxruntime")
    assert "\n" not in str(raised.value)


def test_an_engine_is_for_the_cpu(exported: Callable, monkeypatch: pytest.MonkeyPatch):
    run = exported("classification")
    monkeypatch.setattr(exports, "device_of", lambda asked: torch.device("cuda", 0))
    with pytest.raises(
        InputError, match="--engine onnxruntime computes on the CPU; leave out --device cuda:0, or --eng"
    ):
        headway.load(run, engine="onnxruntime", device="cuda")
    assert headway.load(run, engine="onnxruntime").runtime.device.type == "cpu", "auto is the CPU for an engine"


def test_a_precision_that_the_engine_lacks_is_named(exported: Callable):
    run = exported("classification")
    for precision in ("int4", "float16"):
        with pytest.raises(InputError, match=f"--precision {precision}: onnxruntime computes in float32 or int8"):
            headway.load(run, engine="onnxruntime", precision=precision)
    with pytest.raises(InputError, match="--precision is 'int3'; it can be"):
        headway.load(run, engine="onnxruntime", precision="int3")


def test_int8_reads_the_export_in_int8(exported: Callable):
    run = exported("classification", "onnx", "int8")
    pipe = headway.load(run, engine="onnxruntime", precision="int8")
    assert pipe.runtime.engine.precision == pipe.runtime.precision == "int8"
    own = headway.load(run).probabilities(["the cat sat"])
    assert 0 < float((pipe.probabilities(["the cat sat"]) - own).abs().max()) < 0.2


def test_auto_says_how_to_measure_where_nothing_was(exported: Callable):
    run = exported("classification")
    with pytest.warns(
        UserWarning, match=rf"no engine was measured in float32, .* `headway bench {run} --store` measures"
    ):
        pipe = headway.load(run, engine="auto")
    assert pipe.runtime.engine is None


def test_several_models_together_have_no_engine(exported: Callable):
    run = exported("classification")
    with pytest.raises(InputError, match="answers by several models together; name one of them, or torch"):
        open_engine("onnxruntime", run, Ensemble([load_model(run)]), "float32")


def test_the_list_is_complete():
    assert ("auto", "torch", *SPECS) == ENGINES and all(spec.installed in (True, False) for spec in SPECS.values())


def test_no_export_is_advised_that_would_be_refused(classifier_run: Path, char_run: Path, in_process: Callable):
    """Whether its library is installed or not: another engine is to be named."""
    for name, run, said in (
        ("llama.cpp", classifier_run, r"--engine llama\.cpp cannot answer by this model: "),
        ("llama.cpp", char_run, "its tokenizer is one of characters"),
    ):
        with pytest.raises(InputError, match=said) as raised:
            headway.load(run, engine=name)
        assert "headway export" not in str(raised.value) and "pip install" not in str(raised.value)
    status, _, err = in_process("classify", classifier_run, "the cat", "--engine", "llama.cpp")
    assert status == 2 and "headway export" not in err
