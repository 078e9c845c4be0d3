"""An export to ONNX answers as the model does in a process without Headway and torch, or it is not left there."""

import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from doors_kit import MODELS, made, texts
from torch import nn

import headway
from headway.errors import InputError
from headway.hub.directory import load_model, save_any
from headway.models.baselines import BaselineConfig, initialise_baseline
from headway.models.config import TransformerConfig
from headway.models.heads import TokenClassificationHead
from headway.models.own import OwnConfig
from headway.models.transformer import Encoder
from headway.models.wirings import wired
from headway.runtime.engines.onnxruntime import OnnxRuntimeSession
from headway.text.train import train_tokenizer
from headway.workflows.export import onnx as target
from headway.workflows.export import onnx_graphs
from headway.workflows.export.export import Export, export
from headway.workflows.export.onnx_compare import compare_graphs
from headway.workflows.export.registry import TARGETS
from headway.workflows.export.target import Subject

EXAMPLES = Path(__file__).parents[3] / "examples"
NEW = 12
TEXTS = texts(200, seed=3)
KINDS = {
    "classifier": ("BertForSequenceClassification", "text-classification"),
    "vectors": ("ModernBertModel", "SentenceTransformer"),
    "language model": ("LlamaForCausalLM", "text-generation"),
    "translator": ("M2M100ForConditionalGeneration", "AutoModelForSeq2SeqLM"),
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Export]]:
    """The directory of a tiny model of a kind, and its export; each is made once."""

    @cache
    def of(kind: str) -> tuple[Path, Export]:
        place = tmp_path_factory.mktemp("onnx")
        source = made(*KINDS[kind], place / "model")
        return source, export(source, place / "out", to="onnx")

    return of


def without_headway(name: str, *words: object) -> list[dict[str, Any]]:
    """Run an example in a process of its own; what its lines say."""
    code = (
        "import runpy, sys; runpy.run_path(sys.argv[0], run_name='__main__'); "
        "found = {'torch', 'headway', 'transformers'} & set(sys.modules); assert not found, found"
    )
    words = (EXAMPLES / f"{name}.py", *words)
    program = f"import sys; sys.argv = sys.argv[1:]; {code}"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, words)], capture_output=True, text=True, timeout=600, env=environment
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_classifier_answers_without_headway(classifier_run: Path, tmp_path: Path):
    found = export(classifier_run, tmp_path / "out", to="onnx")
    rows = without_headway("onnx_classify", found.out, *TEXTS)
    answers = headway.load(classifier_run)(TEXTS)
    assert [row["label"] for row in rows] == [answer["label"] for answer in answers]
    assert [row["score"] for row in rows] == pytest.approx([answer["score"] for answer in answers], abs=1e-5)
    assert len({row["label"] for row in rows}) == 2, "the answers depend on the texts"


def test_vectors_are_computed_without_headway(exported: Callable):
    source, found = exported("vectors")
    rows = without_headway("onnx_embed", found.out, *TEXTS)
    vectors = np.array([row["vector"] for row in rows])
    assert np.abs(vectors - headway.load(source)(TEXTS)).max() < 1e-5
    assert [row["cosine"] for row in rows] == pytest.approx((vectors @ vectors[0]).tolist(), abs=1e-5)
    assert any("1.0000 at least" in note for note in found.parity.notes)


def test_a_language_model_continues_texts_without_headway(exported: Callable):
    source, found = exported("language model")
    rows = without_headway("onnx_generate", found.out, NEW, *TEXTS)
    ours = headway.load(source)(TEXTS, max_tokens=NEW, temperature=0)
    assert [row["text"] for row in rows] == ours
    assert len(set(ours)) > 100, "the continuations depend on the texts"


def test_a_translator_translates_without_headway(exported: Callable):
    source, found = exported("translator")
    rows = without_headway("onnx_translate", found.out, *TEXTS)
    with warnings.catch_warnings(action="ignore"):  # a random model does not end its translations
        ours = headway.load(source)(TEXTS, beam=1)
    assert [row["text"] for row in rows] == ours
    assert len(set(ours)) > 20, "the translations depend on the texts"


def test_the_default_language_model_is_exported(lm_run: Path, tmp_path: Path):
    found = export(lm_run, tmp_path / "out", to="onnx")
    assert found.parity.passed and found.parity.agreement == (256, 256), found.parity


def test_examples_are_short():
    for path in EXAMPLES.glob("onnx_*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 40, path


def names(path: Path) -> tuple[list[str], list[str]]:
    graph = onnx.load(path).graph
    return [one.name for one in graph.input], [one.name for one in graph.output]


def test_inputs_and_outputs_have_the_names_that_users_know(exported: Callable):
    pairs = [f"{layer}.{part}" for layer in (0, 1) for part in ("key", "value")]
    inputs, outputs = names(exported("language model")[1].out / "model.onnx")
    assert inputs == ["input_ids", "attention_mask", *(f"past_key_values.{pair}" for pair in pairs)]
    assert outputs == ["logits", *(f"present.{pair}" for pair in pairs)]
    inputs, outputs = names(exported("classifier")[1].out / "model.onnx")
    assert inputs == ["input_ids", "attention_mask", "token_type_ids"] and outputs == ["logits"]
    inputs, outputs = names(exported("vectors")[1].out / "model.onnx")
    assert inputs == ["input_ids", "attention_mask"] and outputs == ["last_hidden_state", "sentence_embedding"]
    directory = exported("translator")[1].out
    sides = [[pair.replace(".", f".{side}.") for pair in pairs] for side in ("decoder", "encoder")]
    inputs, outputs = names(directory / "encoder.onnx")
    assert inputs == ["input_ids", "attention_mask"]
    assert outputs == ["last_hidden_state", *(f"present.{pair}" for pair in sides[1])]
    inputs, outputs = names(directory / "decoder.onnx")
    past = [f"past_key_values.{pair}" for side in sides for pair in side]
    assert inputs == ["input_ids", "encoder_attention_mask", *past]
    assert outputs == ["logits", *(f"present.{pair}" for pair in sides[0])]


def test_a_graph_names_no_file_of_this_machine_and_no_operation_of_its_own(exported: Callable):
    for kind in KINDS:
        for path in exported(kind)[1].out.glob("*.onnx"):
            model = onnx.load(path)
            assert {one.domain for one in model.opset_import} == {""} and not model.functions
            assert str(Path(headway.__file__).parent).encode() not in path.read_bytes()


def test_the_directory_holds_what_other_programs_need(exported: Callable):
    _, found = exported("classifier")
    held = {path.name for path in found.out.iterdir()}
    assert held == {"model.onnx", "config.json", "tokenizer.json", "tokenizer_config.json", "headway_export.json"}
    assert json.loads((found.out / "config.json").read_text())["id2label"] == {"0": "ant", "1": "bee", "2": "cow"}
    record = json.loads((found.out / "headway_export.json").read_text())
    assert record["target"] == "onnx" and record["checked"] and record["tokens_equal"] is True
    assert found.parity.agreement == (32, 32) and found.parity.max_difference < 1e-4
    assert any(note.startswith("read through OpenVINO") for note in found.parity.notes)


def subject(source: Path) -> Subject:
    return Subject(load_model(source), None, None, source)


def test_the_comparison_sees_one_changed_weight(exported: Callable):
    """Of the cache, of the cross-attention, of the pooled vector: each would be another model."""
    for kind, name in (
        ("language model", "stack.blocks.1.attention.layer.qkv.weight"),
        ("translator", "decoder.blocks.0.cross.layer.kv.weight"),
        ("vectors", "stack.norm.weight"),
    ):
        source, found = exported(kind)
        changed = subject(source)
        weight = changed.model.get_parameter(name)
        with torch.no_grad():
            weight.view(-1)[-1] += 0.5
        assert compare_graphs(subject(source), found.out, OnnxRuntimeSession).difference < 1e-4
        assert compare_graphs(changed, found.out, OnnxRuntimeSession).difference > 1e-3, kind


WORDS = train_tokenizer(["the cat sat on a mat while old dogs ran"] * 9, "wordpiece", 60, role="encoder")
CONFIG = TransformerConfig(
    WORDS.vocab_size, d_model=24, n_layers=2, n_heads=3, d_ff=29, max_length=31, norm="layernorm",
    norm_parameters="both", norm_order="post", norm_eps=1e-12, positions="learned", activation="gelu", gated=False,
    embedding_norm=True, bias=("qkv", "out", "ff", "head"), tied=True, segments=2,
)  # fmt: skip


def saved(model: nn.Module, place: Path) -> Path:
    torch.manual_seed(3)
    for p in model.parameters():
        nn.init.normal_(p, std=0.3) if p.dim() > 1 else nn.init.uniform_(p, 0.5, 1.5)
    save_any(model.eval(), place)
    WORDS.save(place, max_length=31)
    return place


def test_tags_are_exported(tmp_path: Path):
    found = export(
        saved(Encoder(CONFIG, TokenClassificationHead(CONFIG, 5)), tmp_path / "a"), tmp_path / "b", to="onnx"
    )
    assert found.parity.passed, found.parity
    equal, answers = found.parity.agreement or (0, 0)
    assert equal == answers > 32, "one for each token"


def test_a_baseline_without_recurrence_is_exported(tmp_path: Path):
    model = wired(BaselineConfig("cnn", WORDS.vocab_size, 24), "encoder", 3)
    found = export(saved(initialise_baseline(model, 0), tmp_path / "a"), tmp_path / "b", to="onnx")
    assert found.parity.passed and json.loads((tmp_path / "b" / "config.json").read_text())["num_labels"] == 3


def test_images_are_exported(tmp_path: Path):
    source = made("ViTForImageClassification", "image-classification", tmp_path / "a")
    found = export(source, tmp_path / "b", to="onnx")
    assert found.parity.passed and names(tmp_path / "b" / "model.onnx") == (["pixel_values"], ["logits"])
    assert found.parity.agreement == (32, 32) and "the answers to 32 images" in found.parity.words


@pytest.mark.parametrize("kind", ["vectors", "language model"])
def test_int8_says_what_it_costs(kind: str, exported: Callable, tmp_path: Path, in_process: Callable):
    source, whole = exported(kind)
    status, text, err = in_process("export", source, "--to", "onnx", "--precision", "int8", "--out", tmp_path / "b")
    assert status == 0, err
    assert "the same ids for 1,000 lines" in text
    if kind == "vectors":
        assert "cosine of a text's vectors: 0.9" in text
    else:
        equal, answers = map(int, re.search(r"(\d+) of (\d+) answers equal", text).groups())  # type: ignore[union-attr]
        assert 0.8 * answers < equal < answers == 256, text
    record = json.loads((tmp_path / "b" / "headway_export.json").read_text())
    assert record["precision"] == "int8" and record["max_difference"] > 1e-4
    graph = onnx.load(tmp_path / "b" / "model.onnx").graph
    assert "MatMulInteger" in {node.op_type for node in graph.node}
    kept = {one.name for one in graph.initializer if len(one.dims) == 2 and one.data_type == onnx.TensorProto.FLOAT}
    read = {name for node in graph.node if node.op_type in ("MatMul", "Gather") for name in node.input}
    assert not kept & read, "every matrix and every table is int8"
    assert (tmp_path / "b" / "model.onnx").stat().st_size < (whole.out / "model.onnx").stat().st_size


def changed_graph(graph: onnx_graphs.Graph) -> torch.onnx.ONNXProgram:
    with torch.no_grad():
        next(graph.module.parameters()).mul_(1.5)
    return traced(graph)


traced = target.traced


def test_an_export_that_differs_is_not_left_there(
    exported: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_process: Callable
):
    """The graph is that of other weights than the model's, which is loaded again to be compared."""
    source, _ = exported("classifier")

    def write(given: Subject, directory: Path, precision: str) -> None:
        ours(subject(source), directory, precision)

    ours = target.write
    monkeypatch.setattr(target, "write", write)
    monkeypatch.setattr(target, "traced", changed_graph)
    status, out, err = in_process("export", source, "--to", "onnx", "--out", tmp_path / "b", "--json")
    assert status == 1 and json.loads(out.splitlines()[-1])["out"] is None
    assert "in ONNX Runtime the answers differ by" in err and "in OpenVINO" in err and "nothing was left" in err
    assert not list(tmp_path.iterdir())


def test_a_tokenizer_with_other_ids_is_noticed(exported: Callable, tmp_path: Path):
    source, found = exported("classifier")
    tokenizer = headway.load(source).tokenizer
    assert target.different_line(tokenizer, found.out) is None
    spec = json.loads((found.out / "tokenizer.json").read_text())
    spec["normalizer"] = None
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec))
    assert target.different_line(tokenizer, tmp_path) is not None


def test_recurrent_models_are_refused(tmp_path: Path):
    model = wired(BaselineConfig("lstm", WORDS.vocab_size, 24), "encoder", 3)
    source = saved(initialise_baseline(model, 0), tmp_path / "a")
    with pytest.raises(InputError, match=r"this is a baseline \(lstm\), and torch's exporter cannot write recurrent"):
        export(source, tmp_path / "b", to="onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_model_of_a_task_of_ones_own_is_refused(tmp_path: Path):
    model = nn.Linear(2, 2)
    model.config = OwnConfig(task="stars", vocab_size=7, d_model=4)  # type: ignore[assignment]
    with pytest.raises(InputError, match="encoders, decoders and encoder-decoders of Headway"):
        target.refuse(Subject(model, None, None, tmp_path))


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from headway.workflows.export import registry

    monkeypatch.setattr(registry, "find_spec", lambda name: None if name == "onnxscript" else name)
    with pytest.raises(InputError, match=r"--to onnx needs onnxscript: pip install 'headway\[export\]'"):
        export(tmp_path, tmp_path / "b", to="onnx")


def test_openvino_is_not_needed(exported: Callable, monkeypatch: pytest.MonkeyPatch):
    source, found = exported("classifier")
    monkeypatch.setattr(target, "find_spec", lambda name: None)
    parity = target.compare(subject(source), found.out, "float32")
    assert parity.passed and not parity.notes


class Turning(nn.Module):
    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return input_ids if int(input_ids.sum()) > 3 else attention_mask


def test_a_model_that_cannot_be_traced_is_one_message(
    exported: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    source, _ = exported("classifier")
    graph = onnx_graphs.graphs_of(load_model(source))[0]
    inputs = {name: graph.inputs[name] for name in ("input_ids", "attention_mask")}
    monkeypatch.setattr(target, "graphs_of", lambda model: [onnx_graphs.Graph("model.onnx", Turning(), inputs, ["y"])])
    with pytest.raises(InputError, match="torch cannot trace this model for onnx: ") as error:
        export(source, tmp_path / "b", to="onnx")
    assert "\n" not in str(error.value) and not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_interrupted_export_leaves_nothing(
    error: BaseException, exported: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    source, _ = exported("classifier")

    def stop(self: object, place: Path, **_: object) -> None:
        place.write_bytes(b"half")
        raise error

    monkeypatch.setattr(torch.onnx.ONNXProgram, "save", stop)
    expected = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else InputError
    with pytest.raises(expected):
        export(source, tmp_path / "b", to="onnx")
    assert not list(tmp_path.iterdir())


def test_weights_of_more_than_2_gb_have_a_file_of_their_own(exported: Callable, tmp_path: Path, monkeypatch):
    """The limit is lowered for the test; the graph then reads its weights from the file beside it."""
    monkeypatch.setattr("torch.onnx._internal.exporter._onnx_program._LARGE_MODEL_THRESHOLD", 1000)
    source, _ = exported("classifier")
    for precision in TARGETS["onnx"].precisions:
        found = export(source, tmp_path / precision, to="onnx", precision=precision)
        assert found.parity.passed and (tmp_path / precision / "model.onnx.data").stat().st_size > 1000
        assert "model.onnx.data" in json.loads((tmp_path / precision / "headway_export.json").read_text())["files"]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "door"), MODELS)
def test_every_family_is_exported(name: str, door: str, tmp_path: Path):
    found = export(made(name, door, tmp_path / "a"), tmp_path / "b", to="onnx")
    assert found.parity.passed, found.parity
    assert found.parity.tokens_equal is not False
