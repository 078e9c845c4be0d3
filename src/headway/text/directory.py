"""The tokenizer files of a model directory: found, loaded, tried and written."""

import itertools
import json
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers

from headway.errors import InputError, shown
from headway.io.atomic_write import write_json, write_whole
from headway.io.regular_file import inside
from headway.io.strict_json import read_text
from headway.text.backend import Backend, IsolatedBackend, RustBackend
from headway.text.families.entries import AS_IT_IS, check_frame, follow
from headway.text.families.translation import TARGET_CODE, load_m2m100, load_marian
from headway.text.families.vocabularies import load_bert, load_byte_level, load_llama, load_t5
from headway.text.rust_errors import guarded
from headway.text.safe.known import is_known
from headway.text.safe.tokenizer_files import MAX_BYTES, SAVE_AGAIN, check_largest, check_tokenizer, read_object
from headway.text.special_tokens import (
    NAMES,
    add_later,
    content_of,
    named_tokens,
    padding,
    read_config,
    usual_names,
)

_CLASSES = {
    "source.spm": ("MarianTokenizer",),
    "sentencepiece.bpe.model": ("M2M100Tokenizer",),
    "spiece.model": ("T5Tokenizer", "MT5Tokenizer"),
    "tokenizer.model": ("LlamaTokenizer",),
    "merges.txt": ("GPT2Tokenizer", "RobertaTokenizer", "BartTokenizer", "DistilRobertaTokenizer"),
    "vocab.txt": ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MobileBertTokenizer"),
}
"""The tokenizer classes supported for each file; other classes interpret the same files differently."""
_ROBERTA = ("RobertaTokenizer", "BartTokenizer", "DistilRobertaTokenizer", "roberta", "bart")
PROBES = (
    "",
    "Hello, world! It's 12:30.",
    "Ünïcödé, 日本語, ไทย, عربي, 👩‍👩‍👧 \ufffd",
    "\t tabs\nand  lines\r\n\n",
    "a" * 48 + "!",
    " " * 48 + "0" * 48,
)
"""Texts on which a tokenizer is tried when it is loaded, so that a bad file fails then and not in use."""
KEPT = (
    *("chat_template", "response_template", "chat_control_tokens", "padding_side", "truncation_side", "legacy"),
    *("add_prefix_space", "add_bos_token", "add_eos_token", "do_lower_case", "strip_accents", "tokenize_chinese_chars"),
)
"""Entries of a loaded ``tokenizer_config.json`` that are saved unchanged."""
KEPT_FOR_TRANSLATION = (
    *("source_lang", "target_lang", "separate_vocabs", "src_lang", "tgt_lang", "language_codes", TARGET_CODE),
)


class Loaded(NamedTuple):
    """The tokenizer of a directory: the source side, the target side where it is another, roles and configuration."""

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
    sides = dict.fromkeys((backend, target or backend))
    check_largest(max(max(side.vocabulary.values()) for side in sides), rows, path)
    for side in sides:
        _probe(side, path)
    return Loaded(backend, target, names, config)


def _read(
    folder: Path, config: dict[str, Any], rows: int | None
) -> tuple[Path, Backend, Backend | None, dict[str, str]]:
    """The file that errors name, the source side, the target side where it is another, and the roles."""
    here = [name for name in _CLASSES if (folder / name).exists()]
    separate = (folder / "vocab.json").exists()
    if separate and here and here[0] in ("source.spm", "sentencepiece.bpe.model"):
        _check_class(folder, config, here[0])
        return folder / here[0], *(load_marian if here[0] == "source.spm" else load_m2m100)(folder, config)
    if (folder / "tokenizer.json").exists():
        path = inside(folder, "tokenizer.json")
        return path, *_load_json(path, rows, config)
    first = next((name for name in here if name in ("spiece.model", "tokenizer.model", "merges.txt", "vocab.txt")), "")
    if not first:
        raise InputError(f"{folder / 'tokenizer.json'}: no such file; {SAVE_AGAIN}")
    family = _check_class(folder, config, first)
    path = inside(folder, first)
    if first == "merges.txt":
        backend, names = load_byte_level(inside(folder, "vocab.json"), path, config, family in _ROBERTA)
    else:
        read = {"spiece.model": load_t5, "tokenizer.model": load_llama, "vocab.txt": load_bert}[first]
        backend, names = read(path, config)
    return path, RustBackend(backend), None, names


def _load_json(path: Path, rows: int | None, config: dict[str, Any]) -> tuple[Backend, None, dict[str, str]]:
    spec, text = read_object(path)
    check_tokenizer(spec, path, rows)
    family = _class_of(path.parent, config)
    changed = follow(spec, family, config, path)
    # of a tokenizer that is not known, only another process may use these parts
    parts = None if is_known(spec) else {name: spec.get(name) for name in ("normalizer", "pre_tokenizer")}
    if changed or parts is not None:
        text = json.dumps({**spec, **dict.fromkeys(parts or ())})
    backend = guarded(lambda: tokenizers.Tokenizer.from_str(text), f"{path}: cannot be loaded")
    for row in spec.get("added_tokens") or []:
        if (expected := backend.token_to_id(row["content"])) != row["id"]:
            raise InputError(
                f"{path}: added_tokens, id of {row['content']!r}: found {row['id']}, expected "
                f"{expected}: added ids follow those of model.vocab without a gap"
            )
    add_later(backend, config, path)
    names = named_tokens(config, {}, backend.token_to_id, path) or usual_names(backend)
    roles = names.values()
    side = RustBackend(backend, roles) if parts is None else IsolatedBackend(backend, roles, parts, str(path))
    check_frame(side, family, names, path)
    return side, None, names


def _class_of(folder: Path, config: dict[str, Any]) -> str:
    """The tokenizer class that transformers takes with a ``tokenizer.json``; the model type where none is named."""
    model = _model_config(folder)
    kind, named = model.get("model_type"), _named_class(folder, config) or model.get("tokenizer_class")
    if isinstance(named, str) and named and kind not in AS_IT_IS:
        return named.removesuffix("Fast")
    return kind if isinstance(kind, str) else ""


def _named_class(folder: Path, config: dict[str, Any]) -> str:
    """The tokenizer class that ``tokenizer_config.json`` names; "" for none.  Raises InputError for what is no name."""
    named = config.get("tokenizer_class")
    if named is not None and not isinstance(named, str):
        raise InputError(f"{folder / 'tokenizer_config.json'}: tokenizer_class: found {shown(named)}, expected a name")
    return named or ""


def _model_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    return read_object(path)[0] if path.exists() else {}


def _check_class(folder: Path, config: dict[str, Any], file: str) -> str:
    """The tokenizer class or model type that a directory names; "" for none.

    Raises InputError for a class that interprets ``file`` differently.
    """
    named = _named_class(folder, config).removesuffix("Fast")
    if named and named not in _CLASSES[file]:
        raise InputError(
            f"{folder / 'tokenizer_config.json'}: tokenizer_class: found {named[:40]!r}, expected "
            f"{' or '.join(_CLASSES[file])} with {file}; {SAVE_AGAIN} to get a tokenizer.json"
        )
    return str(named or _model_config(folder).get("model_type", ""))


def _read_template(folder: Path, config: dict[str, Any]) -> None:
    """``chat_template.jinja`` takes precedence over the configuration; of several templates, "default" is used."""
    path = inside(folder, "chat_template.jinja")
    if path.exists():
        config["chat_template"] = read_text(path, max_bytes=MAX_BYTES, advice="expected a chat template")
    templates = config.get("chat_template")
    if isinstance(templates, list):
        named = [row.get("template") for row in templates if isinstance(row, dict) and row.get("name") == "default"]
        config["chat_template"] = next(reversed(named), None)


def _probe(backend: Backend, path: Path) -> None:
    """Encode and decode a few texts.  Raises InputError, its message beginning with ``path``."""
    size = 1 + max(backend.vocabulary.values())
    for text, special in itertools.product(PROBES, (False, True)):
        what = f"{path}: loads, but cannot encode and decode {text[:24]!r}; expected any text to work"
        ids = guarded(partial(backend.encode, [text], special=special, allow_special=False), what)[0]
        guarded(partial(backend.decode, ids, skip_special=True), what)
        if ids and max(ids) >= size:
            raise InputError(f"{path}: found the id {max(ids)} in use, expected ids below {size}")


def write(
    folder: Path,
    backend: Backend,
    names: dict[str, str],
    config: dict[str, Any],
    max_length: int | None,
    *,
    segments: bool,
    padding_side: str | None,
) -> None:
    """Write the files of a backend and ``tokenizer_config.json`` in the format of transformers, each atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    inputs = config.get("model_input_names")
    segments = segments and (not isinstance(inputs, list) or "token_type_ids" in inputs)
    translates = backend.transformers_class != RustBackend.transformers_class
    kept = (*KEPT, *(KEPT_FOR_TRANSLATION if translates else ()))
    entries = {
        "model_input_names": ["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"],
        **{key: config[key] for key in kept if key in config},
        **{key: value for key, value in config.items() if _names_tokens(key, value, backend)},
        **{name: names[name] for name in NAMES if name in names},
        **({"padding_side": padding_side, "pad_token": padding(names)} if padding_side else {}),
        "model_max_length": max_length or 10**30,
        "clean_up_tokenization_spaces": False,
        "tokenizer_class": backend.transformers_class,
    }
    for name, content in backend.files().items():
        write_whole(folder / name, partial(Path.write_bytes, data=content))
    write_json(folder / "tokenizer_config.json", entries)


def _names_tokens(key: str, value: Any, backend: Backend) -> bool:
    """Whether an entry names special tokens of the backend without a role of ``NAMES``."""
    if not (key in ("additional_special_tokens", "extra_special_tokens") or key.endswith("_token")) or key in NAMES:
        return False
    listed = list(value.values()) if isinstance(value, dict) and "content" not in value else value
    tokens = [content_of(token) for token in (listed if isinstance(listed, list) else [listed])]
    return all(isinstance(token, str) and backend.vocabulary.get(token) in backend.special_ids for token in tokens)
