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
from headway.workflows.export.gguf_model import ARCHITECTURES, PLAIN, tensors
from headway.workflows.export.gguf_tokenizer import Inexpressible, entries_of
from headway.workflows.export.llama_process import compare_with_llama, why_not_run
from headway.workflows.export.modelfile import MODELFILE, ends_of, modelfile, turn_end
from headway.workflows.export.parity import Parity
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
    Content(subject)


def write(subject: Subject, directory: Path, precision: str) -> None:
    """``model.gguf`` with the tokenizer and its chat template, and ``Modelfile``."""
    content = Content(subject, precision)
    write_whole(directory / FILE, content.write)
    text = modelfile(subject, FILE, content.context, content.entries.begin is not None)
    write_whole(directory / MODELFILE, lambda path: path.write_text(text, encoding="utf-8"))


def compare(subject: Subject, directory: Path, precision: str) -> Parity:
    """Through llama.cpp: ids of 1,000 lines, logits and greedy tokens, or the vectors of texts.

    Where llama-cpp-python is missing or cannot be imported: every tensor and every setting of the file, as ``gguf``
    reads them.
    """
    content = Content(subject, precision)
    notes = tuple(content.notes(directory))
    if (reason := why_not_run()) is not None:
        return content.read_back(directory, (f"llama.cpp was not run: {reason}", *notes))
    return compare_with_llama(subject, directory / FILE, content.architecture, content.entries, precision, notes)


class Content:
    """What a file holds of a model.  Raises InputError for a model or a tokenizer that llama.cpp does not have."""

    def __init__(self, subject: Subject, precision: str = "float32"):
        self.subject, self.model, self.tokenizer = subject, subject.model, subject.tokenizer
        self.precision, self.kind = precision, KINDS[precision]
        family, place = check_family(subject), subject.directory
        architecture = ARCHITECTURES.get(family)
        if architecture is None:
            raise InputError(
                f"{place}: this model is {family}, and llama.cpp runs the families {', '.join(ARCHITECTURES)}"
                f"{layout_advice(subject.model)}."
            )
        if problem := architecture.problem(subject.model):
            raise InputError(f"{place}: {problem}.")
        if subject.tokenizer is None:
            raise InputError(f"{place}: llama.cpp reads texts, and this model has no tokenizer.")
        try:
            self.entries = entries_of(subject.tokenizer, subject.model.config.vocab_size)
        except Inexpressible as error:
            raise InputError(f"{place}: {error}.") from None
        if architecture.causal and not ends_of(subject):
            raise InputError(f"{place}: its tokenizer has no token that ends a text, and llama.cpp needs one.")
        self.architecture = architecture

    @property
    def context(self) -> int:
        """The tokens that llama.cpp may read."""
        return self.architecture.context(self.model.config)

    def write(self, path: Path) -> None:
        """Write the file."""
        import gguf

        writer = gguf.GGUFWriter(path, self.architecture.name)
        try:
            for key, value in self.settings().items():
                if value in ("", []):
                    continue
                whole = type(value) is int  # llama.cpp expects such numbers without a sign
                kind = gguf.GGUFValueType.UINT32 if whole else gguf.GGUFValueType.get_type(value)
                writer.add_key_value(key, value, kind)
            for name, tensor in tensors(self.model, self.architecture).items():
                values = np.ascontiguousarray(tensor.detach().float().numpy())
                stored = gguf.GGMLQuantizationType[self._kind(name, values.shape)]
                plain = stored == gguf.GGMLQuantizationType.F32
                writer.add_tensor(name, values if plain else gguf.quants.quantize(values, stored), raw_dtype=stored)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
        finally:
            writer.close()

    def settings(self) -> dict[str, Any]:
        """All entries of the file, by their whole names."""
        import gguf

        kind, architecture = self.kind, self.architecture
        file_type = gguf.LlamaFileType.ALL_F32 if kind == "F32" else gguf.LlamaFileType[f"MOSTLY_{kind}"]
        found: dict[str, Any] = {
            "general.name": self.subject.directory.name or "model",
            "general.file_type": int(file_type),
            "general.quantization_version": int(gguf.GGML_QUANT_VERSION),
            **{f"{architecture.name}.{key}": value for key, value in architecture.settings(self.model).items()},
            **self._tokenizer_settings(),
        }
        if not architecture.causal:
            found["tokenizer.ggml.token_type_count"] = max(1, self.model.config.segments)
        return found

    def _ends(self) -> tuple[int | None, int | None]:
        """The tokens that the file says to end a text, and a turn: it has room for one of each."""
        found = [self.entries.end, self.tokenizer.end_of_text, *ends_of(self.subject)]
        return next((number for number in found if number is not None), None), turn_end(self.tokenizer)

    def _tokenizer_settings(self) -> dict[str, Any]:
        tokenizer, entries = self.tokenizer, self.entries
        begin = entries.begin if entries.begin is not None else tokenizer.begin_of_text
        end, turn = self._ends()
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

    def _kind(self, name: str, shape: tuple[int, ...]) -> str:
        """The type in which a tensor is stored."""
        if len(shape) < 2 or name.startswith(PLAIN):
            return "F32"
        return "F16" if self.kind == "Q8_0" and shape[-1] % BLOCK else self.kind

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
        if self.kind == "Q8_0" and any(p.dim() == 2 and p.shape[1] % BLOCK for p in self.model.parameters()):
            yield f"matrices whose rows are no multiple of {BLOCK} are stored as float16, since Q8_0 cannot hold them"
        if more := sorted({*ends_of(self.subject)} - {*self._ends()}):
            tokens = ", ".join(self.tokenizer.tokens[number] for number in more)
            yield f"a text ends at {tokens} too: Modelfile says so, and llama.cpp takes it as a stop string"
        template = self.tokenizer.chat_template
        if template is not None and "TEMPLATE" not in (directory / MODELFILE).read_text(encoding="utf-8"):
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
        originals = tensors(self.model, self.architecture)
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
        if problem is None and self.kind == "F32" and largest != 0.0:
            problem = "the file's tensors are not what was written"
        return Parity(
            largest,
            over=f"{len(originals)} tensors",
            bound=0.0 if self.kind == "F32" else None,
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
