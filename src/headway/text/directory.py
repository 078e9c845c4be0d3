"""The tokenizer files of a model directory: found, loaded, tried and written.

Next to a ``tokenizer.json`` that says otherwise, ``tokenizer_config.json`` is read as transformers does: some of its
classes make parts of the tokenizer from these entries and their own defaults; others take ``tokenizer.json`` as it is.
"""

import itertools
import json
from functools import partial
from pathlib import Path
from typing import Any

import tokenizers

from headway.errors import InputError, shown
from headway.io.atomic_write import write_json, write_whole
from headway.io.regular_file import inside
from headway.io.strict_json import read_text
from headway.text.backend import Backend, IsolatedBackend, RustBackend
from headway.text.rust_errors import guarded
from headway.text.safe.tokenizer_files import (
    MAX_BYTES,
    SAVE_AGAIN,
    check_largest,
    check_tokenizer,
    is_known,
    parts_of,
    read_object,
)
from headway.text.sentencepiece.model_file import SPACE
from headway.text.special_tokens import (
    NAMES,
    add_later,
    content_of,
    flag,
    named_tokens,
    padding,
    read_config,
    usual_names,
)
from headway.text.translation import TARGET_CODE, load_m2m100, load_marian
from headway.text.vocabularies import llama_spaces, load_bert, load_byte_level, load_llama, load_t5

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


def load(folder: Path, rows: int | None) -> tuple[Backend, Backend | None, dict[str, str], dict[str, Any]]:
    """(source side, target side where it is another, special tokens by role, configuration) of a directory.

    ``rows``: the number of rows of the model's embeddings, where known.

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
    return backend, target, names, config


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


BERT = ("BertTokenizer", "DistilBertTokenizer", "MobileBertTokenizer", "bert", "distilbert")
ROBERTA = ("RobertaTokenizer", "BartTokenizer", "roberta", "bart")
BYTE_LEVEL = (*ROBERTA, "GPT2Tokenizer", "Qwen2Tokenizer", "gpt2", "qwen2", "qwen3")
LLAMA = "LlamaTokenizer"
AS_IT_IS = ("mistral", "modernbert")
"""Types of models for which transformers takes the file as it is, whatever class is named."""

_BERT: dict[str, tuple[str, bool | None]] = {
    "do_lower_case": ("lowercase", True),
    "strip_accents": ("strip_accents", None),
    "tokenize_chinese_chars": ("handle_chinese_chars", True),
}
"""For each entry, its name in ``tokenizer.json`` and the class's default."""


def follow(spec: dict[str, Any], family: str, config: dict[str, Any], path: Path) -> bool:
    """Change a parsed ``tokenizer.json`` (at ``path``) to what the entries say; whether anything was changed.

    ``family``: the tokenizer class, or the type of model where none is named.  Raises InputError naming an entry that
    the file cannot follow.
    """
    if family not in (*BERT, *BYTE_LEVEL, LLAMA):
        return False
    if (kind := spec["model"].get("type")) not in (None, "WordPiece" if family in BERT else "BPE"):
        raise _refused(path, "tokenizer_class", family, f"a class for a {kind}")
    _check_tokens(spec, family, config, path)
    if family == LLAMA:
        return _follow_llama(spec, config, path)
    component, part_type, keys = "normalizer", "BertNormalizer", _BERT
    if family in BYTE_LEVEL:
        component, part_type, keys = "pre_tokenizer", "ByteLevel", {"add_prefix_space": ("add_prefix_space", False)}
    parts = [part for part in parts_of(spec.get(component), component) if part.get("type") == part_type]
    if family in BYTE_LEVEL and not parts:
        raise _refused(path, "tokenizer_class", family, "a class for a tokenizer.json without ByteLevel")
    changed = False
    for entry, (key, default) in keys.items():
        value = flag(config, entry, default, path.parent)
        if entry in config and not parts:
            raise _refused(path, entry, value, f"a tokenizer.json whose {component} has a {part_type}")
        for part in parts:
            changed |= part.get(key) is not value
            part[key] = value
    return changed


def _follow_llama(spec: dict[str, Any], config: dict[str, Any], path: Path) -> bool:
    read = [part for name in ("pre_tokenizer", "decoder") for part in parts_of(spec.get(name), name)]
    if any(part.get("type") == "ByteLevel" for part in read):
        return False  # Llama 3's, which the class of Llama 2 does not read
    scheme = llama_spaces(config, path.parent)
    decoders: list[dict[str, Any]] = [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "}]
    decoders += [{"type": "ByteFallback"}, {"type": "Fuse"}]
    decoders += [] if scheme == "never" else [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    made: dict[str, Any] = {
        "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": False},
        "decoder": {"type": "Sequence", "decoders": decoders},
    }
    changed = any(spec.get(name) != part for name, part in made.items())
    spec |= made
    return changed


def check_frame(backend: RustBackend, family: str, names: dict[str, str], path: Path) -> None:
    """Refuse other roles than ``tokenizer.json`` has for what is put around a text: transformers puts these around."""
    if family in (*BERT, *ROBERTA):
        ids = guarded(lambda: backend.encode(["a"], special=True, allow_special=False)[0], f"{path}: cannot be used")
        for role, around in (("cls_token", ids[:1]), ("sep_token", ids[-1:])):
            if role in names and [backend.vocabulary[names[role]]] != around:
                raise _refused(path, role, names[role], "the token that tokenizer.json puts before or after a text")


def _check_tokens(spec: dict[str, Any], family: str, config: dict[str, Any], path: Path) -> None:
    """Refuse entries about tokens that would change ids: transformers takes them, and not those of the file."""
    unknown, own = content_of(config.get("unk_token")), spec["model"].get("unk_token")
    if family in BERT and unknown not in (None, own):
        raise _refused(path, "unk_token", unknown, f"{own!r} as in tokenizer.json")
    listed = config.get("added_tokens_decoder")
    named = [value for key, value in config.items() if key.endswith("_token")]
    for entry in (listed, config.get("additional_special_tokens"), config.get("extra_special_tokens")):
        named += entry if isinstance(entry, list) else entry.values() if isinstance(entry, dict) else ()
    known = [content_of(value) for value in named]
    lost = next((row["content"] for row in spec.get("added_tokens") or [] if row["content"] not in known), None)
    if isinstance(listed, dict) and lost is not None:
        raise _refused(path, "added_tokens_decoder", f"no token {lost[:40]!r}", "all added tokens of tokenizer.json")


def _refused(path: Path, entry: str, value: object, expected: str) -> InputError:
    place = path.parent / "tokenizer_config.json"
    return InputError(f"{place}: {entry}: found {str(value)[:60]}, expected {expected}; {SAVE_AGAIN}")
