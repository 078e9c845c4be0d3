"""An export to ONNX answers as the model does in a process without Headway and torch, or it is not left there."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import transformers
from doors_kit import MODELS, made
from export_kit import BERT, BOTH, BPE, KINDS, PIECES, classifier_head, decoder, encoder, translator
from torch import nn
from transformers import AutoTokenizer

import headway
from headway.errors import InputError
from headway.formats.compare import Comparison
from headway.formats.onnx import export as target
from headway.formats.onnx import graphs
from headway.formats.onnx.engine import open_engine
from headway.formats.parity import same_ids
from headway.formats.registry import FORMATS
from headway.formats.subject import Subject
from headway.hub.directory import load_model, save_any
from headway.models.baselines import BaselineConfig
from headway.models.config import TransformerConfig
from headway.models.heads import TokenClassificationHead
from headway.models.initialise import initialise
from headway.models.own import OwnConfig
from headway.models.transformer import Encoder
from headway.models.wirings import build_model
from headway.text.train import train_tokenizer
from headway.workflows.export import export


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda place: decoder(place), {"eos_token_id": [BPE.end_of_text]}),
        (
            lambda place: translator(place),
            {"decoder_start_token_id": BOTH.end_of_text, "eos_token_id": [BOTH.end_of_text]},
        ),
    ],
    ids=["decoder", "translator"],
)
def test_what_starts_and_ends_a_text_is_said_where_the_source_has_no_file_of_it(
    make: Callable, said: dict, tmp_path: Path
):
    source = make(tmp_path / "a")
    assert not (source / "generation_config.json").exists()
    found = export(source, tmp_path / "b", to="onnx")
    assert json.loads((found.out / "generation_config.json").read_text()) == said


def test_as_many_classes_as_tokens(tmp_path: Path):
    """Logits (B, C) are not read as vectors of tokens (B, T, D) where C equals T."""
    found = export(encoder(tmp_path / "a", classifier_head(), **{**BERT, "max_length": 9}), tmp_path / "b", to="onnx")
    assert found.parity.passed and found.parity.agreement == (32, 32), found.parity


def test_the_default_language_model_is_exported(lm_run: Path, tmp_path: Path):
    found = export(lm_run, tmp_path / "out", to="onnx")
    assert found.parity.passed and found.parity.agreement == (256, 256), found.parity


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


def run_by_others(place: Path, file: str = "model.onnx") -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """The outputs of a graph for exactly what its tokenizer gives in ``transformers``, and the latter."""
    session = onnxruntime.InferenceSession(str(place / file))
    words = AutoTokenizer.from_pretrained(place)(
        ["the cat sat", "old dogs ran past"], return_tensors="np", padding=True
    )
    past = {one.name: one.shape for one in session.get_inputs() if one.name.startswith("past_")}
    empty = {name: np.zeros((2, shape[1], 0, shape[3]), np.float32) for name, shape in past.items()}
    return session.run(None, {**words, **empty}), dict(words)


@pytest.mark.parametrize("kind", KINDS)
def test_a_graph_reads_what_its_tokenizer_gives(kind: str, exported: Callable):
    outputs, words = run_by_others(exported(kind)[1].out, "encoder.onnx" if kind == "translator" else "model.onnx")
    assert len(outputs[0]) == len(words["input_ids"]) and np.isfinite(outputs[0]).all()


SIZES = {
    **{"vocab_size": PIECES.vocab_size, "hidden_size": 24, "intermediate_size": 17},
    **{"num_hidden_layers": 1, "num_attention_heads": 3},
}
DISTIL = {"vocab_size": PIECES.vocab_size, "dim": 24, "n_layers": 1, "n_heads": 3, "hidden_dim": 17}
FAMILIES = {
    "bert": ("BertForMaskedLM", SIZES),
    "bert with one segment": ("BertForTokenClassification", {**SIZES, "type_vocab_size": 1}),
    "roberta": ("RobertaForMaskedLM", {**SIZES, "type_vocab_size": 1, "pad_token_id": 0}),
    "xlm-roberta": ("XLMRobertaForSequenceClassification", {**SIZES, "type_vocab_size": 1, "pad_token_id": 0}),
    "distilbert": ("DistilBertForMaskedLM", DISTIL),
    "modernbert": ("ModernBertForMaskedLM", {**SIZES, "pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3}),
}


@pytest.mark.parametrize("kind", FAMILIES)
def test_an_encoder_of_every_family_reads_what_its_tokenizer_gives(kind: str, tmp_path: Path):
    """And the model that ``transformers`` loads answers the same."""
    name, settings = FAMILIES[kind]
    source = getattr(transformers, name)
    source(source.config_class(**settings)).eval().save_pretrained(tmp_path / "a")
    PIECES.save(tmp_path / "a", segments=kind != "distilbert")
    found = export(tmp_path / "a", tmp_path / "b", to="onnx")
    assert found.parity.passed, found.parity
    (logits, *_), words = run_by_others(tmp_path / "b")
    assert ("token_type_ids" in words) == (kind == "bert")
    theirs = source.from_pretrained(tmp_path / "a").eval()
    with torch.no_grad():
        expected = theirs(**{key: torch.from_numpy(value) for key, value in words.items()}).logits.numpy()
    mask = words["attention_mask"].astype(bool) if logits.ndim == 3 else slice(None)
    assert abs(logits[mask] - expected[mask]).max() < 1e-4


def test_a_graph_names_no_file_of_this_machine_and_no_operation_of_its_own(exported: Callable):
    for kind in KINDS:
        for path in exported(kind)[1].out.glob("*.onnx"):
            model = onnx.load(path)
            assert {one.domain for one in model.opset_import} == {""} and not model.functions
            assert str(Path(headway.__file__).parent).encode() not in path.read_bytes()


def test_shapes_are_known_before_the_graph_runs_and_programs_find_the_gelu(exported: Callable):
    shapes, halved = 0, 0
    for kind in KINDS:
        for path in exported(kind)[1].out.glob("*.onnx"):
            graph = onnx.load(path).graph
            makers = {name: node.op_type for node in graph.node for name in node.output}
            inputs = {name: list(node.input) for node in graph.node for name in node.output}
            for node in graph.node:
                if node.op_type == "Reshape":
                    assert node.input[1] not in makers, f"{kind}, {path.name}: {node.input[1]} is computed"
                    shapes += 1
                if node.op_type == "Erf":
                    (added,) = [name for name, given in inputs.items() if node.output[0] in given]
                    (product,) = [name for name, given in inputs.items() if added in given]
                    x = inputs[node.input[0]][0]
                    assert makers[added] == "Add" and makers[product] == "Mul"  # x (1 + erf(x / √2)), and then halved
                    assert inputs[product] == [x, added]
                    halved += 1
    assert shapes and halved


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
        for given, same in ((subject(source), True), (changed, False)):
            engine = open_engine("onnxruntime", found.out, given.model, "float32")
            difference = Comparison(given).of(engine, None).max_difference
            assert difference < 1e-4 if same else difference > 1e-3, kind


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
    model = build_model(BaselineConfig("cnn", WORDS.vocab_size, 24), "encoder", 3)
    found = export(saved(initialise(model, 0, embedding_std=0.1), tmp_path / "a"), tmp_path / "b", to="onnx")
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


def changed_graph(graph: graphs.Graph) -> torch.onnx.ONNXProgram:
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
    assert same_ids(tokenizer, found.out, "they give") == (True, None)
    spec = json.loads((found.out / "tokenizer.json").read_text())
    spec["normalizer"] = None
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec))
    equal, problem = same_ids(tokenizer, tmp_path, "they give")
    assert not equal and problem.startswith("they give different ids for ")


def test_recurrent_models_are_refused(tmp_path: Path):
    model = build_model(BaselineConfig("lstm", WORDS.vocab_size, 24), "encoder", 3)
    source = saved(initialise(model, 0, embedding_std=0.1), tmp_path / "a")
    with pytest.raises(InputError, match=r"this is a baseline \(lstm\), and torch's exporter cannot write recurrent"):
        export(source, tmp_path / "b", to="onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_model_of_a_task_of_ones_own_is_refused(tmp_path: Path):
    model = nn.Linear(2, 2)
    model.config = OwnConfig(task="stars", vocab_size=7, d_model=4)  # type: ignore[assignment]
    said = target.problem(Subject(model, None, None, tmp_path))
    assert "encoders, decoders and encoder-decoders of Headway" in said


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from headway.formats import registry

    monkeypatch.setattr(registry, "find_spec", lambda name: None if name == "onnxscript" else name)
    with pytest.raises(InputError, match=r"--to onnx needs onnxscript: pip install 'headway\[export\]'"):
        export(tmp_path, tmp_path / "b", to="onnx")


def test_openvino_is_not_needed(exported: Callable, monkeypatch: pytest.MonkeyPatch):
    source, found = exported("classifier")
    monkeypatch.setattr(target, "find_spec", lambda name: None)
    parity = target.compare(subject(source), found.out, "float32")
    assert parity.passed and not parity.notes


def test_an_openvino_that_cannot_be_imported_is_no_fault_of_the_export(
    exported: Callable, monkeypatch: pytest.MonkeyPatch
):
    source, found = exported("classifier")

    def broken(path: Path) -> None:
        raise ImportError("libopenvino.so.1: cannot open")

    monkeypatch.setattr(target, "OpenVinoSession", broken)
    parity = target.compare(subject(source), found.out, "float32")
    assert parity.passed and "was not run, since it cannot be imported: libopenvino" in parity.notes[-1]


def test_a_process_that_ran_openvino_can_be_interrupted(exported: Callable):
    """Two of OpenVINO's cores, of which the first goes first, leave a freed stack to the next signal."""
    _, found = exported("classifier")
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from headway.formats.onnx.sessions import OpenVinoSession as Opened\n"
        "first, second = (Opened(Path(sys.argv[1])) for _ in range(2))\n"
        "del first; del second\n"
        "try: os.kill(os.getpid(), signal.SIGINT); signal.pause()\n"
        "except KeyboardInterrupt: print('interrupted')"
    )
    words = [sys.executable, "-c", code, str(found.out / "model.onnx")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.strip()) == (0, "interrupted"), done.stderr


def test_a_disk_that_fills_while_weights_are_rounded(
    exported: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """ONNX's shape inference writes a file without an error, which cannot be read then."""
    whole = onnx.shape_inference.infer_shapes_path

    def cut(model: str, output: str = "", *more: object, **options: object) -> None:
        whole(model, output, *more, **options)
        Path(output).write_bytes(Path(output).read_bytes()[:-1000])

    monkeypatch.setattr("onnx.shape_inference.infer_shapes_path", cut)
    with pytest.raises(InputError, match=r"written \(a file is shorter than what was written\); .* are free"):
        export(exported("classifier")[0], tmp_path / "b", to="onnx", precision="int8")
    assert not list(tmp_path.iterdir())


class Turning(nn.Module):
    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return input_ids if int(input_ids.sum()) > 3 else attention_mask


def test_a_model_that_cannot_be_traced_is_one_message(
    exported: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    source, _ = exported("classifier")
    graph = graphs.graphs_of(load_model(source))[0]
    inputs = {name: graph.inputs[name] for name in ("input_ids", "attention_mask")}
    monkeypatch.setattr(target, "graphs_of", lambda *_: [graphs.Graph("model.onnx", Turning(), inputs, ["y"])])
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
    for precision in FORMATS["onnx"].precisions:
        found = export(source, tmp_path / precision, to="onnx", precision=precision)
        assert found.parity.passed and (tmp_path / precision / "model.onnx.data").stat().st_size > 1000
        assert "model.onnx.data" in json.loads((tmp_path / precision / "headway_export.json").read_text())["files"]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "door"), MODELS)
def test_every_family_is_exported(name: str, door: str, tmp_path: Path):
    found = export(made(name, door, tmp_path / "a"), tmp_path / "b", to="onnx")
    assert found.parity.passed, found.parity
    assert found.parity.tokens_equal is not False
