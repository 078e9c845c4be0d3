"""A GGUF file, which llama.cpp and programs built on it read, and a Modelfile for Ollama.

The model is written by the ``gguf`` package from our own weights, and read back by llama.cpp where llama-cpp-python is
installed; otherwise by ``gguf`` itself, which shows that the file holds the weights, but not that llama.cpp computes
the same.  Letters: B batch, T length, D width, V vocabulary.
"""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from headway.errors import InputError
from headway.io.atomic_write import write_whole
from headway.workflows.export.gguf_model import ARCHITECTURES, PLAIN, Architecture, architecture_of, tensors
from headway.workflows.export.gguf_tokenizer import Inexpressible, TokenizerEntries, entries_of
from headway.workflows.export.modelfile import MODELFILE, ends_of, modelfile, turn_end
from headway.workflows.export.parity import Parity
from headway.workflows.export.run_llama import compare_with_llama, why_not_run
from headway.workflows.export.target import Subject, check_family, layout_advice

FILE = "model.gguf"
KINDS = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "int8": "Q8_0"}
"""The precision -> the type of the matrices; norms, biases and small tables stay F32."""
BLOCK = 32
"""Q8_0 stores this many numbers with one scale; a matrix whose rows are no multiple of it is stored as F16."""


def refuse(subject: Subject) -> None:
    """Raise InputError for a model, a tokenizer or inputs that llama.cpp does not have."""
    if getattr(subject.pipe, "reads_pairs", False):
        raise InputError(f"{subject.directory}: this model reads pairs of texts, and llama.cpp has no second segment.")
    _entries(subject, _architecture(subject))


def write(subject: Subject, directory: Path, precision: str) -> None:
    """``model.gguf`` with the tokenizer and its chat template, and ``Modelfile``."""
    architecture = _architecture(subject)
    entries = _entries(subject, architecture)
    write_whole(directory / FILE, lambda path: _write_gguf(path, subject, architecture, entries, precision))
    text = modelfile(subject, FILE, architecture.context(subject.model.config), entries.begin is not None)
    write_whole(directory / MODELFILE, lambda path: path.write_text(text, encoding="utf-8"))


def compare(subject: Subject, directory: Path, precision: str) -> Parity:
    """Through llama.cpp: ids of 1,000 lines, logits and greedy tokens, or the vectors of texts.

    Where llama-cpp-python is missing or cannot be imported: every tensor and every setting of the file, as ``gguf``
    reads them.
    """
    architecture = _architecture(subject)
    entries = _entries(subject, architecture)
    notes = tuple(_notes(subject, architecture, entries, directory, precision))
    if (reason := why_not_run()) is not None:
        notes = (f"llama.cpp was not run: {reason}", *notes)
        return _read_back(subject, architecture, entries, directory, precision, notes)
    return compare_with_llama(subject, directory / FILE, architecture, entries, precision, notes)


def _architecture(subject: Subject) -> Architecture:
    family = check_family(subject)
    architecture = architecture_of(family)
    if architecture is None:
        raise InputError(
            f"{subject.directory}: this model is {family}, and llama.cpp runs the families {', '.join(ARCHITECTURES)}"
            f"{layout_advice(subject.model)}."
        )
    if problem := architecture.problem(subject.model):
        raise InputError(f"{subject.directory}: {problem}.")
    return architecture


def _entries(subject: Subject, architecture: Architecture) -> TokenizerEntries:
    if subject.tokenizer is None:
        raise InputError(f"{subject.directory}: llama.cpp reads texts, and this model has no tokenizer.")
    try:
        found = entries_of(subject.tokenizer, subject.model.config.vocab_size)
    except Inexpressible as error:
        raise InputError(f"{subject.directory}: {error}.") from None
    if architecture.causal and not ends_of(subject):
        raise InputError(f"{subject.directory}: its tokenizer has no token that ends a text, and llama.cpp needs one.")
    return found


def _write_gguf(
    path: Path, subject: Subject, architecture: Architecture, entries: TokenizerEntries, precision: str
) -> None:
    import gguf

    writer = gguf.GGUFWriter(path, architecture.name)
    try:
        for key, value in _settings(subject, architecture, entries, precision).items():
            _add(writer, key, value)
        for name, data, kind in _stored(subject, architecture, precision):
            writer.add_tensor(name, data, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def _settings(
    subject: Subject, architecture: Architecture, entries: TokenizerEntries, precision: str
) -> dict[str, Any]:
    """All entries of the file, by their whole names."""
    import gguf

    kind = KINDS[precision]
    file_type = gguf.LlamaFileType.ALL_F32 if kind == "F32" else gguf.LlamaFileType[f"MOSTLY_{kind}"]
    found: dict[str, Any] = {
        "general.name": subject.directory.name or "model",
        "general.file_type": int(file_type),
        "general.quantization_version": int(gguf.GGML_QUANT_VERSION),
        **{f"{architecture.name}.{key}": value for key, value in architecture.settings(subject.model).items()},
        **_tokenizer_settings(subject, entries),
    }
    if not architecture.causal:
        found["tokenizer.ggml.token_type_count"] = max(1, subject.model.config.segments)
    return found


def _ends_in_file(subject: Subject, entries: TokenizerEntries) -> tuple[int | None, int | None]:
    """The tokens that the file says to end a text, and a turn: it has room for one of each."""
    tokenizer = subject.tokenizer
    found = [entries.end, tokenizer.end_of_text, *ends_of(subject)]
    end = next((number for number in found if number is not None), None)
    return end, turn_end(tokenizer)


def _tokenizer_settings(subject: Subject, entries: TokenizerEntries) -> dict[str, Any]:
    tokenizer = subject.tokenizer
    begin = entries.begin if entries.begin is not None else tokenizer.begin_of_text
    end, turn = _ends_in_file(subject, entries)
    ids = {
        "bos": begin if begin is not None else end,
        "eos": end,
        "eot": turn,
        "unknown": tokenizer.unknown,
        "padding": tokenizer.pad,
        "seperator": tokenizer.sep,  # llama.cpp spells it so
        "mask": tokenizer.mask,
        "cls": tokenizer.cls,
    }
    found: dict[str, Any] = {
        "model": entries.model,
        "pre": entries.pre,
        "tokens": entries.tokens,
        "token_type": entries.types,
        "merges": entries.merges,
        "scores": entries.scores,
        **{f"{role}_token_id": number for role, number in ids.items()},
        "add_bos_token": entries.begin is not None,
        "add_eos_token": entries.end is not None,
        "add_sep_token": entries.model == "bert" and entries.end is not None,
        **entries.flags,
    }
    named = {f"tokenizer.ggml.{key}": value for key, value in found.items() if value is not None}
    template = tokenizer.chat_template
    return named if template is None else {**named, "tokenizer.chat_template": template}


def _add(writer: Any, key: str, value: Any) -> None:
    """An entry with the type that llama.cpp expects of such a value."""
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def _stored(subject: Subject, architecture: Architecture, precision: str) -> Iterator[tuple[str, Any, Any]]:
    """(name, data in the type that is stored, that type) of every tensor."""
    import gguf

    for name, tensor in tensors(subject.model, architecture).items():
        values = np.ascontiguousarray(tensor.detach().float().numpy())
        kind = gguf.GGMLQuantizationType[_kind(name, values.shape, precision)]
        data = values if kind == gguf.GGMLQuantizationType.F32 else gguf.quants.quantize(values, kind)
        yield name, data, kind


def _kind(name: str, shape: tuple[int, ...], precision: str) -> str:
    """The type in which a tensor is stored."""
    kind = KINDS[precision]
    if len(shape) < 2 or name.startswith(PLAIN):
        return "F32"
    return "F16" if kind == "Q8_0" and shape[-1] % BLOCK else kind


def _notes(
    subject: Subject, architecture: Architecture, entries: TokenizerEntries, directory: Path, precision: str
) -> Iterator[str]:
    """What the user should know of this file."""
    config: Any = subject.model.config
    for limit in entries.limits:
        yield f"llama.cpp gives other ids for texts {limit.words}"
    if (context := architecture.context(config)) < config.max_length:
        yield (
            f"its layers attend to the last {context:,} tokens, which llama.cpp does not do: it reads {context:,} "
            f"tokens instead of {config.max_length:,}"
        )
    if precision == "int8" and any(
        weight.dim() == 2 and weight.shape[1] % BLOCK for weight in subject.model.parameters()
    ):
        yield f"matrices whose rows are no multiple of {BLOCK} are stored as float16, since Q8_0 cannot hold them"
    if more := sorted({*ends_of(subject)} - {*_ends_in_file(subject, entries)}):
        tokens = ", ".join(subject.tokenizer.tokens[number] for number in more)
        yield f"a text ends at {tokens} too: Modelfile says so, and llama.cpp takes it as a stop string"
    template = None if subject.tokenizer is None else subject.tokenizer.chat_template
    if template is not None and "TEMPLATE" not in (directory / MODELFILE).read_text(encoding="utf-8"):
        yield (
            "the chat template is in model.gguf, where llama.cpp uses it; Modelfile has none, because Ollama's "
            "language for templates cannot express it: continue texts with Ollama, or write TEMPLATE yourself"
        )


def _read_back(
    subject: Subject,
    architecture: Architecture,
    entries: TokenizerEntries,
    directory: Path,
    precision: str,
    notes: tuple[str, ...],
) -> Parity:
    """Every tensor and every entry of the file, as ``gguf`` reads it."""
    import gguf

    reader = gguf.GGUFReader(directory / FILE)
    wanted = _settings(subject, architecture, entries, precision)
    different = [key for key, value in wanted.items() if not _equal(reader.get_field(key), value)]
    stored = {tensor.name: tensor for tensor in reader.tensors}
    originals = tensors(subject.model, architecture)
    problem, largest = None, 0.0
    if different:
        problem = f"the file's entry {different[0]} is not what was written"
    elif stored.keys() != originals.keys():
        problem = f"the file lacks the tensor {min(originals.keys() - stored.keys(), default='?')}"
    else:
        for name, tensor in originals.items():
            found = gguf.quants.dequantize(stored[name].data, stored[name].tensor_type)
            original = tensor.detach().float().numpy()
            if found.shape != original.shape:
                problem = f"the file's tensor {name} has shape {list(found.shape)}, expected {list(original.shape)}"
                break
            largest = max(largest, float(np.abs(found - original).max(initial=0.0)))
    if problem is None and precision == "float32" and largest != 0.0:
        problem = "the file's tensors are not what was written"
    return Parity(
        largest,
        over=f"{len(originals)} tensors",
        bound=0.0 if precision == "float32" else None,
        problem=problem,
        reader="gguf",
        version=version("gguf"),
        door=f'gguf.GGUFReader("{FILE}")',
        notes=notes,
    )


def _equal(field: Any, value: Any) -> bool:
    """Whether an entry that was read holds a value."""
    if field is None:
        return False
    found = field.contents()
    if isinstance(value, float):
        return bool(np.float32(value) == np.float32(found))
    return bool(found == value)
