"""ONNX graphs of a model, compared with it by running them in ONNX Runtime, and in OpenVINO where it is installed.

The graphs (``formats.onnx.graphs``) are traced by torch's exporter; beside them lie ``config.json``,
``generation_config.json`` and the tokenizer's files, as in a Hugging Face directory.  In int8, matrices have a scale
and a zero for each output, tables of vectors one for the whole table, and what they are multiplied with is rounded
while the graph runs.
"""

import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headway.errors import InputError
from headway.formats.compare import Comparison
from headway.formats.hf.export import label_names, write_processor
from headway.formats.onnx.engine import PAST_NAME, SEGMENTS, GraphEngine, Open, onnxruntime_opens
from headway.formats.onnx.graphs import Graph, graphs_of
from headway.formats.onnx.sessions import OnnxRuntimeSession, OpenVinoSession
from headway.formats.parity import BOUND, Parity, same_ids
from headway.formats.registry import FLOAT32
from headway.formats.subject import Subject
from headway.hub.directory import has_family, padding_entry, read_json, save_config
from headway.hub.download import one_line
from headway.hub.kept_entries import CONFIG, GENERATION
from headway.io.atomic_write import write_json
from headway.models.baselines import BaselineConfig
from headway.models.transformer import Decoder, Encoder, EncoderDecoder

OPSET = 18
"""The version of ONNX's operations: ONNX Runtime (its web build too) and OpenVINO read it."""
QUANTIZED = ["MatMul", "Gather"]
"""The operations whose weights are int8: products with matrices, and reading of tables of vectors."""
NO_TOKENIZER = (
    "its tokenizer has no tokenizer.json: sentencepiece reads the files that it has, and ids were not compared"
)
SAME = 0
"""In the shape that a Reshape gets: as in its input."""


def problem(subject: Subject) -> str | None:
    """Why the model is recurrent, or one that only the package of its task can build."""
    config = getattr(subject.model, "config", None)
    if isinstance(config, BaselineConfig) and config.recurrent:
        return (
            f"this is {config.described}, and torch's exporter cannot write recurrent layers for texts of any length; "
            "Transformers, CNNs and bags of words can be exported to onnx"
        )
    if isinstance(subject.model, Encoder | Decoder | EncoderDecoder):
        return None
    described = getattr(config, "described", type(subject.model).__name__)
    return f"this is {described}; encoders, decoders and encoder-decoders of Headway can be exported to onnx"


def write(subject: Subject, directory: Path, precision: str) -> None:
    """The graphs, ``config.json`` with the names of the labels, ``generation_config.json``, and the processor's files.

    Weights of more than 2 GB are in a file of their own beside their graph.  Raises InputError for a model that torch
    cannot trace.
    """
    import onnx

    model: Any = subject.model
    known = getattr(subject.pipe, "max_length", None) or (subject.tokenizer and subject.tokenizer.max_length)
    write_processor(subject, directory, known or getattr(model, "encoder_config", model.config).max_length)
    for graph in graphs_of(model, _input_names(directory)):
        try:
            with _quiet():
                program = traced(graph)
        except torch.onnx.OnnxExporterError as error:
            cause = one_line(error.__cause__ or error)
            raise InputError(f"{subject.directory}: torch cannot trace this model for onnx: {cause}") from None
        if precision == FLOAT32:
            program.save(directory / graph.file)
        else:
            with tempfile.TemporaryDirectory(dir=directory) as folder, _quiet():
                _quantize(program, Path(folder) / graph.file, directory / graph.file)
        onnx.checker.check_model(str(directory / graph.file))
    _write_config(subject, directory)


def _input_names(directory: Path) -> list[str]:
    """The names of the inputs that a directory's tokenizer gives; none where it has no tokenizer."""
    path = directory / "tokenizer_config.json"
    return list(read_json(path)["model_input_names"]) if path.is_file() else []


@torch.no_grad()
def traced(graph: Graph) -> torch.onnx.ONNXProgram:
    """A graph as ONNX.  Raises torch.onnx.OnnxExporterError for one that torch cannot trace."""
    from onnxscript import ir

    examples: dict[str, Any] = {}
    axes: dict[str, Any] = {}
    for name, value in graph.inputs.items():
        group = _group(name)
        if group is None:
            examples[name], axes[name] = value.example, value.axes
        else:
            examples.setdefault(group, []).append(value.example)
            axes.setdefault(group, []).append(value.axes)
    program: Any = torch.onnx.export(
        graph.module.eval(),
        tuple(examples.values()),
        dynamo=True,
        input_names=list(graph.inputs),
        output_names=graph.outputs,
        dynamic_shapes=tuple(axes.values()),
        opset_version=OPSET,
        verbose=False,
    )
    # the exporter notes where it found each operation, with the names of files of this machine
    ir.passes.common.ClearMetadataAndDocStringPass()(program.model)
    simplify(program.model)
    return program


def _group(name: str) -> str | None:
    """The argument of a graph's module that an input is a part of; None: the input is an argument itself."""
    if not name.startswith(PAST_NAME):
        return None
    return "source" if ".encoder." in name else "past"


def _quantize(program: Any, whole: Path, to: Path) -> None:
    """Write the graph of a program in int8; ``whole`` is where it may lie in float32 until then."""
    from google.protobuf.message import DecodeError
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxscript import optimizer

    # A matrix is transposed in the graph; only one that is stored transposed is found by the quantizer.
    limit = 1 << 40
    optimizer.optimize_ir(program.model, input_size_limit=limit, output_size_limit=limit)
    program.save(whole)
    large = whole.with_name(f"{whole.name}.data").exists()
    try:
        # unsigned: on processors without VNNI, signed products may overflow
        quantize_dynamic(
            whole,
            to,
            op_types_to_quantize=QUANTIZED,
            per_channel=True,
            weight_type=QuantType.QUInt8,
            use_external_data_format=large,
        )
    except DecodeError:  # it reads a file that ONNX's shape inference wrote, without an error where the disk is full
        raise OSError("a file is shorter than what was written") from None


def _write_config(subject: Subject, directory: Path) -> None:
    named = label_names(subject.pipe)
    if has_family(subject.model):
        save_config(subject.model, directory, **named, **padding_entry(subject.model, subject.tokenizer))
    else:
        write_json(directory / CONFIG, {**read_json(subject.directory / CONFIG), **named})
    if not (directory / GENERATION).exists():
        whole = (subject.directory / GENERATION).is_file()
        generation = read_json(subject.directory / GENERATION) if whole else _generation(subject.pipe)
        if generation:
            write_json(directory / GENERATION, generation)


def _generation(pipe: Any) -> dict[str, Any]:
    """The tokens that start and end a text, of a model whose directory does not say so in a file of its own."""
    rules = getattr(pipe, "rules", None)
    if rules is None:
        return {"eos_token_id": sorted(pipe.ends)} if hasattr(pipe, "ends") else {}
    starts = zip(("decoder_start_token_id", "forced_bos_token_id"), rules.start, strict=False)
    return {**dict(starts), "eos_token_id": list(rules.end)}


def compare(subject: Subject, directory: Path, precision: str) -> Parity:
    """Run the graphs in ONNX Runtime, and in OpenVINO where it is installed, and compare them with the model.

    It compares the outputs for random inputs of several sizes, with padding; the answers to 32 texts, which a decoder
    writes token by token with its cache; and the ids that ``tokenizers`` gives to 1,000 lines.
    """
    program = f"ONNX Runtime {version('onnxruntime')}"
    parity = Parity(
        reader="ONNX Runtime",
        version=version("onnxruntime"),
        needs="headway[export]",
        door=", ".join(f'InferenceSession("{graph.file}")' for graph in graphs_of(subject.model)),
    )
    bound, names = BOUND if precision == FLOAT32 else None, _input_names(directory)

    def compared(session: Open) -> Parity:
        engine = GraphEngine(program, precision, directory, subject.model, session)
        reads = [name for name in (engine.source or engine.session).shapes if PAST_NAME not in name]
        if names and set(reads) != set(names):
            raise ValueError(f"it reads {', '.join(reads)}, and its tokenizer gives {', '.join(names)}")
        return comparison.of(engine, bound)

    try:
        comparison = Comparison(subject, segments=SEGMENTS in names)
        result = compared(OnnxRuntimeSession)
        opened = onnxruntime_opens(subject.model)  # as --engine onnxruntime reads it
        by_engine = result if opened is OnnxRuntimeSession else compared(opened)
        equal, ids = same_ids(subject.tokenizer, directory, "the tokenizers give")
    except Exception as error:  # any error means that other programs cannot use the directory
        return parity.unusable(error, program)
    problems = [f"in ONNX Runtime {result.problem}"] if result.problem else []
    if by_engine.problem and not problems:
        problems = [f"by --engine onnxruntime {by_engine.problem}"]
    problems += [ids] if ids else []
    notes = [*result.notes, *([NO_TOKENIZER] if subject.tokenizer is not None and equal is None else [])]
    if find_spec("openvino") is not None:
        name = f"OpenVINO {version('openvino').partition('-')[0]}"
        try:
            other = compared(OpenVinoSession)
            problems += [f"in {name} {other.problem}"] if other.problem else []
            same, of = other.agreement or (0, 0)
            answers = f", {same:,} of {of:,} answers equal" if of else ""
            notes.append(f"read through {name} too: max_difference {other.max_difference:.2g}{answers}")
        except ImportError as error:
            notes.append(f"{name} was not run, since it cannot be imported: {one_line(error)}")
        except Exception as error:
            problems.append(f"{name} cannot use it: {one_line(error)}")
    return parity.holding(result, *problems, tokens_equal=equal, notes=tuple(notes))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings of the exporters, which are about their own code."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)


def simplify(model: Any) -> None:
    """Give each Reshape the shape that is known, and each GELU the order that programs look for, to fuse it.

    torch's exporter computes shapes while the graph runs.  ``model`` is an ``onnx_ir.Model``.
    """
    from onnxscript import ir
    from onnxscript.rewriter import RewriteRule, RewriteRuleSet

    for node in model.graph:
        if node.op_type == "Reshape" and (shape := _known_shape(node)) is not None:
            node.replace_input_with(1, _constant(ir, model, f"{node.outputs[0].name}_shape", shape))
            node.attributes.pop("allowzero", None)
    RewriteRuleSet([RewriteRule(_exported_gelu, _usual_gelu)]).apply_to_model(model)
    ir.passes.common.RemoveUnusedNodesPass()(model)


def _exported_gelu(op: Any, x: Any, half: Any, root: Any, one: Any) -> Any:
    return op.Mul(x, op.Mul(half, op.Add(op.Erf(op.Div(x, root)), one)))


def _usual_gelu(op: Any, x: Any, half: Any, root: Any, one: Any) -> Any:
    return op.Mul(op.Mul(x, op.Add(op.Erf(op.Div(x, root)), one)), half)


def _known_shape(node: Any) -> list[int] | None:
    """The shape that a Reshape gives, with 0 where it is its input's; None where that does not say all of it."""
    before, after = node.inputs[0].shape, node.outputs[0].shape
    if before is None or after is None:
        return None
    shape = []
    for place, size in enumerate(after):
        if isinstance(size, int):
            shape.append(size)
        elif place < len(before) and size.value is not None and before[place] == size:
            shape.append(SAME)
        else:
            shape.append(-1)
    return shape if shape.count(-1) <= 1 and 0 not in (size for size in after if isinstance(size, int)) else None


def _constant(ir: Any, model: Any, name: str, numbers: list[int]) -> Any:
    value = ir.val(name, const_value=ir.tensor(np.array(numbers, dtype=np.int64), name=name))
    model.graph.register_initializer(value)
    return value
