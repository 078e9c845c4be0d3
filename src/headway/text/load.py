"""Find the tokenizer files of a directory and load the tokenizer that they describe."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers

from headway.errors import InputError, shown
from headway.io.regular_file import inside
from headway.io.strict_json import read_text
from headway.text.added_tokens import add_later
from headway.text.backend import Backend, IsolatedBackend, RustBackend
from headway.text.families.bert import load_bert
from headway.text.families.byte_level import load_byte_level
from headway.text.families.entries import AS_IT_IS, check_frame, follow
from headway.text.families.sentencepiece import load_llama, load_t5
from headway.text.families.translation import load_m2m100, load_marian
from headway.text.rust_errors import guarded
from headway.text.safe.expansion import check_tokens
from headway.text.safe.known import is_known
from headway.text.safe.tokenizer_json import MAX_BYTES, SAVE_AGAIN, check_largest, check_tokenizer, read_object
from headway.text.special_tokens import find_names, read_config

_CLASSES = {
    "vocab.txt": ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MobileBertTokenizer"),
    "merges.txt": ("GPT2Tokenizer", "RobertaTokenizer", "BartTokenizer", "DistilRobertaTokenizer"),
    "spiece.model": ("T5Tokenizer", "MT5Tokenizer"),
    "tokenizer.model": ("LlamaTokenizer",),
    "source.spm": ("MarianTokenizer",),
    "sentencepiece.bpe.model": ("M2M100Tokenizer",),
}
"""The tokenizer classes supported for each file; other classes interpret the same files differently."""

_ROBERTA = ("RobertaTokenizer", "BartTokenizer", "DistilRobertaTokenizer", "roberta", "bart")


class Loaded(NamedTuple):
    """The tokenizer of a directory.  ``path`` is the file that its errors name."""

    path: Path
    backend: Backend
    target: Backend | None
    names: dict[str, str]
    config: dict[str, Any]


def load(folder: Path, rows: int | None) -> Loaded:
    """Load the tokenizer of a directory; ``rows``: the number of rows of the model's embeddings, where known.

    Tried in this order: Marian (``source.spm``, ``target.spm``, ``vocab.json``), M2M-100 (``sentencepiece.bpe.model``,
    ``vocab.json``), ``tokenizer.json``, T5 (``spiece.model``), Llama (``tokenizer.model``), byte-level BPE
    (``vocab.json``, ``merges.txt``) and WordPiece (``vocab.txt``).  Raises InputError.
    """
    config = read_config(folder)
    _read_template(folder, config)
    path, backend, target, names = _read(folder, config, rows)
    loaded = Loaded(path, backend, target, names, config)
    largest = max(max(side.vocabulary.values()) for side in (backend, target or backend))
    check_largest(largest, rows, path)
    return loaded


def _read(
    folder: Path, config: dict[str, Any], rows: int | None
) -> tuple[Path, Backend, Backend | None, dict[str, str]]:
    here = {name for name in (*_CLASSES, "vocab.json", "tokenizer.json") if (folder / name).exists()}
    first: str | None = None
    if {"source.spm", "vocab.json"} <= here or {"sentencepiece.bpe.model", "vocab.json"} <= here:
        first = "source.spm" if "source.spm" in here else "sentencepiece.bpe.model"
        _check_class(folder, config, first)
        read = load_marian if first == "source.spm" else load_m2m100
        source, target, names = read(folder, config)
        return folder / first, source, target, names
    if "tokenizer.json" in here:
        path = inside(folder, "tokenizer.json")
        family = _class_of(folder, config)
        backend, parts = _load_json(path, rows, family, config)
        names = find_names(config, backend, folder)
        roles = names.values()
        side = RustBackend(backend, roles) if parts is None else IsolatedBackend(backend, roles, parts, str(path))
        check_frame(side, family, names, path)
        return path, side, None, names
    first = next(
        (name for name in ("spiece.model", "tokenizer.model", "merges.txt", "vocab.txt") if name in here), None
    )
    if first is None:
        raise InputError(f"{folder / 'tokenizer.json'}: no such file; {SAVE_AGAIN}")
    family = _check_class(folder, config, first)
    path = inside(folder, first)
    if first == "merges.txt":
        vocabulary = inside(folder, "vocab.json")
        made = load_byte_level(vocabulary, path, config, family in _ROBERTA)
    else:
        made = {"spiece.model": load_t5, "tokenizer.model": load_llama, "vocab.txt": load_bert}[first](path, config)
    return path, RustBackend(made[0]), None, made[1]


def _load_json(
    path: Path, rows: int | None, family: str, config: dict[str, Any]
) -> tuple[tokenizers.Tokenizer, dict[str, Any] | None]:
    """The tokenizer, and the parts of it that are left out since only another process may use them."""
    spec, text = read_object(path)
    check_tokenizer(spec, path, rows)
    followed = follow(spec, family, config, path)
    parts = None if is_known(spec) else {name: spec.get(name) for name in ("normalizer", "pre_tokenizer")}
    if followed or parts is not None:
        text = json.dumps({**spec, **dict.fromkeys(parts or ())})
    check_tokens(spec, path)
    backend = guarded(lambda: tokenizers.Tokenizer.from_str(text), f"{path}: cannot be loaded")
    for row in spec.get("added_tokens") or []:
        if backend.token_to_id(row["content"]) != row["id"]:
            raise InputError(
                f"{path}: added_tokens, id of {row['content']!r}: found {row['id']}, expected "
                f"{backend.token_to_id(row['content'])}: added ids follow those of model.vocab without a gap"
            )
    add_later(backend, config, path)
    return backend, parts


def _class_of(folder: Path, config: dict[str, Any]) -> str:
    """The tokenizer class that transformers takes with a ``tokenizer.json``; the model type where none is named."""
    model = _model_config(folder)
    kind, found = model.get("model_type"), _named_class(folder, config) or model.get("tokenizer_class")
    if isinstance(found, str) and found and kind not in AS_IT_IS:
        return found.removesuffix("Fast")
    return kind if isinstance(kind, str) else ""


def _named_class(folder: Path, config: dict[str, Any]) -> str:
    """The tokenizer class that ``tokenizer_config.json`` names; "" for none.  Raises InputError for what is no name."""
    found = config.get("tokenizer_class")
    if found is not None and not isinstance(found, str):
        raise InputError(f"{folder / 'tokenizer_config.json'}: tokenizer_class: found {shown(found)}, expected a name")
    return found or ""


def _model_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    return read_object(path)[0] if path.exists() else {}


def _check_class(folder: Path, config: dict[str, Any], file: str) -> str:
    """The tokenizer class or model type that a directory names; "" for none.

    Raises InputError for a class that interprets ``file`` differently.
    """
    found = _named_class(folder, config).removesuffix("Fast")
    if found:
        if found not in _CLASSES[file]:
            raise InputError(
                f"{folder / 'tokenizer_config.json'}: tokenizer_class: found {found[:40]!r}, expected "
                f"{' or '.join(_CLASSES[file])} with {file}; {SAVE_AGAIN} to get a tokenizer.json"
            )
        return found
    model = _model_config(folder).get("model_type")
    return model if isinstance(model, str) else ""


def _read_template(folder: Path, config: dict[str, Any]) -> None:
    """``chat_template.jinja`` takes precedence over the configuration; of several templates, "default" is used."""
    path = inside(folder, "chat_template.jinja")
    if path.exists():
        config["chat_template"] = read_text(path, max_bytes=MAX_BYTES, advice="expected a chat template")
    found = config.get("chat_template")
    if isinstance(found, list):
        named = [row.get("template") for row in found if isinstance(row, dict) and row.get("name") == "default"]
        config["chat_template"] = next(reversed(named), None)
