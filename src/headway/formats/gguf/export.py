"""A GGUF file, which llama.cpp and programs built on it read, and a Modelfile for Ollama.

The model is written by the ``gguf`` package from our own weights, and read back by llama.cpp where llama-cpp-python is
installed; otherwise by ``gguf`` itself, which shows that the file holds the weights, but not that llama.cpp computes
the same.  Letters: B batch, T length, D width, V vocabulary.
"""

from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headway.formats.compare import TEXTS, Comparison
from headway.formats.gguf.architectures import ARCHITECTURES, PLAIN
from headway.formats.gguf.engine import FILE
from headway.formats.gguf.modelfile import MODELFILE, ends_of, modelfile, turn_end
from headway.formats.gguf.process import LIBRARY, Ended, LlamaProcess, llama_process, why_not_run
from headway.formats.gguf.tokenizer import Inexpressible, entries_of
from headway.formats.parity import BOUND, Parity, compare_ids, lines
from headway.formats.subject import Subject
from headway.io.atomic_write import write_whole

TYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "int8": "Q8_0"}
"""The precision -> the type of the matrices; norms, biases and small tables stay F32."""
WRITTEN = 16
"""How many texts are continued."""
MOST_CONTEXT = 512
"""Tokens that llama.cpp reads to be compared."""
TABLE_BOUND = 2e-2
"""The largest difference where llama.cpp looks GELU up in a table of float16, which is less exact than the rest."""
BLOCK = 32
"""Q8_0 stores this many numbers with one scale; a matrix whose rows are no multiple of it is stored as F16."""


def problem(subject: Subject) -> str | None:
    """What of the model, its tokenizer or its inputs llama.cpp does not have."""
    if getattr(subject.pipe, "reads_pairs", False):
        return "this model reads pairs of texts, and llama.cpp has no second segment"
    if subject.no_family:
        return subject.no_family
    if (architecture := ARCHITECTURES.get(str(subject.family))) is None:
        families = f"llama.cpp runs the families {', '.join(ARCHITECTURES)}"
        return f"this model is {subject.family}, and {families}{subject.layout_advice}"
    if lacking := architecture.problem(subject.model):
        return lacking
    if subject.tokenizer is None:
        return "llama.cpp reads texts, and this model has no tokenizer"
    try:
        entries_of(subject.tokenizer, subject.model.config.vocab_size)
    except Inexpressible as error:
        return str(error)
    if architecture.causal and not ends_of(subject):
        return "its tokenizer has no token that ends a text, and llama.cpp needs one"
    return None


def write(subject: Subject, directory: Path, precision: str) -> None:
    """``model.gguf`` with the tokenizer and its chat template, and ``Modelfile``."""
    content = Content(subject, precision)
    write_whole(directory / FILE, content.write)
    text = modelfile(subject, FILE, content.context, content.entries.begin is not None)
    write_whole(directory / MODELFILE, lambda path: path.write_text(text, encoding="utf-8"))


def compare(subject: Subject, directory: Path, precision: str) -> Parity:
    """Through llama.cpp: ids of 1,000 lines, logits and greedy tokens, or the vectors of texts.

    Where llama-cpp-python is missing or cannot be imported: every tensor and every setting of the file, as ``gguf``
    reads them.  Lines are those that llama.cpp can read (``TokenizerEntries``).
    """
    content = Content(subject, precision)
    notes = tuple(content.notes(directory))
    if (reason := why_not_run()) is not None:
        return content.read_back(directory, (f"llama.cpp was not run: {reason}", *notes))
    tokenizer, causal, exact = subject.tokenizer, content.architecture.causal, content.architecture.exact
    texts, context = lines(tokenizer, content.entries.reads), min(MOST_CONTEXT, content.context)
    comparison = Comparison(subject, texts=WRITTEN if causal else TEXTS, context=context, segments=False)
    door = f'llama_cpp.Llama("{FILE}"' + (")" if causal else ", embedding=True)")
    parity = Parity(reader=LIBRARY, version=version(LIBRARY), needs=LIBRARY, door=door)
    bound = None if precision != "float32" else BOUND if exact else TABLE_BOUND
    config, threads = asdict(subject.model.config), torch.get_num_threads()
    try:
        with llama_process(str(directory / FILE), precision, context, threads, config, causal) as ask:
            theirs = [ask("tokenized", texts, special) for special in (False, True)]
            engine = LlamaProcess(subject.model, precision, ask, {} if causal else comparison.texts)
            result = comparison.of(engine, bound)
    except (Ended, ValueError) as error:
        return parity.unusable(error)
    ours = [tokenizer.encode_batch(texts, special=special) for special in (False, True)]
    equal, ids = compare_ids("llama.cpp gives", texts, zip(ours, theirs, strict=True))
    return parity.holding(result, result.problem, ids, tokens_equal=equal, notes=notes)


class Content:
    """What a file holds of a model that has no ``problem``."""

    def __init__(self, subject: Subject, precision: str):
        self.subject, self.model, self.tokenizer = subject, subject.model, subject.tokenizer
        self.type, self.architecture = TYPES[precision], ARCHITECTURES[str(subject.family)]
        self.entries = entries_of(subject.tokenizer, subject.model.config.vocab_size)
        self.context = self.architecture.context(self.model.config)
        """the tokens that llama.cpp may read"""
        ends = [self.entries.end, self.tokenizer.end_of_text, *ends_of(subject)]
        self.end = next((number for number in ends if number is not None), None)
        self.turn_end = turn_end(self.tokenizer)
        """the tokens that the file says to end a text, and a turn: it has room for one of each"""

    def write(self, path: Path) -> None:
        """Write the file."""
        import gguf

        writer = gguf.GGUFWriter(path, self.architecture.name)
        try:
            for key, value in self.settings().items():
                if value in ("", []):
                    continue
                whole = type(value) is int  # llama.cpp expects such numbers without a sign
                type_of = gguf.GGUFValueType.UINT32 if whole else gguf.GGUFValueType.get_type(value)
                writer.add_key_value(key, value, type_of)
            for name, tensor in self.architecture.tensors(self.model).items():
                values = np.ascontiguousarray(tensor.detach().float().numpy())
                stored = gguf.GGMLQuantizationType[self._type_of(name, values.shape)]
                plain = stored == gguf.GGMLQuantizationType.F32
                writer.add_tensor(name, values if plain else gguf.quants.quantize(values, stored), raw_dtype=stored)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
        finally:
            writer.close()

    def _type_of(self, name: str, shape: tuple[int, ...]) -> str:
        """The type in which a tensor is stored."""
        if len(shape) < 2 or name.startswith(PLAIN):
            return "F32"
        return "F16" if self.type == "Q8_0" and shape[-1] % BLOCK else self.type

    def settings(self) -> dict[str, Any]:
        """All entries of the file, by their whole names."""
        import gguf

        architecture = self.architecture
        types = gguf.LlamaFileType
        settings: dict[str, Any] = {
            "general.name": self.subject.directory.name or "model",
            "general.file_type": int(types.ALL_F32 if self.type == "F32" else types[f"MOSTLY_{self.type}"]),
            "general.quantization_version": int(gguf.GGML_QUANT_VERSION),
            **{f"{architecture.name}.{key}": value for key, value in architecture.settings(self.model).items()},
            **{f"tokenizer.ggml.{key}": value for key, value in self._of_tokenizer() if value is not None},
        }
        if self.tokenizer.chat_template is not None:
            settings["tokenizer.chat_template"] = self.tokenizer.chat_template
        if not architecture.causal:
            settings["tokenizer.ggml.token_type_count"] = max(1, self.model.config.segments)
        return settings

    def _of_tokenizer(self) -> Iterator[tuple[str, Any]]:
        tokenizer, entries = self.tokenizer, self.entries
        for key in ("model", "pre", "tokens", "token_type", "merges", "scores"):
            yield key, getattr(entries, key)
        begin = entries.begin if entries.begin is not None else tokenizer.begin_of_text
        yield "bos_token_id", begin if begin is not None else self.end
        yield "eos_token_id", self.end
        yield "eot_token_id", self.turn_end
        yield "unknown_token_id", tokenizer.unknown
        yield "padding_token_id", tokenizer.pad
        yield "seperator_token_id", tokenizer.sep  # llama.cpp spells it so
        yield "mask_token_id", tokenizer.mask
        yield "cls_token_id", tokenizer.cls
        yield "add_bos_token", entries.begin is not None
        yield "add_eos_token", entries.end is not None
        yield "add_sep_token", entries.model == "bert" and entries.end is not None
        yield from entries.flags.items()

    def notes(self, directory: Path) -> Iterator[str]:
        """What the user should know of this file."""
        config: Any = self.model.config
        for limit in self.entries.limits:
            yield f"llama.cpp gives other ids for texts {limit.words}"
        if self.context < config.max_length:
            yield (
                f"its layers attend to the last {self.context:,} tokens, which llama.cpp does not do: it reads "
                f"{self.context:,} tokens instead of {config.max_length:,}"
            )
        if self.type == "Q8_0" and any(p.dim() == 2 and p.shape[1] % BLOCK for p in self.model.parameters()):
            yield f"matrices whose rows are no multiple of {BLOCK} are stored as float16, since Q8_0 cannot hold them"
        if more := sorted({*ends_of(self.subject)} - {self.end, self.turn_end}):
            tokens = ", ".join(self.tokenizer.tokens[number] for number in more)
            yield f"a text ends at {tokens} too: Modelfile says so, and llama.cpp takes it as a stop string"
        has_template = self.tokenizer.chat_template is not None
        if has_template and "TEMPLATE" not in (directory / MODELFILE).read_text(encoding="utf-8"):
            yield (
                "the chat template is in model.gguf, where llama.cpp uses it; Modelfile has none, because Ollama's "
                "language for templates cannot express it: continue texts with Ollama, or write TEMPLATE yourself"
            )

    def read_back(self, directory: Path, notes: tuple[str, ...]) -> Parity:
        """Every tensor and every entry of the file, as ``gguf`` reads it."""
        import gguf

        reader = gguf.GGUFReader(directory / FILE)
        different = [key for key, value in self.settings().items() if not _equal(reader.get_field(key), value)]
        stored = {tensor.name: tensor for tensor in reader.tensors}
        originals = self.architecture.tensors(self.model)
        problem, largest = None, 0.0
        if different:
            problem = f"the file's entry {different[0]} is not what was written"
        elif stored.keys() != originals.keys():
            problem = f"the file lacks the tensor {min(originals.keys() - stored.keys(), default='?')}"
        else:
            for name, tensor in originals.items():
                here = tensor.detach().float().numpy()
                there = gguf.quants.dequantize(stored[name].data, stored[name].tensor_type)
                if there.shape != here.shape:
                    problem = f"the file's tensor {name} has shape {list(there.shape)}, expected {list(here.shape)}"
                    break
                largest = max(largest, float(np.abs(there - here).max(initial=0.0)))
        if problem is None and self.type == "F32" and largest != 0.0:
            problem = "the file's tensors are not what was written"
        return Parity(
            largest,
            over=f"{len(originals)} tensors",
            bound=0.0 if self.type == "F32" else None,
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
    return bool(np.float32(value) == np.float32(found) if isinstance(value, float) else found == value)
